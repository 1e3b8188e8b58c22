package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/provision/cloud/resolve"
	"github.com/plumbline-dev/plumbline/provision/images"
	"github.com/plumbline-dev/plumbline/provision/nodegroup"
)

// initAWS is an EKS cluster with node groups.
type initAWS struct {
	groups []cloud.NodeGroup
	queue  bool
}

func (initAWS) Images(ctx context.Context, class *awsv1.EC2NodeClass, kubernetes string) ([]resolve.Image, error) {
	if !strings.HasPrefix(images.Selects(class), "al2023@") {
		return nil, &resolve.EmptyError{What: "AMI", Field: "amiSelectorTerms", Class: class.Name}
	}
	return publishingAWS{}.Images(ctx, class, kubernetes)
}

func (initAWS) Cluster(context.Context, string) (cloud.Cluster, error) {
	return cloud.Cluster{Name: "prod", Version: "1.36", ClusterSecurityGroup: "sg-0c1", Subnets: []string{"subnet-0a", "subnet-0b"}}, nil
}

func (a initAWS) NodeGroups(context.Context, string) ([]cloud.NodeGroup, error) { return a.groups, nil }

func (initAWS) SubnetsByID(_ context.Context, ids []string) (map[string]cloud.Subnet, error) {
	found := map[string]cloud.Subnet{}
	for _, id := range ids {
		found[id] = cloud.Subnet{ID: id, Zone: "eu-west-1" + id[len(id)-1:]}
	}
	return found, nil
}

func (initAWS) Sizes(_ context.Context, types []string) (map[string]cloud.Size, error) {
	found := map[string]cloud.Size{}
	for _, name := range types {
		found[name] = cloud.Size{CPU: 4, MiB: 16384, Archs: []string{"amd64"}}
	}
	return found, nil
}

func (a initAWS) Queue(_ context.Context, name string) (cloud.Queue, error) {
	if !a.queue {
		return cloud.Queue{}, &cloud.NotFoundError{What: "SQS queue " + name, Where: "eu-west-1"}
	}
	return cloud.Queue{Name: name}, nil
}

func webGroup() cloud.NodeGroup {
	return cloud.NodeGroup{
		Name: "web", AMIType: "AL2023_x86_64_STANDARD", CapacityType: "SPOT", InstanceTypes: []string{"m5.xlarge", "m6i.xlarge"}, DiskGiB: 50,
		Labels: map[string]string{"team": "shop"}, Taints: []cloud.NodeTaint{{Key: "web", Value: "yes", Effect: "NoSchedule"}},
		RoleARN: "arn:aws:iam::111122223333:role/eks/nodes-of-web", Subnets: []string{"subnet-0a", "subnet-0b"}, Min: 2, Max: 6, Desired: 3,
	}
}

// initialize runs `plumbline init` for cluster prod in a folder.
func initialize(t *testing.T, aws initAWS, folder string, args ...string) (out string, err error) {
	t.Helper()
	cmd := newInitCommand(initCommand{
		now:  time.Now,
		dial: func(context.Context, string) (nodegroup.AWS, error) { return aws, nil },
		propose: func(_ context.Context, p initProposal) (string, error) {
			return p.provider + " " + p.Branch + " into " + p.Base, nil
		},
	})
	var text bytes.Buffer
	cmd.SetOut(&text)
	cmd.SetErr(&text)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	cmd.SetArgs(append([]string{"--cluster", "prod", "--region", "eu-west-1", "--path", filepath.Join(folder, "clusters", "prod")}, args...))
	err = cmd.ExecuteContext(t.Context())
	return text.String(), err
}

func readFile(t *testing.T, parts ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(parts...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestInit checks the files for a cluster with one node group, which `plumbline render` accepts.
func TestInit(t *testing.T) {
	folder := t.TempDir()
	if out, err := initialize(t, initAWS{groups: []cloud.NodeGroup{webGroup()}, queue: true}, folder); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	home := filepath.Join(folder, "clusters", "prod")
	for file, wants := range map[string][]string{
		"plumbline.yaml":     {"name: prod", "region: eu-west-1", "interruptionQueue: prod", "eks.amazonaws.com/nodegroup: web", "nodes: [./nodes]"},
		"nodes/default.yaml": {"role: KarpenterNodeRole-prod", "alias: al2023@v20251103", "id: subnet-0a # eu-west-1a", "id: sg-0c1"},
		"nodes/general.yaml": {"values: [amd64]", "values: [spot, on-demand]", "cpu: 24", "memory: 98304Mi"},
	} {
		text := readFile(t, home, file)
		for _, want := range wants {
			if !strings.Contains(text, want) {
				t.Errorf("%s: no %q in:\n%s", file, want, text)
			}
		}
	}
	if _, err := renderFolder(t.Context(), home, "", false); err != nil {
		t.Error(err)
	}
}

// TestInitOverwritesNothing checks that a file with another content stays, that nothing else is written then, and that a
// second run adds the definitions of a node group to a folder that has a plumbline.yaml.
func TestInitOverwritesNothing(t *testing.T) {
	folder := t.TempDir()
	nodes := filepath.Join(folder, "clusters", "prod", "nodes")
	if err := os.MkdirAll(nodes, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(nodes, "general.yaml"), []byte("mine\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	aws := initAWS{groups: []cloud.NodeGroup{webGroup()}}
	_, err := initialize(t, aws, folder)
	if err == nil || !strings.Contains(err.Error(), "overwrites no file: clusters/prod/nodes/general.yaml exists") &&
		!strings.Contains(err.Error(), "overwrites no file: "+"nodes/general.yaml") && !strings.Contains(err.Error(), "general.yaml exists") {
		t.Errorf("error %v", err)
	}
	if left, _ := os.ReadDir(nodes); len(left) != 1 || readFile(t, nodes, "general.yaml") != "mine\n" {
		t.Errorf("files %v", left)
	}
	if err := os.Remove(filepath.Join(nodes, "general.yaml")); err != nil {
		t.Fatal(err)
	}
	if out, err := initialize(t, aws, folder); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	before := readFile(t, folder, "clusters", "prod", "plumbline.yaml")
	if _, err := initialize(t, aws, folder); err == nil || !strings.Contains(err.Error(), "use --from nodegroup/NAME") {
		t.Errorf("error %v", err)
	}
	out, err := initialize(t, aws, folder, "--from", "nodegroup/web")
	if err != nil || readFile(t, folder, "clusters", "prod", "plumbline.yaml") != before || !strings.Contains(out, "nodes/web.yaml") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := initialize(t, aws, folder, "--from", "nodegroup/web"); err != nil || !strings.Contains(out, "unchanged") {
		t.Errorf("again: %v\n%s", err, out)
	}
	if _, err := renderFolder(t.Context(), filepath.Join(folder, "clusters", "prod"), "", false); err != nil {
		t.Error(err)
	}
}

// TestInitRefuses checks wrong arguments, and that nothing is written with --dry-run.
func TestInitRefuses(t *testing.T) {
	aws := initAWS{groups: []cloud.NodeGroup{webGroup()}}
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"no such group":    {[]string{"--from", "nodegroup/api"}, "has no managed node group api: it has web"},
		"no kind":          {[]string{"--from", "web"}, "give nodegroup/NAME"},
		"no such provider": {[]string{"--provider", "svn"}, "not one of github"},
		"no clone":         {[]string{"--branch", "start"}, "needs a clone"},
		"nothing to keep":  {[]string{"--keep", "api"}, "has no managed node group api"},
		"dry run":          {[]string{"--dry-run"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			out, err := initialize(t, aws, folder, c.args...)
			if c.want == "" && (err != nil || !strings.Contains(out, "would write")) || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v\n%s", err, out)
			}
			if left, _ := os.ReadDir(folder); len(left) > 0 {
				t.Errorf("wrote %v", left)
			}
		})
	}
}

// gitIn runs git in a folder.
func gitIn(t *testing.T, folder string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", folder, "-c", "user.name=ada", "-c", "user.email=ada@example.com"}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// TestInitOnABranch checks that the files are committed on a new branch, pushed and proposed, with the pipeline of the host,
// and that other changes of the clone are not committed.
func TestInitOnABranch(t *testing.T) {
	origin, folder := t.TempDir(), t.TempDir()
	gitIn(t, origin, "init", "--quiet", "--bare", "--initial-branch", "main")
	gitIn(t, folder, "init", "--quiet", "--initial-branch", "main")
	for key, value := range map[string]string{
		"user.name": "ada", "user.email": "ada@example.com", "remote.origin.url": "git@github.com:acme/fleet.git", "remote.origin.pushurl": origin,
	} {
		gitIn(t, folder, "config", key, value)
	}
	gitIn(t, folder, "commit", "--quiet", "--allow-empty", "--message", "first")
	if err := os.WriteFile(filepath.Join(folder, "draft"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := initialize(t, initAWS{groups: []cloud.NodeGroup{webGroup()}}, folder, "--branch", "start")
	if err != nil || !strings.Contains(out, "pull request: github start into main") {
		t.Fatalf("%v\n%s", err, out)
	}
	want := "" +
		".github/workflows/plumbline-plan.yaml\nclusters/prod/nodes/default.yaml\nclusters/prod/nodes/general.yaml\nclusters/prod/plumbline.yaml"
	if got := gitIn(t, origin, "ls-tree", "-r", "--name-only", "start"); got != want {
		t.Errorf("pushed:\n%s", got)
	}
	plan := gitIn(t, origin, "show", "start:.github/workflows/plumbline-plan.yaml")
	for _, line := range []string{`paths: ["clusters/prod/**"]`, "FOLDER: clusters/prod\n", "SNAPSHOT: snapshots/prod.json.gz"} {
		if !strings.Contains(plan, line) {
			t.Errorf("no %q in the pipeline:\n%.400s", line, plan)
		}
	}
	if out, err := initialize(t, initAWS{}, t.TempDir(), "--branch", "start"); err == nil {
		t.Errorf("a branch without a clone: %s", out)
	}
}

// TestPipelines checks that each pipeline gets the folder, and mentions no other cluster.
func TestPipelines(t *testing.T) {
	for provider, p := range ciFiles {
		for _, folder := range []string{"clusters/stage", "."} {
			text, err := pipelineText(p.example, folder, "stage")
			if err != nil || strings.Contains(text, "prod-eu") || !strings.Contains(text, "FOLDER: "+folder+"\n") {
				t.Errorf("%s, %s: %v\n%s", provider, folder, err, text)
			}
		}
	}
}

// TestProviders checks which Git host a remote is on.
func TestProviders(t *testing.T) {
	for remote, want := range map[string]string{
		"git@github.com:acme/fleet.git": "github https://github.com/acme/fleet", "https://ada:secret@gitlab.example.com/a/b/fleet.git": "gitlab https://gitlab.example.com/a/b/fleet",
		"ssh://git@codeberg.org:22/acme/fleet.git": "forgejo https://codeberg.org/acme/fleet", "/srv/git/fleet.git": " ", "https://git.example.com/acme/fleet": " https://git.example.com/acme/fleet",
	} {
		address := webAddress(remote)
		if got := providerOf(address) + " " + address; got != want {
			t.Errorf("%s: %q, want %q", remote, got, want)
		}
	}
}

// TestInitOfAnyNodeGroup checks over generated node groups that the definitions are valid, and that what a NodePool can have is
// the same.
func TestInitOfAnyNodeGroup(t *testing.T) {
	for seed := range uint64(30) {
		random := rand.New(rand.NewPCG(seed, 1))
		group := generatedGroup(random)
		folder := t.TempDir()
		out, err := initialize(t, initAWS{groups: []cloud.NodeGroup{group}, queue: random.IntN(2) == 0}, folder, "--from", "nodegroup/"+group.Name)
		if err != nil {
			t.Fatalf("seed %d: %+v: %v\n%s", seed, group, err, out)
		}
		rendered, err := renderFolder(t.Context(), filepath.Join(folder, "clusters", "prod"), "", false)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		classes, pools, err := classesOf(rendered.set)
		if err != nil || len(classes) != 1 || len(pools[classes[0].Name]) != 1 {
			t.Fatalf("seed %d: %v, %d classes", seed, err, len(classes))
		}
		pool := pools[classes[0].Name][0]
		if got := pool.Spec.Template.Labels["team"]; got != group.Labels["team"] {
			t.Errorf("seed %d: label %q, want %q", seed, got, group.Labels["team"])
		}
		if len(pool.Spec.Template.Spec.Taints) != len(group.Taints) {
			t.Errorf("seed %d: taints %v, want %v", seed, pool.Spec.Template.Spec.Taints, group.Taints)
		}
		if template := group.Template; template != nil && template.UserData != "" && *classes[0].Spec.UserData != template.UserData {
			t.Errorf("seed %d: user data %q, want %q", seed, *classes[0].Spec.UserData, template.UserData)
		}
		if aliases := images.Selects(classes[0]); group.AMIType == "AL2023_x86_64_STANDARD" && aliases != "al2023@v20251103" {
			t.Errorf("seed %d: %s", seed, aliases)
		}
	}
}

// one returns one of some values.
func one[T any](random *rand.Rand, of ...T) T { return of[random.IntN(len(of))] }

// generatedGroup returns a node group that EKS allows.
func generatedGroup(random *rand.Rand) cloud.NodeGroup {
	types := []string{"m5.large", "m6i.2xlarge", "c6a.xlarge", "r5.4xlarge"}
	on := random.IntN(2) == 0
	g := cloud.NodeGroup{
		Name:         one(random, "web", "Batch_jobs", "a-b-c", "X", "ng-2025"),
		AMIType:      one(random, "AL2023_x86_64_STANDARD", "AL2023_x86_64_STANDARD", "WINDOWS_CORE_2022_x86_64", "WINDOWS_FULL_2025_x86_64", "CUSTOM", "BOTTLEROCKET_x86_64_FIPS"),
		CapacityType: one(random, "ON_DEMAND", "SPOT", "ON_DEMAND"), InstanceTypes: slices.Clone(types[random.IntN(2) : 2+random.IntN(2)]),
		Labels:  map[string]string{"team": one(random, "", "shop", "true", "yes", "01"), "example.com/a_B.c": "x", "node.kubernetes.io/role": "w", "topology.kubernetes.io/region": "eu-west-1", "sub.k8s.io/x": ""},
		RoleARN: "arn:aws:iam::111122223333:role/nodes", Subnets: []string{"subnet-0a", "subnet-0b", "subnet-0c"}[:1+random.IntN(3)],
		Min: random.IntN(3), Max: 1 + random.IntN(50), Desired: 1, Repair: on,
	}
	for i := range random.IntN(4) {
		g.Taints = append(g.Taints, cloud.NodeTaint{Key: fmt.Sprintf("example.com/t%d", i), Value: one(random, "", "x", "yes", "1"), Effect: one(random, "NoSchedule", "PreferNoSchedule", "NoExecute")})
	}
	if g.AMIType != "CUSTOM" && random.IntN(2) == 0 {
		g.DiskGiB, g.SSHKey, g.RemoteGroup = one[int32](random, 20, 100), one(random, "", "ada"), one(random, "", "sg-0ee")
		return g
	}
	g.Template = &cloud.LaunchTemplate{
		ID: "lt-1", Version: "3", KeyName: one(random, "", "ada"), SecurityGroups: one(random, nil, []string{"sg-01", "sg-02"}),
		UserData: one(random, "", "#!/bin/bash\necho ${CLUSTER_NAME:-x} $${HOME} \"${REGION}\"\n", "a: 1\r\n\tb\n", "  leading\n\n\ntrailing \n\n", "one line"),
		Disks:    one(random, nil, []cloud.Disk{{Device: "/dev/xvda", Type: "gp3", GiB: 80, IOPS: 4000, Throughput: 250, Encrypted: &on, KMSKey: "arn:aws:kms:eu-west-1:111122223333:key/1"}, {Device: "/dev/xvdb"}}),
		Metadata: one(random, nil, &cloud.Metadata{Endpoint: "enabled", Tokens: "optional", HopLimit: 3}), Monitoring: on, PublicAddress: one(random, nil, &on),
		InstanceTags: map[string]string{"Name": "web ${X}", "kubernetes.io/cluster/prod": "owned", "empty": ""},
		Other:        one(random, nil, []string{"CpuOptions", "EbsOptimized"}),
	}
	if strings.HasPrefix(g.AMIType, "BOTTLEROCKET") {
		g.Template.UserData = "[settings.host-containers.admin]\nenabled = true\n"
	}
	if g.AMIType == "CUSTOM" {
		g.Template.ImageID = "ami-0123"
	}
	return g
}
