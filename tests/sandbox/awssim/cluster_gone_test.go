package awssim_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim"
)

const ownerTag = "kubernetes.io/cluster/" + clusterName

// gone runs `plumbline teardown --cluster-gone`, as a process, against the account.
type gone struct{ verify }

// newGone returns an account, and a user of it with the two policies.
func newGone(t *testing.T) gone {
	t.Helper()
	g := gone{newVerify(t)}
	policies := map[string]string{}
	for _, file := range []string{"iam-policy-verify.json", "iam-policy-teardown.json"} {
		text, err := os.ReadFile(filepath.Join("..", "..", "..", "manifests", file))
		noError(t, err)
		policies["ender-"+file] = strings.NewReplacer("${PARTITION}", "aws", "${REGION}", region, "${ACCOUNT}", "000000000000", "${CLUSTER_NAME}", clusterName).Replace(string(text))
	}
	noError(t, g.AddRole(awssim.Role{Name: "ender", Trust: podsTrust, Policies: policies}))
	g.RegisterCredentials("ender", "ender")
	g.key = "ender"
	return g
}

func (g gone) teardown(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	return g.exec(t, append([]string{"teardown", "--cluster-gone", "--cluster", clusterName, "--region", region, "--account", "000000000000", "--timeout", "4s", "-o", "json"}, args...)...)
}

// changes returns the calls that changed something, or would have.
func (g gone) changes() (made []string) {
	for _, call := range g.Calls("", "") {
		if call.AccessKey == g.key && !strings.HasPrefix(call.Action, "Describe") && !strings.HasPrefix(call.Action, "Get") && !strings.HasPrefix(call.Action, "List") {
			made = append(made, call.Action)
		}
	}
	return made
}

// running returns all running instances.
func (g gone) running() (ids []string) {
	for _, i := range g.Instances() {
		if i.State == "running" || i.State == "pending" {
			ids = append(ids, i.ID)
		}
	}
	return ids
}

// TestClusterGone: what only this cluster has is deleted, of each kind, and nothing else.
func TestClusterGone(t *testing.T) {
	g := newGone(t)
	noError(t, g.AddCluster(awssim.Cluster{Name: "staging", Version: "1.36"}))
	theirs, err := g.AddNode("staging", "general")
	noError(t, err)
	theirVolume := g.CreateVolume("eu-west-1a", 8, map[string]string{"kubernetes.io/cluster/staging": "owned"})

	ids := g.launch(t, 2)
	shared := ids[1]
	g.tag(t, shared, "kubernetes.io/cluster/staging", "shared")
	g.CreateVolume("eu-west-1a", 8, map[string]string{ownerTag: "owned"})
	keep := g.CreateVolume("eu-west-1a", 8, map[string]string{ownerTag: "owned", "plumbline.dev/keep": ""})
	_, err = g.AddInterface(clusterName, map[string]string{"cluster.k8s.amazonaws.com/name": clusterName})
	noError(t, err)
	g.template(t, "karpenter.k8s.aws/1", ec2types.ArchitectureValuesX8664)
	profiles := g.profiles(t)
	noError(t, g.SetClusterGone(clusterName, true))

	if code, out, errs := g.teardown(t); code != 4 || !strings.Contains(out, "--terminate would terminate 1 instance ("+ids[0]+")") ||
		!strings.Contains(out, "instance "+shared+" stays: it has a tag of cluster staging, too") || !strings.Contains(out, "--sweep would delete 1 volume") {
		t.Errorf("dry run: exit code %d: %s%s", code, out, errs)
	}
	if changed := g.changes(); len(changed) > 0 {
		t.Errorf("the dry run calls %v", changed)
	}
	if code, out, errs := g.teardown(t, "--terminate", "--sweep", "--yes"); code != 4 || !strings.Contains(errs, "left in AWS: 1 instance ("+shared+"), 2 instance profiles ("+strings.Join(profiles, ", ")+")") {
		t.Errorf("exit code %d, want what staging may have to be left: %s%s", code, out, errs)
	}
	noError(t, g.Untag(shared, "kubernetes.io/cluster/staging"))
	noError(t, g.DeleteVolume(keep))
	code, out, errs := g.teardown(t, "--terminate", "--sweep", "--yes")
	if code != 0 {
		t.Errorf("exit code %d: %s%s", code, out, errs)
	}
	if running := g.running(); !slices.Equal(running, []string{theirs}) || g.DeleteVolume(theirVolume) != nil {
		t.Errorf("staging has %v, want %s and its volume", running, theirs)
	}
}

// TestClusterGoneEndsNothing if the cluster may exist, AWS does not respond, or permissions are missing.
func TestClusterGoneEndsNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("it waits for what does not end")
	}
	g := newGone(t)
	id := g.launch(t, 1)[0]
	noError(t, g.SetClusterGone(clusterName, true))
	cases := map[string]struct {
		begin func(t *testing.T) (end func())
		args  []string
		code  int
		says  string
	}{
		"EKS has it": {func(t *testing.T) func() {
			noError(t, g.SetClusterGone(clusterName, false))
			return func() { noError(t, g.SetClusterGone(clusterName, true)) }
		}, nil, 1, "EKS cluster " + clusterName + " still exists in " + region},
		"EKS may not be asked":   {g.faulty("eks", "DescribeCluster", awssim.Deny), nil, 1, "is gone: AWS denies eks:DescribeCluster"},
		"EKS is throttled":       {g.faulty("eks", "DescribeCluster", awssim.Throttle), nil, 1, "AWS throttles eks:DescribeCluster"},
		"another account":        {nil, []string{"--account", "111122223333"}, 1, "the AWS credentials are for account 000000000000"},
		"a question is denied":   {g.faulty("ec2", "DescribeVolumes", awssim.Deny), nil, 1, "did not answer every query"},
		"may not terminate":      {g.faulty("ec2", "TerminateInstances", awssim.Deny), nil, 1, "allow ec2:TerminateInstances to the credentials in use, as manifests/iam-policy-teardown.json does"},
		"terminate is throttled": {g.faulty("ec2", "TerminateInstances", awssim.Throttle), nil, 4, "left in AWS: 1 instance (" + id + ")"},
		"protected": {func(t *testing.T) func() {
			noError(t, g.Protect(id, true))
			return func() { noError(t, g.Protect(id, false)) }
		}, nil, 4, "left in AWS: 1 instance (" + id + ")"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if c.begin != nil {
				defer c.begin(t)()
			}
			code, out, errs := g.teardown(t, append([]string{"--terminate", "--sweep", "--yes"}, c.args...)...)
			if code != c.code || !strings.Contains(out+errs, c.says) {
				t.Errorf("exit code %d, want %d with %q: %s%s", code, c.code, c.says, out, errs)
			}
			if running := g.running(); !slices.Equal(running, []string{id}) {
				t.Errorf("%v run, want %s", running, id)
			}
		})
	}
	if code, out, errs := g.teardown(t, "--terminate", "--yes"); code != 0 {
		t.Errorf("in the end: exit code %d: %s%s", code, out, errs)
	}
}

// faulty makes an action fail.
func (g gone) faulty(service, action string, kind awssim.FaultKind) func(t *testing.T) func() {
	return func(t *testing.T) func() {
		_, err := g.AddFault(awssim.Fault{Service: service, Action: action, Kind: kind})
		noError(t, err)
		return func() { g.RemoveFaults("") }
	}
}
