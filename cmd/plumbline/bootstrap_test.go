package main

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/plumbline-dev/plumbline/provision/bootstrap"
	"github.com/plumbline-dev/plumbline/provision/bootstrap/deploy"
	"github.com/plumbline-dev/plumbline/provision/cloud"
)

// bootstrapAWS is an account without a stack, in which each operation of CloudFormation is done at once.
type bootstrapAWS struct {
	// unknown reports whether the cluster does not exist.
	unknown bool
	provisioner
	stack     *cloud.Stack
	template  string
	events    []cloud.StackEvent
	denied    error
	deleted   bool
	executed  []string
	instances []cloud.Instance
	// tags are those of subnets and security groups, by ID.
	tags map[string]map[string]string
}

func (a *bootstrapAWS) NodeGroups(context.Context, string) ([]cloud.NodeGroup, error) {
	return []cloud.NodeGroup{{Name: "web", Subnets: []string{"subnet-1", "subnet-2"}}}, nil
}

func (a *bootstrapAWS) SubnetsByID(_ context.Context, ids []string) (map[string]cloud.Subnet, error) {
	found := map[string]cloud.Subnet{}
	for _, id := range ids {
		found[id] = cloud.Subnet{ID: id, Tags: a.tags[id]}
	}
	return found, nil
}

func (a *bootstrapAWS) SecurityGroupsByID(_ context.Context, ids []string) (map[string]cloud.SecurityGroup, error) {
	found := map[string]cloud.SecurityGroup{}
	for _, id := range ids {
		found[id] = cloud.SecurityGroup{ID: id, Tags: a.tags[id]}
	}
	return found, nil
}

func (a *bootstrapAWS) TaggedNetwork(_ context.Context, key, value string) ([]string, error) {
	var ids []string
	for id, tags := range a.tags {
		if tags[key] == value {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids, nil
}

func (a *bootstrapAWS) Tag(_ context.Context, ids []string, tags map[string]string) error {
	for _, id := range ids {
		if a.tags[id] == nil {
			a.tags[id] = map[string]string{}
		}
		maps.Copy(a.tags[id], tags)
	}
	return nil
}

func (a *bootstrapAWS) Untag(_ context.Context, ids []string, tags map[string]string) error {
	for _, id := range ids {
		maps.DeleteFunc(a.tags[id], func(key, value string) bool { return tags[key] == value })
	}
	return nil
}

func (a *bootstrapAWS) Identity(context.Context) (cloud.Identity, error) {
	return cloud.Identity{Account: "111122223333"}, nil
}

func (a *bootstrapAWS) Cluster(context.Context, string) (cloud.Cluster, error) {
	if a.unknown {
		return cloud.Cluster{}, &cloud.NotFoundError{}
	}
	return cloud.Cluster{
		Name: "prod", ARN: "arn:aws:eks:eu-west-1:111122223333:cluster/prod", Status: "ACTIVE", AuthenticationMode: "API",
		ClusterSecurityGroup: "sg-1",
	}, nil
}

func (a *bootstrapAWS) Addons(context.Context, string) ([]cloud.Addon, error) {
	return []cloud.Addon{{Name: cloud.PodIdentityAgent}}, nil
}

func (a *bootstrapAWS) Association(context.Context, string, string, string) (*cloud.Association, error) {
	return nil, nil
}

func (a *bootstrapAWS) NodeRole(context.Context, string) (cloud.Role, error) {
	return cloud.Role{}, &cloud.NotFoundError{}
}

func (a *bootstrapAWS) ProfileRoles(context.Context, string) ([]string, error) {
	return nil, &cloud.NotFoundError{}
}

func (a *bootstrapAWS) Queue(context.Context, string) (cloud.Queue, error) {
	return cloud.Queue{}, &cloud.NotFoundError{}
}

func (a *bootstrapAWS) HasPolicy(context.Context, string) (bool, error) { return false, nil }

func (a *bootstrapAWS) Instances(context.Context, cloud.Query) ([]cloud.Instance, error) {
	return a.instances, nil
}

func (a *bootstrapAWS) Stack(context.Context, string) (*cloud.Stack, error) { return a.stack, nil }

func (a *bootstrapAWS) StackTemplate(context.Context, string) (string, error) { return a.template, nil }

func (a *bootstrapAWS) StackEvents(_ context.Context, _, after string) ([]cloud.StackEvent, error) {
	if len(a.events) > 0 && a.events[0].Event == after {
		return nil, nil
	}
	return a.events, nil
}

func (a *bootstrapAWS) CreateChangeSet(_ context.Context, r cloud.ChangeSetRequest) (string, error) {
	if a.denied != nil {
		return "", a.denied
	}
	if a.stack == nil {
		a.stack = &cloud.Stack{Name: r.Stack, ID: "id", Status: "REVIEW_IN_PROGRESS"}
	}
	return r.Template, nil
}

func (a *bootstrapAWS) ChangeSet(_ context.Context, _, id string) (cloud.ChangeSet, error) {
	template, err := bootstrap.Parse(id)
	return cloud.ChangeSet{ID: id, Status: "CREATE_COMPLETE", Changes: template.Additions(bootstrap.Template{})}, err
}

func (a *bootstrapAWS) ExecuteChangeSet(_ context.Context, _, id, _ string) error {
	a.executed = append(a.executed, a.stack.Status)
	a.stack.Status, a.template = "CREATE_COMPLETE", id
	a.stack.Outputs = map[string]string{bootstrap.OutputVersion: "1.15.0"}
	a.events = append([]cloud.StackEvent{{Event: "created", Type: "AWS::IAM::Role", ID: bootstrap.NodeRole, Status: "CREATE_COMPLETE"}}, a.events...)
	return nil
}

func (a *bootstrapAWS) DeleteChangeSet(context.Context, string, string) error { return nil }

func (a *bootstrapAWS) DeleteStack(context.Context, string, string) error {
	a.stack, a.deleted = nil, true
	return nil
}

// bootstraps returns a command that is connected to an account.
func bootstraps(t *testing.T, aws *bootstrapAWS, change func(*bootstrapCommand)) (b *bootstrapCommand, out, said *bytes.Buffer) {
	t.Helper()
	out, said = &bytes.Buffer{}, &bytes.Buffer{}
	cmd := &cobra.Command{}
	cmd.SetOut(out)
	cmd.SetErr(said)
	cmd.SetIn(strings.NewReader(""))
	b = &bootstrapCommand{cmd: cmd, aws: aws, began: time.Now(), pause: func(ctx context.Context, _ time.Duration) error { return ctx.Err() }}
	b.cluster, b.region, b.namespace, b.branch, b.path, b.yes = "prod", "eu-west-1", defaultNamespace, "main", "./", true
	if change != nil {
		change(b)
	}
	b.stack = &deploy.Deployer{AWS: aws, Stack: "plumbline-prod", Token: "run", Say: b.say, Wait: func(ctx context.Context) error { return ctx.Err() }}
	return b, out, said
}

func wished() bootstrap.Wish {
	return bootstrap.Wish{
		Region: "eu-west-1", Controller: bootstrap.ServiceAccount{Namespace: "kube-system", Name: "karpenter"},
		Plumbline: bootstrap.ServiceAccount{Namespace: defaultNamespace, Name: "plumbline"}, Daemon: daemonTemplate(),
	}
}

// applyOnce reads the account and applies the stack, as run does.
func applyOnce(t *testing.T, b *bootstrapCommand) error {
	t.Helper()
	facts, err := b.stack.Read(t.Context(), b.aws, b.cluster, wished())
	if err != nil {
		t.Fatal(err)
	}
	if err := b.applyStack(t.Context(), wished(), facts, nil); err != nil {
		return b.withoutRights(t.Context(), wished(), facts, err)
	}
	return nil
}

// TestBootstrapCreatesTheStackOnce: the plan names each resource; a second run changes nothing.
func TestBootstrapCreatesTheStackOnce(t *testing.T) {
	aws := &bootstrapAWS{}
	b, out, said := bootstraps(t, aws, nil)
	if err := applyOnce(t, b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"stack plumbline-prod: 16 changes", "KarpenterNodeRole-prod", "EKS::PodIdentityAssociation"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("printed %s, want %q in it", out, want)
		}
	}
	if !strings.Contains(said.String(), "created IAM::Role") || len(aws.executed) != 1 {
		t.Errorf("said %s, executed %v", said, aws.executed)
	}
	b, out, _ = bootstraps(t, aws, nil)
	if err := applyOnce(t, b); err != nil || len(aws.executed) != 1 || !strings.Contains(out.String(), "is up to date") {
		t.Errorf("again: %v, executed %v, %s", err, aws.executed, out)
	}
}

// TestBootstrapDryRun changes nothing, and leaves no stack without resources behind.
func TestBootstrapDryRun(t *testing.T) {
	aws := &bootstrapAWS{}
	b, out, _ := bootstraps(t, aws, func(b *bootstrapCommand) { b.dryRun = true })
	var exit *exitError
	if err := applyOnce(t, b); !errors.As(err, &exit) || exit.code != exitChanges {
		t.Errorf("got %v", err)
	}
	if len(aws.executed) > 0 || aws.stack != nil || !aws.deleted || !strings.Contains(out.String(), "Add") {
		t.Errorf("executed %v, stack %+v, printed %s", aws.executed, aws.stack, out)
	}
}

// TestBootstrapWithoutRights prints the template, and the command for a person who has the permissions.
func TestBootstrapWithoutRights(t *testing.T) {
	aws := &bootstrapAWS{denied: &cloud.DeniedError{Action: "cloudformation:CreateChangeSet"}}
	b, out, _ := bootstraps(t, aws, nil)
	err := applyOnce(t, b)
	if err == nil || !strings.Contains(err.Error(), "aws cloudformation deploy --region eu-west-1 --stack-name plumbline-prod") {
		t.Errorf("got %v", err)
	}
	if template, err := bootstrap.Parse(out.String()); err != nil || len(template.Resources) != 16 {
		t.Errorf("printed %s, %v", out, err)
	}
}

// TestBootstrapUndoRefuses while EC2 has instances of Karpenter.
func TestBootstrapUndoRefuses(t *testing.T) {
	aws := &bootstrapAWS{stack: &cloud.Stack{ID: "id", Status: "CREATE_COMPLETE"}, instances: []cloud.Instance{{ID: "i-1"}}}
	b, _, _ := bootstraps(t, aws, nil)
	if err := b.undoAll(t.Context()); err == nil || !strings.Contains(err.Error(), "in use by 1 instances of Karpenter, such as i-1") || aws.deleted {
		t.Errorf("got %v, deleted %v", err, aws.deleted)
	}
}

// authAccess returns a cluster with an aws-auth.
func authAccess(t *testing.T, auth *corev1.ConfigMap) *clusterAccess {
	t.Helper()
	scheme, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	return &clusterAccess{WithWatch: fake.NewClientBuilder().WithScheme(scheme).WithObjects(auth).Build()}
}

func awsAuth(labels map[string]string, roles string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: authName, Labels: labels},
		Data:       map[string]string{mapRoles: roles, "mapUsers": "kept"},
	}
}

// TestBootstrapMergesAWSAuth: the entry is added after a backup; a second run has nothing to do, and one that another tool
// applies is not changed.
func TestBootstrapMergesAWSAuth(t *testing.T) {
	const theirs = "- rolearn: arn:aws:iam::111122223333:role/ng\n  groups: [system:nodes]\n"
	b, _, _ := bootstraps(t, &bootstrapAWS{}, nil)
	spec, err := wished().Draft(bootstrap.Facts{Account: "111122223333", Cluster: cloud.Cluster{Name: "prod", AuthenticationMode: "CONFIG_MAP"}})
	if err != nil {
		t.Fatal(err)
	}
	c := authAccess(t, awsAuth(nil, theirs))
	step, err := b.authStep(t.Context(), c, spec)
	if err != nil || !strings.Contains(step.plan, "KarpenterNodeRole-prod") {
		t.Fatalf("%+v, %v", step, err)
	}
	if err := step.act(t.Context()); err != nil {
		t.Fatal(err)
	}
	live, backup := &corev1.ConfigMap{}, &corev1.ConfigMap{}
	for name, into := range map[string]*corev1.ConfigMap{authName: live, authBackup: backup} {
		if err := c.Get(t.Context(), client.ObjectKey{Namespace: "kube-system", Name: name}, into); err != nil {
			t.Fatal(err)
		}
	}
	if !strings.HasPrefix(live.Data[mapRoles], theirs+"- rolearn: arn:") || live.Data["mapUsers"] != "kept" || backup.Data[mapRoles] != theirs {
		t.Errorf("aws-auth %v, backup %v", live.Data, backup.Data)
	}
	if step, err := b.authStep(t.Context(), c, spec); err != nil || step.plan != "" {
		t.Errorf("again: %+v, %v", step, err)
	}
	owned := authAccess(t, awsAuth(map[string]string{"kustomize.toolkit.fluxcd.io/name": "cluster", "kustomize.toolkit.fluxcd.io/namespace": "flux-system"}, theirs))
	if _, err := b.authStep(t.Context(), owned, spec); err == nil || !strings.Contains(err.Error(), "another tool applies it") {
		t.Errorf("of Flux: %v", err)
	}
	malformed := authAccess(t, awsAuth(nil, "rolearn: x"))
	if _, err := b.authStep(t.Context(), malformed, spec); err == nil || !strings.Contains(err.Error(), "is malformed") {
		t.Errorf("malformed: %v", err)
	}
}

func TestBootstrapNames(t *testing.T) {
	if got := regionInHost.FindStringSubmatch("https://ABC.gr7.us-gov-west-1.eks.amazonaws.com"); got == nil || got[1] != "us-gov-west-1" {
		t.Errorf("region %v", got)
	}
	if token := runToken(time.Now()); !regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9-]{1,127}$`).MatchString(token) {
		t.Errorf("token %s", token)
	}
	b, _, _ := bootstraps(t, &bootstrapAWS{}, func(b *bootstrapCommand) { b.cluster = "Prod_EU" })
	if got := b.nodeSyncName(); got != "prod-eu" {
		t.Errorf("NodeSync %s", got)
	}
	if b.cluster = strings.Repeat("a", 51) + "-bbb"; b.nodeSyncName() != strings.Repeat("a", 51) {
		t.Errorf("NodeSync %s", b.nodeSyncName())
	}
}

// TestBootstrapGit: a URL with a password, and a form of ssh that is no URL, are refused before anything is changed, also with
// a Secret.
func TestBootstrapGit(t *testing.T) {
	for url, want := range map[string]string{
		"https://bob:S3cret@git.example.com/a.git": "has a password",
		"git@git.example.com:a/b.git":              "write ssh://git@HOST/PATH",
		"ssh://git@git.example.com/a/b.git":        "create a Secret in namespace plumbline-system",
	} {
		b, _, _ := bootstraps(t, &bootstrapAWS{}, func(b *bootstrapCommand) { b.url = url })
		_, err := b.secretStep(t.Context(), authAccess(t, awsAuth(nil, "")), bootstrap.Spec{})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "S3cret") {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// TestBootstrapAnotherNodeSync: a flag that differs from the NodeSync that exists is not ignored.
func TestBootstrapAnotherNodeSync(t *testing.T) {
	for flag, value := range map[string]string{"": "", "branch": "other", "secret": "other", "charts": "oci://other", "path": "./other"} {
		b, _, _ := bootstraps(t, &bootstrapAWS{}, nil)
		b.cmd = newBootstrapCommand(b.kubeconfig)
		b.url, b.path, b.branch, b.namespace = "https://git.example.com/a.git", "clusters/prod/", "main", "plumbline-system"
		c := authAccess(t, awsAuth(nil, ""))
		if err := c.Create(t.Context(), b.newNodeSync(b.nodeSyncName())); err != nil {
			t.Fatal(err)
		}
		b.path = "./clusters/prod"
		switch flag {
		case "branch":
			b.branch = value
		case "secret":
			b.secret = value
		case "charts":
			b.charts = value
		case "path":
			b.path = value
		}
		if flag != "" {
			if err := b.cmd.Flags().Set(flag, value); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := b.nodeSyncStep(t.Context(), c, bootstrap.Spec{}); (err != nil) != (flag != "") || err != nil && !strings.Contains(err.Error(), "--"+flag) {
			t.Errorf("--%s: %v", flag, err)
		}
	}
}

// TestBootstrapUndoOfNothing: a name with a typo is an error, and a stack that was deleted before is not.
func TestBootstrapUndoOfNothing(t *testing.T) {
	b, _, _ := bootstraps(t, &bootstrapAWS{}, nil)
	if err := b.undoAll(t.Context()); err != nil {
		t.Error(err)
	}
	b, _, _ = bootstraps(t, &bootstrapAWS{unknown: true}, nil)
	if err := b.undoAll(t.Context()); err == nil || !strings.Contains(err.Error(), "check --cluster and --region") {
		t.Error(err)
	}
}
