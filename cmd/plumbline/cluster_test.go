package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// unreachable returns a kubeconfig of a server that does not listen.
func unreachable(t *testing.T) (kubeconfig, address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address = listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	return kubeconfigFor(t, "http://"+address), address
}

// onCluster returns the commands that need a cluster.
func onCluster(t *testing.T) map[string][]string {
	t.Helper()
	return map[string][]string{
		"get":          {"get"},
		"get one":      {"get", "prod"},
		"get all":      {"get", "-A", "-o", "json"},
		"status":       {"status", "prod"},
		"reconcile":    {"reconcile", "prod", "--wait"},
		"suspend":      {"suspend", "prod"},
		"resume":       {"resume", "prod"},
		"approve":      {"approve", "prod"},
		"calendar":     {"calendar", "prod"},
		"rollout":      {"rollout", "prod"},
		"plan":         {"plan", "prod"},
		"diff":         {"diff", "prod"},
		"plan against": {"plan", examples(t)["basic"], "--against", "prod"},
	}
}

func TestNoClusterReachable(t *testing.T) {
	kubeconfig, address := unreachable(t)
	for name, args := range onCluster(t) {
		t.Run(name, func(t *testing.T) {
			got := plumbline(t, append(args, "--kubeconfig", kubeconfig)...)
			if got.code != exitFailed || got.out != "" {
				t.Errorf("code %d, prints %q", got.code, got.out)
			}
			for _, words := range []string{"plumbline: ", address, "--kubeconfig"} {
				if !strings.Contains(got.err, words) {
					t.Errorf("says %q, want %q in it", got.err, words)
				}
			}
			if strings.Count(got.err, "\n") != 1 {
				t.Errorf("says more than one line:\n%s", got.err)
			}
		})
	}
}

func TestNoKubeconfig(t *testing.T) {
	for name, args := range onCluster(t) {
		t.Run(name, func(t *testing.T) {
			got := plumbline(t, append(args, "--kubeconfig", t.TempDir()+"/absent")...)
			if got.code != exitFailed || !strings.Contains(got.err, "--kubeconfig") {
				t.Errorf("code %d, says %q", got.code, got.err)
			}
		})
	}
}

// TestWithoutAKubeconfig: the message lists the files that were looked for; localhost is not contacted.
func TestWithoutAKubeconfig(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("HOME", dir)
	absent := filepath.Join(dir, "absent äö")
	t.Setenv("KUBECONFIG", absent)
	for _, args := range [][]string{{"get"}, {"status", "prod"}, {"plan", "prod"}, {"plan", "nodesync/prod"}, {"tree", "prod"}} {
		if got := plumbline(t, args...); got.code != exitFailed || got.err != "plumbline: no kubeconfig: looked for "+absent+"; give one with --kubeconfig or KUBECONFIG\n" {
			t.Errorf("%v: code %d: %s", args, got.code, got.err)
		}
	}
}

// TestAFolderAboveTheClusters: commands on such a folder list the folders of clusters below it.
func TestAFolderAboveTheClusters(t *testing.T) {
	root := t.TempDir()
	place := func(names ...string) {
		for _, name := range names {
			dir := filepath.Join(root, name)
			if err := os.MkdirAll(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "plumbline.yaml"), []byte(karpenterYAML), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	place("clusters/prod-eu", "clusters/stage", ".git/prod", "a/b/c/d/e/f/g/h")
	want := fmt.Sprintf("plumbline: %[1]s contains no plumbline.yaml; these folders do: %[1]s/clusters/prod-eu, %[1]s/clusters/stage; give the folder of one cluster\n", root)
	for _, args := range [][]string{{"render"}, {"plan"}, {"diff"}, {"plan", "--against", "prod"}, {"upgrade"}, {"vendor"}} {
		if got := plumbline(t, append(args, root)...); got.code != exitFailed || got.err != want {
			t.Errorf("%v: code %d, says %q", args, got.code, got.err)
		}
	}
	place("1", "2", "3", "4", "5", "6", "7")
	if got := plumbline(t, "plan", root); strings.Count(got.err, root+"/") != 5 || !strings.Contains(got.err, "/5, …; give") {
		t.Errorf("of many folders it says %q", got.err)
	}
}

// midday is two days ago, and stays so for an hour.
var midday = metav1.NewTime(time.Now().Add(-48 * time.Hour).Truncate(time.Second))

const (
	applied = "main@sha1:0123456789abcdef0123456789abcdef01234567"
	pushed  = "main@sha1:89abcdef0123456789abcdef0123456789abcdef"
)

// nodeSync returns a NodeSync in the namespace fleet, at its second generation.
func nodeSync(name string, changes ...func(*v1alpha1.NodeSync)) *v1alpha1.NodeSync {
	sync := &v1alpha1.NodeSync{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.NodeSyncKind},
		ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: name, Generation: 2, CreationTimestamp: midday},
		Spec: v1alpha1.NodeSyncSpec{
			Interval: metav1.Duration{Duration: time.Minute},
			Source:   v1alpha1.Source{Git: &v1alpha1.GitSource{URL: "https://git.example.com/acme/fleet.git"}},
		},
	}
	for _, change := range changes {
		change(sync)
	}
	return sync
}

// ready sets the conditions of a result, as the end of a reconcile does.
func ready(status metav1.ConditionStatus, reason, message string) func(*v1alpha1.NodeSync) {
	return func(n *v1alpha1.NodeSync) {
		n.Status.ObservedGeneration = n.Generation
		set := func(kind string, status metav1.ConditionStatus) {
			n.Status.Conditions = append(n.Status.Conditions, metav1.Condition{
				Type: kind, Status: status, Reason: reason, Message: message, LastTransitionTime: midday, ObservedGeneration: n.Generation,
			})
		}
		set(meta.ReadyCondition, status)
		switch {
		case status == metav1.ConditionUnknown, reason == v1alpha1.ReasonSourceFailed:
			set(meta.ReconcilingCondition, metav1.ConditionTrue)
		case status == metav1.ConditionFalse:
			set(meta.StalledCondition, metav1.ConditionTrue)
		}
	}
}

// revisions sets the applied and the attempted revision.
func revisions(applied, attempted string) func(*v1alpha1.NodeSync) {
	return func(n *v1alpha1.NodeSync) {
		n.Status.LastAppliedRevision, n.Status.LastAttemptedRevision = applied, attempted
	}
}

func suspended(n *v1alpha1.NodeSync) { n.Spec.Suspend = true }

// leaves adds a removal for each phase.
func leaves(phases ...v1alpha1.RemovalPhase) func(*v1alpha1.NodeSync) {
	return func(n *v1alpha1.NodeSync) {
		for i, phase := range phases {
			name := fmt.Sprintf("old-%d", i)
			n.Status.Removals = append(n.Status.Removals, v1alpha1.Removal{
				Kind: "NodePool", Name: name, UID: types.UID(name + "-uid"), Phase: phase, Remaining: 3, Since: midday, LastProgress: midday, RecordedAt: midday, Message: "3 NodeClaims are left",
			})
		}
	}
}

// breaksGlass adds a command for the node of the first removal.
func breaksGlass(n *v1alpha1.NodeSync) {
	n.Status.Removals[0].BreakGlass = []v1alpha1.BreakGlass{{
		Node: "ip-10-0-0-1", Cause: v1alpha1.CauseDoNotDisrupt, Command: "kubectl annotate pod web-0 -n web karpenter.sh/do-not-disrupt-", Risk: "the pod is evicted",
	}}
}

// launchesFail adds a launch failure for lack of capacity.
func launchesFail(n *v1alpha1.NodeSync) {
	n.Status.Conditions = append(n.Status.Conditions, metav1.Condition{
		Type: v1alpha1.LaunchFailingCondition, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonLaunchFailed,
		Message: "NodePool/cheap gets no nodes: insufficient capacity, with fleet error(s), InsufficientInstanceCapacity: none of m5.large in eu-west-1a",
	})
}

// rollsOut adds nodes that do not match their definitions: RolledOut is False, for this reason.
func rollsOut(reason, message string, pools ...v1alpha1.PoolRollout) func(*v1alpha1.NodeSync) {
	return func(n *v1alpha1.NodeSync) {
		n.Status.Conditions = append(n.Status.Conditions, metav1.Condition{
			Type: v1alpha1.RolledOutCondition, Status: metav1.ConditionFalse, Reason: reason, Message: message, LastTransitionTime: midday, ObservedGeneration: n.Generation,
		})
		n.Status.Rollout = &v1alpha1.Rollout{Revision: applied, Nodes: 2, Outdated: 2, Draining: 1, Reasons: []string{"NodePoolDrifted"}, Since: midday, LastProgress: midday}
		n.Status.PoolRollouts = pools
	}
}

// nodesDrift adds nodes that drift although the upgrade was expected to keep them.
func nodesDrift(n *v1alpha1.NodeSync) {
	n.Status.Conditions = append(n.Status.Conditions, metav1.Condition{
		Type: v1alpha1.NodeDriftCondition, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonUnexpectedNodeDrift,
		Message: "unexpected node drift since Karpenter changed from 1.8.6 to 1.14.1: ip-10-0-0-1 of general",
	})
}

// verdicts returns a NodeSync for each state that a reconcile can result in.
func verdicts() map[string]*v1alpha1.NodeSync {
	const t, f, u = metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown
	installed := func(n *v1alpha1.NodeSync) {
		n.Status.Karpenter = &v1alpha1.KarpenterStatus{Management: "Managed", Version: "1.14.1", Namespace: "kube-system", Cluster: "prod-eu", Region: "eu-west-1"}
		n.Status.Conditions = append(n.Status.Conditions, metav1.Condition{Type: v1alpha1.CloudVerifiedCondition, Status: t, Reason: "Verified"})
		for _, stage := range []string{"CRDs", "Controller", "NodeClasses", "NodePools"} {
			n.Status.Stages = append(n.Status.Stages, v1alpha1.StageStatus{Name: stage, State: v1alpha1.StageDone, Since: midday})
		}
	}
	waiting := func(n *v1alpha1.NodeSync) {
		n.Status.Waiting = &v1alpha1.Waiting{For: "Controller", Message: "deployment/karpenter is scaled to 0", Since: midday}
	}
	return map[string]*v1alpha1.NodeSync{
		"in-sync":  nodeSync("prod", ready(t, "Succeeded", "applied, Ready, no removal open: main@sha1:01234567"), revisions(applied, applied), installed),
		"waiting":  nodeSync("prod", ready(u, "Waiting", "waiting for Controller: deployment/karpenter is scaled to 0"), revisions(applied, pushed), installed, waiting),
		"removing": nodeSync("prod", ready(u, "Removing", "removing NodePool/old-0 Draining (3 NodeClaims are left)"), revisions(applied, applied), installed, leaves(v1alpha1.RemovalDraining)),
		"held":     nodeSync("prod", ready(f, "Held", "held: removal of NodePool/old-0: 1 more than guard.maxRemovedPools"), revisions(pushed, pushed), installed, leaves(v1alpha1.RemovalHeld)),
		"stalled":  nodeSync("prod", ready(f, "Stalled", "removal of NodePool/old-0 stalled: pod web/web-0 is not evicted"), revisions(applied, applied), installed, leaves(v1alpha1.RemovalDraining), breaksGlass),
		"launches": nodeSync("prod", ready(t, "Succeeded", "applied, Ready, no removal open: main@sha1:01234567"), revisions(applied, applied), installed, launchesFail),
		"drifting": nodeSync("prod", ready(t, "Succeeded", "applied, Ready, no removal open: main@sha1:01234567"), revisions(applied, applied), installed, nodesDrift),
		"rolling-out": nodeSync("prod", ready(t, "Succeeded", "applied, Ready, no removal open: main@sha1:01234567"), revisions(applied, applied), installed,
			rollsOut(v1alpha1.ReasonRollingOut, "0 of 2 nodes replaced (NodePoolDrifted), 1 draining")),
		"rollout-stopped": nodeSync("prod", ready(t, "Succeeded", "applied, Ready, no removal open: main@sha1:01234567"), revisions(applied, applied), installed,
			rollsOut(v1alpha1.ReasonRolloutBraked, "rollout stopped in NodePool/general: 3 launches failed", v1alpha1.PoolRollout{Pool: "general", Reason: v1alpha1.BrakeFailedLaunches, Message: "3 launches failed", BrakedAt: &midday})),
		"rollout-held": nodeSync("prod", ready(t, "Succeeded", "applied, Ready, no removal open: main@sha1:01234567"), revisions(applied, applied), installed,
			rollsOut(v1alpha1.ReasonRolloutBraked, "rollout stopped in NodePool/general: errors", v1alpha1.PoolRollout{Pool: "general", Reason: v1alpha1.BrakeHeldByCondition, Message: "errors", BrakedAt: &midday})),
		"rollout-late": nodeSync("prod", ready(t, "Succeeded", "applied, Ready, no removal open: main@sha1:01234567"), revisions(applied, applied), installed,
			rollsOut(v1alpha1.ReasonRolloutTimedOut, "not rolled out within 1h0m0s: 0 of 2 nodes replaced")),
		"drifted":   nodeSync("prod", ready(f, "Drifted", "differs from Git, and drift is Report: NodePool/general"), revisions(applied, applied), installed),
		"invalid":   nodeSync("prod", ready(f, "Invalid", "nodes/general.yaml:7: unknown field spec.tempalte\nnodes/batch.yaml:2: another"), revisions(applied, pushed), installed),
		"retrying":  nodeSync("prod", ready(f, "SourceFailed", "fetch https://git.example.com/acme/fleet.git: no route to host"), revisions(applied, applied), installed),
		"suspended": nodeSync("prod", suspended, ready(t, "Succeeded", "applied, Ready, no removal open: main@sha1:01234567"), revisions(applied, applied), installed),
		"new":       nodeSync("prod"),
		"changed":   nodeSync("prod", ready(t, "Succeeded", "applied"), revisions(applied, applied), func(n *v1alpha1.NodeSync) { n.Generation++ }),
		"requested": nodeSync("prod", ready(t, "Succeeded", "applied"), revisions(applied, applied), func(n *v1alpha1.NodeSync) {
			n.Annotations = map[string]string{meta.ReconcileRequestAnnotation: "now"}
		}),
		"unwritten": nodeSync("prod", ready(t, "Succeeded", "applied"), revisions(applied, applied), func(n *v1alpha1.NodeSync) {
			n.Annotations = map[string]string{v1alpha1.StatusNotWrittenAnnotation: "the API server denies each write of this NodeSync's status: nodesyncs is forbidden"}
		}),
		"ahead": nodeSync("prod", ready(t, "Succeeded", "applied"), revisions(applied, pushed), installed),
		"deleted": nodeSync("prod", ready(u, "Waiting", "waiting for objects"), func(n *v1alpha1.NodeSync) {
			n.DeletionTimestamp, n.Finalizers, n.Spec.OnDelete = &midday, []string{v1alpha1.Finalizer}, v1alpha1.OnDeleteDrain
		}),
	}
}

// TestTheNamespaceThatIsMeant: without -n it is that of the context if that contains NodeSyncs, otherwise that of the
// daemon.
func TestTheNamespaceThatIsMeant(t *testing.T) {
	in := func(namespace string) *v1alpha1.NodeSync {
		sync := verdicts()["in-sync"]
		sync.Namespace = namespace
		return sync
	}
	deployed := func(namespace string) func(*apiServer) {
		return func(s *apiServer) {
			s.objects["/apis/apps/v1/namespaces/"+namespace+"/deployments/plumbline"] = map[string]any{
				"apiVersion": "apps/v1", "kind": "Deployment",
				"metadata": map[string]any{"name": "plumbline", "namespace": namespace, "labels": map[string]any{"app.kubernetes.io/name": "plumbline"}},
			}
		}
	}
	for name, c := range map[string]struct {
		syncs []*v1alpha1.NodeSync
		given func(*apiServer)
		args  []string
		want  string
	}{
		"the context's":                 {syncs: []*v1alpha1.NodeSync{in("fleet"), in(defaultNamespace)}, want: "fleet"},
		"the manifests'":                {syncs: []*v1alpha1.NodeSync{in(defaultNamespace), in("other")}, want: defaultNamespace},
		"the daemon's":                  {syncs: []*v1alpha1.NodeSync{in("ours")}, given: deployed("ours"), want: "ours"},
		"the one that is given":         {syncs: []*v1alpha1.NodeSync{in("fleet"), in("other")}, args: []string{"-n", "other"}, want: "other"},
		"where only that may be read":   {syncs: []*v1alpha1.NodeSync{in(defaultNamespace)}, given: func(s *apiServer) { s.refused[strings.TrimSuffix(syncPath, "/")] = http.StatusForbidden }, want: defaultNamespace},
		"where Deployments may not be":  {syncs: []*v1alpha1.NodeSync{in(defaultNamespace)}, given: func(s *apiServer) { s.refused["/apis/apps/v1/"] = http.StatusForbidden }, want: defaultNamespace},
		"a daemon without any NodeSync": {syncs: []*v1alpha1.NodeSync{in("other")}, given: deployed("ours"), want: ""},
	} {
		t.Run(name, func(t *testing.T) {
			s, kubeconfig := serve(t, c.syncs...)
			if c.given != nil {
				c.given(s)
			}
			got := plumbline(t, append([]string{"get", "prod", "-o", "jsonpath={.metadata.namespace}", "--kubeconfig", kubeconfig}, c.args...)...)
			if got.out != c.want || (got.code == exitDone) != (c.want != "") {
				t.Errorf("code %d, prints %q, want %q: %s", got.code, got.out, c.want, got.err)
			}
		})
	}
}

// TestTheNamespaceOfADaemonWithoutANodeSync: it is the daemon's, where the first NodeSync will be created.
func TestTheNamespaceOfADaemonWithoutANodeSync(t *testing.T) {
	s, kubeconfig := serve(t)
	s.objects["/apis/apps/v1/namespaces/ours/deployments/plumbline"] = map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment",
		"metadata": map[string]any{"name": "plumbline", "namespace": "ours", "labels": map[string]any{"app.kubernetes.io/name": "plumbline"}},
	}
	if got := plumbline(t, "status", "prod", "--kubeconfig", kubeconfig); !strings.Contains(got.err, "ours/prod") {
		t.Errorf("it says %q, want that NodeSync ours/prod is not there", got.err)
	}
}

// TestOutputOfObjects: -o works as in kubectl.
func TestOutputOfObjects(t *testing.T) {
	hidden := nodeSync("odd", ready("False", "Invalid", "a\u202eb"))
	hidden.ManagedFields = append(hidden.ManagedFields, hidden.ManagedFields...)
	_, kubeconfig := serve(t, verdicts()["in-sync"], hidden)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-o", "name"}, "nodesync.plumbline.dev/odd\nnodesync.plumbline.dev/prod\n"},
		{[]string{"prod", "-o", "name"}, "nodesync.plumbline.dev/prod\n"},
		{[]string{"nodesync/prod", "nodesyncs/odd", "-o", "jsonpath={.items[*].metadata.name}"}, "prod odd"},
		{[]string{"prod", "-o", "jsonpath={.kind} {.apiVersion}"}, "NodeSync plumbline.dev/v1alpha1"},
		{[]string{"-o", "jsonpath={.kind} {.items[0].kind}"}, "NodeSyncList NodeSync"},
		{[]string{"prod", "-o", "go-template={{.spec.interval}}"}, "1m0s"},
		{[]string{"prod", "--template", "{{.spec.interval}}", "-o", "go-template"}, "1m0s"},
		{[]string{"odd", "-o", "jsonpath={.status.conditions[0].message}"}, `a\u202eb`},
	} {
		got := plumbline(t, append(append([]string{"get"}, c.args...), "--kubeconfig", kubeconfig)...)
		if got.code != exitDone || got.out != c.want {
			t.Errorf("%v: code %d, prints %q, want %q: %s", c.args, got.code, got.out, c.want, got.err)
		}
	}
	if got := plumbline(t, "get", "-o", "wide", "--kubeconfig", kubeconfig); !strings.Contains(got.out, "https://git.example.com/acme/fleet.git") || strings.Contains(got.out, " \n") {
		t.Errorf("wide:\n%s", got.out)
	}
}

// TestSeveralNames: each is handled, and the exit code is the gravest one.
func TestSeveralNames(t *testing.T) {
	other := verdicts()["held"]
	other.Name = "other"
	_, kubeconfig := serve(t, verdicts()["in-sync"], other)
	got := plumbline(t, "status", "prod", "nodesync/other", "--kubeconfig", kubeconfig)
	if got.code != exitHeld || !strings.Contains(got.out, "nodesync/prod: in sync") || !strings.Contains(got.out, "\n\nnodesync/other: ") {
		t.Errorf("status: code %d:\n%s%s", got.code, got.out, got.err)
	}
	if got := plumbline(t, "status", "prod", "other", "-o", "json", "--kubeconfig", kubeconfig); !strings.HasPrefix(got.out, "[\n") {
		t.Errorf("status as JSON: %s", got.out)
	}
	if got := plumbline(t, "suspend", "nodesync/prod", "other", "--kubeconfig", kubeconfig); got.err != "nodesync/prod suspended\nnodesync/other suspended\n" {
		t.Errorf("suspend: code %d: %s", got.code, got.err)
	}
}

// TestNamesThatAreNotThere: as in kubectl, existing objects are printed, and each missing one is an error.
func TestNamesThatAreNotThere(t *testing.T) {
	_, kubeconfig := serve(t, verdicts()["in-sync"])
	for _, command := range []string{"get", "status"} {
		got := plumbline(t, command, "absent", "prod", "gone", "--kubeconfig", kubeconfig)
		if got.code != exitFailed || !strings.Contains(got.out, "prod") || !strings.Contains(got.err, "absent") || !strings.Contains(got.err, "gone") {
			t.Errorf("%s: code %d, %q, %q", command, got.code, got.out, got.err)
		}
	}
}
