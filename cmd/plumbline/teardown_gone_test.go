package main

import (
	"context"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/plumbline-dev/plumbline/internal/steppoint"
	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/apply"
	"github.com/plumbline-dev/plumbline/render"
)

// endingAWS is an AWS that accepts all deletions, and records them.
type endingAWS struct {
	asked  []string
	failed map[string]error
	// passes are the same, by pass.
	passes [][]string
}

func (e *endingAWS) Delete(_ context.Context, _ string, resources []cloud.Resource) map[string]error {
	var ids []string
	for _, r := range resources {
		ids = append(ids, r.ID)
	}
	e.asked, e.passes = append(e.asked, ids...), append(e.passes, ids)
	return e.failed
}

func (e *endingAWS) dial(context.Context, string, steppoint.Points) (deleter, error) { return e, nil }

// stranded returns an instance and a volume of this cluster only, and a volume that another cluster uses, too.
func stranded() []cloud.Answer {
	owned := map[string]string{"kubernetes.io/cluster/demo": "owned", "karpenter.sh/nodepool": "general"}
	shared := maps.Clone(owned)
	shared["kubernetes.io/cluster/stage"] = "shared"
	return []cloud.Answer{
		{Kind: cloud.KindInstance, Resources: []cloud.Resource{{Kind: cloud.KindInstance, ID: "i-0a1", State: "running", Tags: owned}}},
		{Kind: cloud.KindVolume, Resources: []cloud.Resource{
			{Kind: cloud.KindVolume, ID: "vol-1", State: "available", Tags: owned},
			{Kind: cloud.KindVolume, ID: "vol-2", State: "available", Tags: shared},
		}},
	}
}

// noServer returns a kubeconfig whose API server is gone.
func noServer(t *testing.T) string { return kubeconfigFor(t, "http://127.0.0.1:1") }

func goneArgs(more ...string) []string {
	return append([]string{"--cluster-gone", "--cluster", "demo", "--region", "eu-west-1", "--account", "111122223333", "--timeout", "1s"}, more...)
}

// TestClusterGone: without flags it only shows what is left; each flag deletes its kind.
func TestClusterGone(t *testing.T) {
	cases := map[string]struct {
		args  []string
		asked []string
		code  int
		says  []string
	}{
		"nothing asked for": {nil, nil, exitStalled, []string{"--terminate would terminate 1 instance (i-0a1)", "--sweep would delete 1 volume (vol-1)", "volume vol-2 stays: it has a tag of cluster stage, too", "left in AWS: "}},
		"--terminate":       {[]string{"--terminate", "--yes"}, []string{"i-0a1"}, exitDone, []string{"terminated or deleted in AWS: 1 instance (i-0a1)", "instance i-0a1 is being terminated"}},
		"--sweep":           {[]string{"--sweep", "--yes"}, []string{"vol-1"}, exitDone, []string{"volume vol-1 is deleted"}},
		"both":              {[]string{"--terminate", "--sweep", "--yes"}, []string{"i-0a1", "vol-1"}, exitDone, nil},
		"not confirmed":     {[]string{"--terminate"}, nil, exitFailed, []string{"confirm with --yes"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			aws, by := awsAnswers(stranded(), stranded(), nothingLeft), &endingAWS{}
			got := teardownOver(t.Context(), t, nil, aws, by, append(goneArgs(c.args...), "--kubeconfig", noServer(t))...)
			if got.code != c.code || !slices.Equal(by.asked, c.asked) {
				t.Errorf("code %d, want %d; ends %v, want %v: %s", got.code, c.code, by.asked, c.asked, got.err)
			}
			for _, want := range c.says {
				if !strings.Contains(got.err, want) {
					t.Errorf("says %s\nwant %q in it", got.err, want)
				}
			}
		})
	}
}

// TestClusterGoneEndsNothing if it may be another cluster, or one that still exists.
func TestClusterGoneEndsNothing(t *testing.T) {
	node := map[string]any{"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"name": "n"}, "spec": map[string]any{"providerID": "aws:///eu-west-1a/i-0a1"}}
	cases := map[string]struct {
		server func(s *apiServer)
		aws    func(aws *remainsOf)
		args   []string
		says   string
	}{
		"a NodeSync of the cluster": {func(*apiServer) {}, nil, nil, "answers, and nodesync/prod in it belongs to cluster demo; nothing was changed"},
		"Karpenter of the cluster": {func(s *apiServer) {
			delete(s.objects, syncPath+"prod")
			s.objects[controllerPath] = karpenterOf("demo")
		}, nil, nil, "deployment/karpenter in it runs Karpenter for cluster demo"},
		"one of the instances":        {func(s *apiServer) { s.objects["/api/v1/nodes/n"] = node }, nil, nil, "answers, and i-0a1 is a Node of it"},
		"it does not say whose it is": {func(s *apiServer) { s.refused["/api/v1/nodes"] = http.StatusForbidden }, nil, nil, "answers, and which cluster it serves is unknown"},
		"it does not know the user":   {func(s *apiServer) { s.refused["/"] = http.StatusUnauthorized }, nil, nil, "answers, and which cluster it serves is unknown"},
		"EKS has it":                  {nil, func(aws *remainsOf) { aws.eks = map[string]error{"demo": nil} }, nil, "EKS cluster demo still exists in eu-west-1: run the teardown against its API server"},
		"EKS may not be asked": {nil, func(aws *remainsOf) {
			aws.eks = map[string]error{"demo": &cloud.DeniedError{Action: "eks:DescribeCluster"}}
		}, nil, "allow eks:DescribeCluster to the credentials in use, as manifests/iam-policy-verify.json does"},
		"another account":             {nil, nil, []string{"--account", "444455556666"}, "the AWS credentials are for account 111122223333, but the cluster is in 444455556666"},
		"the clusters of everybody":   {nil, nil, []string{"--cluster", "*"}, `--cluster "*" is no name of an EKS cluster`},
		"no account":                  {nil, nil, []string{"--account", ""}, "--cluster-gone needs --cluster, --region and --account"},
		"a NodeSync":                  {nil, nil, []string{"prod"}, "--cluster-gone cannot be combined with a NodeSync"},
		"Karpenter's charts":          {nil, nil, []string{"--down-to", "crds"}, "--cluster-gone cannot be combined with --down-to"},
		"a question is not answered":  {nil, func(aws *remainsOf) { aws.answers = [][]cloud.Answer{denied} }, nil, "AWS did not answer every query"},
		"AWS denies to end instances": {nil, nil, nil, "allow ec2:TerminateInstances to the credentials in use, as manifests/iam-policy-teardown.json does"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			kubeconfig := noServer(t)
			if c.server != nil {
				s, _, of := tornDown(t)
				c.server(s)
				kubeconfig = of
			}
			aws, by := awsAnswers(stranded()), &endingAWS{failed: map[string]error{"i-0a1": &cloud.DeniedError{Action: "ec2:TerminateInstances"}}}
			if c.aws != nil {
				c.aws(aws)
			}
			got := teardownOver(t.Context(), t, nil, aws, by, append(goneArgs("--terminate", "--yes", "--kubeconfig", kubeconfig), c.args...)...)
			if asked := c.says[:5] == "allow" && strings.Contains(c.says, "Terminate"); got.code != exitFailed || !strings.Contains(got.err, c.says) || asked != (len(by.asked) > 0) {
				t.Errorf("code %d, ends %v, says %s\nwant %q", got.code, by.asked, got.err, c.says)
			}
		})
	}
}

// TestClusterGoneBesideAnother: an API server of another cluster does not block it, nor does a missing one.
func TestClusterGoneBesideAnother(t *testing.T) {
	s, sync, kubeconfig := tornDown(t)
	sync.Status.Karpenter.Cluster = "stage"
	s.objects[controllerPath] = karpenterOf("stage")
	for name, args := range map[string][]string{"another one": {"--kubeconfig", kubeconfig}, "none": {"--kubeconfig", folder(t, map[string]string{"config": "apiVersion: v1\nkind: Config\n"}) + "/config"}} {
		by := &endingAWS{}
		got := teardownOver(t.Context(), t, nil, awsAnswers(stranded(), stranded(), nothingLeft), by, append(goneArgs("--terminate", "--yes"), args...)...)
		if got.code != exitDone || !slices.Equal(by.asked, []string{"i-0a1"}) || len(s.changes()) > 0 {
			t.Errorf("%s: code %d, ends %v, writes %v: %s", name, got.code, by.asked, s.changes(), got.err)
		}
	}
}

func karpenterOf(cluster string) map[string]any {
	d := karpenterWith(1)
	d["spec"] = map[string]any{"replicas": 1, "template": map[string]any{"spec": map[string]any{"containers": []any{
		map[string]any{"name": "controller", "env": []any{map[string]any{"name": "CLUSTER_NAME", "value": cluster}}},
	}}}}
	return d
}

// TestOnlyTeardownDeletes: no other command can delete something in AWS.
func TestOnlyTeardownDeletes(t *testing.T) {
	for _, root := range []string{"..", "../../reconcile", "../../provision"} {
		err := filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			if at := filepath.Base(path); strings.Contains(string(text), "NewDeleter(") && at != "deleter.go" && at != "teardown_delete.go" {
				t.Errorf("%s makes a Deleter", path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// hasApplied records NodePools as applied by a NodeSync, each with its UID.
func hasApplied(t *testing.T, s *apiServer, sync *v1alpha1.NodeSync, pools map[string]types.UID) {
	t.Helper()
	record := apply.Record{Objects: map[render.Ref]types.UID{}, Pools: map[string]bool{}}
	for name, uid := range pools {
		record.Objects[render.Ref{Kind: render.NodePool, Name: name}], record.Pools[name] = uid, true
	}
	c := fake.NewClientBuilder().WithScheme(scheme.Scheme).Build()
	if err := (&apply.RecordStore{}).Save(t.Context(), c, sync, record); err != nil {
		t.Fatal(err)
	}
	object := &corev1.ConfigMap{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: sync.Namespace, Name: v1alpha1.AppliedName(sync.Name)}, object); err != nil {
		t.Fatal(err)
	}
	object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	s.objects["/api/v1/namespaces/fleet/configmaps/"+object.Name] = object
}

// TestTeardownTerminatesWhatItsPoolsLeft: if the CRD of NodePools is gone, and with it the pools, the record of what
// was applied assigns a NodeClaim to the NodeSync, not its name.
func TestTeardownTerminatesWhatItsPoolsLeft(t *testing.T) {
	for name, c := range map[string]struct {
		pools map[string]types.UID
		asked []string
		says  string
	}{
		"of a pool that was applied":     {map[string]types.UID{"general": "p1"}, []string{"i-0a1"}, "left in AWS: nothing; left in the cluster: NodeClaim/0a1, EC2NodeClass/default, NodeSync/prod. "},
		"of another pool of that name":   {map[string]types.UID{"general": "p2"}, nil, "nodesync/prod is not gone after 300ms"},
		"of a pool that was not applied": {map[string]types.UID{"batch": "p1"}, nil, "nodesync/prod is not gone after 300ms"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, kubeconfig, authority := leftByKarpenter(t, "Drained=True", "VolumesDetached=True")
			for path, object := range s.objects {
				if strings.Contains(path, "/nodepools/") {
					delete(s.objects, path)
				}
				if strings.Contains(path, "/nodeclaims/") {
					object.(map[string]any)["metadata"].(map[string]any)["ownerReferences"] = []any{map[string]any{"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "name": "general", "uid": "p1"}}
				}
			}
			hasApplied(t, s, s.objects[syncPath+"prod"].(*v1alpha1.NodeSync), c.pools)
			aws, by := awsAnswers(instances(nil, "i-0a1"), instances(nil, "i-0a1"), instances(nil, "i-0a1"), instances(nil)), &endingAWS{}
			aws.eks, aws.authority = map[string]error{"demo": nil}, authority
			v := verification{dial: aws.dial, dialDeleter: by.dial, now: time.Now, pause: time.Millisecond, strandedAfter: 20 * time.Millisecond}
			timeout := "1m"
			if c.asked == nil {
				timeout = "300ms"
			}
			got := teardownAsking(t.Context(), t, nil, v, "prod", "--yes", "--terminate", "--timeout", timeout, "--kubeconfig", kubeconfig)
			if got.code != exitStalled || !slices.Equal(c.asked, by.asked) || !strings.Contains(got.err, c.says) {
				t.Errorf("code %d; ends %v, want %v; says %s\nwant %q in it", got.code, by.asked, c.asked, got.err, c.says)
			}
			if shown := strings.Contains(got.out, "NodePool/general (deleted already)"); shown != (c.asked != nil) {
				t.Errorf("prints %s", got.out)
			}
		})
	}
}

// emptiesAtOnce drains the NodeSync as soon as that is requested, and returns the requests.
func emptiesAtOnce(s *apiServer, as func(*v1alpha1.NodeSync)) *[]string {
	done := endsAtOnce(s)
	noted := s.patched
	s.patched = func(s *apiServer, path string) {
		noted(s, path)
		if path != leavingPath {
			return
		}
		sync := s.objects[path].(*v1alpha1.NodeSync)
		sync.Status.ObservedGeneration = sync.Generation
		sync.Status.Removals = []v1alpha1.Removal{{Kind: "NodePool", Name: "general", UID: "general", Phase: v1alpha1.RemovalVerifyingCloud, Reason: v1alpha1.ReasonDrained}}
		conditions.MarkTrue(sync, meta.ReadyCondition, v1alpha1.ReasonDrained, "drained")
		as(sync)
	}
	return done
}

// TestTeardownDownToNodes: the NodeSync and its definitions are kept, its nodes must be gone in EC2, and the output
// tells how to get them back. If repeated, it queries AWS once more.
func TestTeardownDownToNodes(t *testing.T) {
	s, kubeconfig, _ := fleetToLeave(t)
	s.objects["/apis/karpenter.k8s.aws/v1/ec2nodeclasses/default"] = map[string]any{
		"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": map[string]any{"name": "default", "uid": "d", "labels": map[string]any{v1alpha1.OwnerLabel: "fleet.prod"}},
	}
	done := emptiesAtOnce(s, func(*v1alpha1.NodeSync) {})
	template := []cloud.Answer{{Kind: cloud.KindLaunchTemplate, Resources: []cloud.Resource{{Kind: cloud.KindLaunchTemplate, ID: "lt-1", Name: "karpenter.k8s.aws/1", Tags: map[string]string{"karpenter.k8s.aws/ec2nodeclass": "default"}}}}}
	aws := &remainsOf{account: "111122223333", answers: [][]cloud.Answer{template}}
	args := []string{"prod", "--yes", "--down-to", "nodes", "--kubeconfig", kubeconfig}
	got := teardownWith(t.Context(), t, aws, args...)
	if want := []string{"patch " + leavingPath}; got.code != exitDone || !slices.Equal(*done, want) {
		t.Errorf("code %d, did %v, want %v: %s\n%s", got.code, *done, want, got.err, got.out)
	}
	for _, want := range []string{"LOSES ITS NODES", "NodePool/general   1", "stays: ", "EC2NodeClass/default of NodeSync fleet.prod", "launch no nodes until `plumbline resume prod -n fleet`", "nothing is left"} {
		if !strings.Contains(got.out, want) {
			t.Errorf("prints %s\nwant %q in it", got.out, want)
		}
	}
	if strings.Contains(got.out, "NodeSync/prod") || !strings.Contains(got.err, "nodesync/prod: drain is true now") || !strings.Contains(got.err, "nodesync/prod is drained") {
		t.Errorf("says %s\n%s", got.out, got.err)
	}
	again := teardownWith(t.Context(), t, aws, args...)
	if again.code != exitDone || len(*done) != 1 || !strings.Contains(again.err, "nodesync/prod has drain: true already") {
		t.Errorf("again: code %d, did %v: %s", again.code, *done, again.err)
	}
	aws.answers = [][]cloud.Answer{{{Kind: cloud.KindInstance, Resources: []cloud.Resource{{Kind: cloud.KindInstance, ID: "i-1", Tags: map[string]string{"karpenter.sh/nodepool": "general"}}}}}}
	if left := teardownWith(t.Context(), t, aws, append(args, "--timeout", "20ms")...); left.code != exitStalled || !strings.Contains(left.out, "i-1") {
		t.Errorf("an instance that is left: code %d: %s\n%s", left.code, left.out, left.err)
	}
}

// TestTeardownDownToNodesRefuses what would delete more than the nodes, or nothing; it also reports if someone has
// changed the NodeSync in the meantime.
func TestTeardownDownToNodesRefuses(t *testing.T) {
	now := metav1.Now()
	for name, c := range map[string]struct {
		before, then func(*v1alpha1.NodeSync)
		says         string
		did          int
	}{
		"it is suspended":     {before: func(n *v1alpha1.NodeSync) { n.Spec.Suspend = true }, says: "nodesync/prod is suspended, so it cannot be drained: run `plumbline resume prod -n fleet` first"},
		"it is being deleted": {before: func(n *v1alpha1.NodeSync) { n.DeletionTimestamp = &now }, says: "nodesync/prod is being deleted with its definitions"},
		"resumed meanwhile":   {then: func(n *v1alpha1.NodeSync) { n.Spec.Drain = false }, says: "another client set drain: false on nodesync/prod", did: 1},
		"suspended meanwhile": {then: func(n *v1alpha1.NodeSync) { n.Spec.Suspend = true }, says: "another client suspended nodesync/prod", did: 1},
	} {
		t.Run(name, func(t *testing.T) {
			s, kubeconfig, sync := fleetToLeave(t)
			if c.before != nil {
				c.before(sync)
			}
			done := emptiesAtOnce(s, func(n *v1alpha1.NodeSync) {
				if c.then != nil {
					c.then(n)
				}
			})
			aws := &remainsOf{account: "111122223333", answers: [][]cloud.Answer{nothingLeft}}
			got := teardownWith(t.Context(), t, aws, "prod", "--yes", "--down-to", "nodes", "--kubeconfig", kubeconfig)
			if got.code != exitFailed || len(*done) != c.did || !strings.Contains(got.err, c.says) {
				t.Errorf("code %d, did %v, says %s", got.code, *done, got.err)
			}
		})
	}
}
