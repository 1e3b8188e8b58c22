package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/rest"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/steppoint"
)

const leavingPath = syncPath + "prod"

// fleetToLeave is a NodeSync with a pool of a node, and a pool that is not its own.
func fleetToLeave(t *testing.T) (*apiServer, string, *v1alpha1.NodeSync) {
	t.Helper()
	sync := &v1alpha1.NodeSync{ObjectMeta: metav1.ObjectMeta{Name: "prod", Namespace: "fleet", UID: "1", ResourceVersion: "1"}}
	sync.APIVersion, sync.Kind = v1alpha1.GroupVersion.String(), "NodeSync" // the answer to a deletion is read by them
	sync.Spec.OnDelete = v1alpha1.OnDeleteOrphan
	sync.Status.Karpenter = &v1alpha1.KarpenterStatus{Version: "1.14.1", Namespace: "kube-system", Cluster: "demo", Region: "eu-west-1", ClusterARN: "arn:aws:eks:eu-west-1:111122223333:cluster/demo"}
	s, kubeconfig := serve(t, sync)
	pool := func(name string, labels map[string]any) {
		s.objects["/apis/karpenter.sh/v1/nodepools/"+name] = map[string]any{
			"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": map[string]any{"name": name, "uid": name, "labels": labels},
		}
	}
	owned := map[string]any{v1alpha1.OwnerLabel: "fleet.prod", "kustomize.toolkit.fluxcd.io/name": "fleet"}
	pool("general", owned)
	pool("other", map[string]any{})
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "general-a", Labels: map[string]string{karpv1.NodePoolLabelKey: "general"}}}
	claim.Status.NodeName, claim.Status.ProviderID = "ip-1", "aws:///eu-west-1a/i-1"
	s.objects["/apis/karpenter.sh/v1/nodeclaims/general-a"] = claim
	s.objects[leasePath] = leaseOf("a", time.Second)
	s.objects[controllerPath] = karpenterWith(1)
	return s, kubeconfig, sync
}

const controllerPath = "/apis/apps/v1/namespaces/kube-system/deployments/karpenter"

// karpenterWith is the Deployment of Karpenter's controller, with so many replicas.
func karpenterWith(replicas int) map[string]any {
	return map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment",
		"metadata": map[string]any{"name": "karpenter", "namespace": "kube-system", "labels": map[string]any{"app.kubernetes.io/name": "karpenter"}},
		"spec":     map[string]any{"replicas": replicas}, "status": map[string]any{"readyReplicas": replicas},
	}
}

func teardownWith(ctx context.Context, t *testing.T, aws *remainsOf, args ...string) said {
	t.Helper()
	return teardownBy(ctx, t, func(context.Context, *rest.Config, *v1alpha1.NodeSync, bool, steppoint.Options) (*standIn, error) {
		t.Error("it stands in for the daemon")
		return nil, errors.New("not here")
	}, aws, args...)
}

// teardownBy is a teardown with what stands in for the daemon.
func teardownBy(ctx context.Context, t *testing.T, stand standInStarter, aws *remainsOf, args ...string) said {
	t.Helper()
	return teardownOver(ctx, t, stand, aws, &endingAWS{}, args...)
}

// teardownOver is a teardown over an AWS that answers, and one that ends.
func teardownOver(ctx context.Context, t *testing.T, stand standInStarter, aws *remainsOf, by *endingAWS, args ...string) said {
	t.Helper()
	return teardownAsking(ctx, t, stand, verification{dial: aws.dial, dialEnder: by.dial, now: time.Now, pause: time.Millisecond}, args...)
}

// teardownAsking is a teardown with what asks AWS.
func teardownAsking(ctx context.Context, t *testing.T, stand standInStarter, v verification, args ...string) said {
	t.Helper()
	kubeconfig := genericclioptions.NewConfigFlags(true)
	cmd := newTeardownCommand(kubeconfig, v, stand)
	kubeconfig.ClusterName = nil // --cluster is the command's
	kubeconfig.AddFlags(cmd.PersistentFlags())
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	var out, errs bytes.Buffer
	cmd.SetArgs(args)
	cmd.SetIn(strings.NewReader(""))
	cmd.SetOut(&out)
	cmd.SetErr(&errs)
	code := exitCode(cmd.ExecuteContext(ctx), &errs)
	return said{out: out.String(), err: errs.String(), code: code}
}

// endsAtOnce ends a NodeSync at once when it is deleted, and tells what was asked for by then.
func endsAtOnce(s *apiServer) *[]string {
	var done []string
	s.patched = func(_ *apiServer, path string) { done = append(done, "patch "+path) }
	s.deleted = func(s *apiServer, path string) {
		done = append(done, "delete "+path)
		delete(s.objects, path)
	}
	return &done
}

// TestTeardown: it is shown and confirmed, drains, and ends with what AWS says.
func TestTeardown(t *testing.T) {
	s, kubeconfig, _ := fleetToLeave(t)
	done := endsAtOnce(s)
	aws := &remainsOf{account: "111122223333", answers: [][]cloud.Answer{volumeLeft, volumeLeft, nothingLeft}}
	got := teardownWith(t.Context(), t, aws, "prod", "--yes", "--kubeconfig", kubeconfig)
	if want := []string{"patch " + leavingPath, "delete " + leavingPath}; got.code != exitDone || !slices.Equal(*done, want) {
		t.Errorf("code %d, did %v, want %v: %s", got.code, *done, want, got.err)
	}
	for _, want := range []string{
		"NodePool/general   1", "1 NodeClaim, 1 Node", "stays: NodePool/other; Karpenter 1.14.1 in namespace kube-system",
		"NodePool/general is applied by Flux's Kustomization fleet, which may create it again", "nothing is left",
	} {
		if !strings.Contains(got.out, want) {
			t.Errorf("prints %s\nwant %q in it", got.out, want)
		}
	}
	if !strings.Contains(got.err, "onDelete is Drain now") || !strings.Contains(got.err, "nodesync/prod is gone") {
		t.Errorf("says %s", got.err)
	}
	if got := teardownWith(t.Context(), t, aws, "prod", "--kubeconfig", kubeconfig); got.code != exitFailed || !strings.Contains(got.err, "--cluster and --region have AWS asked") {
		t.Errorf("again, without names: code %d: %s", got.code, got.err)
	}
	again := teardownWith(t.Context(), t, aws, "prod", "--cluster", "demo", "--region", "eu-west-1", "--account", "111122223333", "--kubeconfig", kubeconfig)
	if again.code != exitDone || !strings.Contains(again.out, "nothing is left") {
		t.Errorf("again: code %d: %s", again.code, again.err)
	}
}

// hosts has a pod run on the node that is to end.
func hosts(s *apiServer, namespace, name string) {
	s.objects["/api/v1/namespaces/"+namespace+"/pods/"+name] = map[string]any{
		"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"namespace": namespace, "name": name}, "spec": map[string]any{"nodeName": "ip-1"},
	}
}

// TestTeardownBeginsNothing: where it would not come to an end, or nobody has confirmed it.
func TestTeardownBeginsNothing(t *testing.T) {
	for name, c := range map[string]struct {
		change func(s *apiServer)
		aws    []cloud.Answer
		args   []string
		says   string
	}{
		"nobody has confirmed it": {nil, nothingLeft, nil, "all nodes of nodesync/prod end: where nobody can type its name, confirm that by --yes"},
		"Karpenter runs on what ends": {
			func(s *apiServer) { hosts(s, "kube-system", "karpenter-1") }, nothingLeft,
			[]string{"--yes"},
			"run Karpenter's controller (pod kube-system/karpenter-1 on node ip-1 of NodePool/general), and once that ends nothing ends the rest: move it",
		},
		"the daemon runs on what ends": {
			func(s *apiServer) { hosts(s, "fleet", "a") }, nothingLeft,
			[]string{"--yes"},
			"run plumbline (pod fleet/a on node ip-1 of NodePool/general)",
		},
		"AWS does not answer":    {nil, denied, []string{"--yes"}, "AWS does not answer every question"},
		"another cluster":        {nil, nothingLeft, []string{"--yes", "--cluster", "prod", "--region", "eu-west-1"}, "nodesync/prod is of cluster demo in eu-west-1, and not of prod"},
		"a cluster of no region": {nil, nothingLeft, []string{"--cluster", "demo"}, "--cluster and --region go together"},
		"no such NodeSync": {func(s *apiServer) {
			delete(s.objects, leavingPath)
			delete(s.objects, controllerPath) // it serves any label
		}, nothingLeft, []string{"--yes"}, "nodesync/prod does not exist in fleet"},
	} {
		t.Run(name, func(t *testing.T) {
			s, kubeconfig, _ := fleetToLeave(t)
			if c.change != nil {
				c.change(s)
			}
			done := endsAtOnce(s)
			aws := &remainsOf{account: "111122223333", answers: [][]cloud.Answer{c.aws}}
			got := teardownWith(t.Context(), t, aws, append([]string{"prod", "--kubeconfig", kubeconfig}, c.args...)...)
			if got.code != exitFailed || len(*done) > 0 || !strings.Contains(got.err, c.says) {
				t.Errorf("code %d, did %v, says %s", got.code, *done, got.err)
			}
		})
	}
}

// TestTeardownIsWatched: what goes on is printed as it goes, and how to go on where the watching ends.
func TestTeardownIsWatched(t *testing.T) {
	s, kubeconfig, sync := fleetToLeave(t)
	sync.Spec.OnDelete = v1alpha1.OnDeleteDrain
	now := metav1.Now()
	sync.DeletionTimestamp = &now
	sync.Status.Removals = []v1alpha1.Removal{{Kind: "NodePool", Name: "general", UID: "general", Phase: v1alpha1.RemovalDraining, Remaining: 1, Message: "waits for pdb web/web"}}
	aws := &remainsOf{account: "111122223333", answers: [][]cloud.Answer{nothingLeft}}
	got := teardownWith(t.Context(), t, aws, "prod", "--timeout", "50ms", "--kubeconfig", kubeconfig, "-o", "json")
	if got.code != exitStalled || !strings.Contains(got.err, "plumbline teardown prod -n fleet --cluster demo --region eu-west-1") {
		t.Errorf("late: code %d: %s", got.code, got.err)
	}
	var events []string
	for line := range strings.Lines(got.out) {
		var e teardownEvent
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		events = append(events, e.Event)
		if d := e.Departure; d != nil && (d.Phase != "Draining" || d.Left != 1 || d.Of != 1 || d.Message != "waits for pdb web/web") {
			t.Errorf("departure %+v", d)
		}
	}
	if want := []string{"plan", "message", "message", "departure"}; !slices.Equal(events, want) {
		t.Errorf("events %v, want %v", events, want)
	}
	ctx, stop := context.WithCancel(t.Context())
	s.answered = func(path string) {
		if path == leavingPath && len(s.asked) > 0 {
			time.AfterFunc(100*time.Millisecond, stop)
		}
	}
	got = teardownWith(ctx, t, aws, "prod", "--kubeconfig", kubeconfig)
	if got.code != exitFailed || !strings.Contains(got.err, "stopped; what was begun goes on") {
		t.Errorf("stopped: code %d: %s", got.code, got.err)
	}
}

// TestDepartures: what was recorded and is not any more is gone, and before anything was ended all is left.
func TestDepartures(t *testing.T) {
	all := newDepartures(&teardownPlan{Objects: []leavingObject{{Kind: "NodePool", Name: "a", NodeClaims: 3}, {Kind: "NodePool", Name: "b"}}})
	removal := func(phase v1alpha1.RemovalPhase, remaining int32) []v1alpha1.Removal {
		return []v1alpha1.Removal{{Kind: "NodePool", Name: "a", Phase: phase, Remaining: remaining}}
	}
	for _, c := range []struct {
		removals []v1alpha1.Removal
		words    string
	}{
		{removal(v1alpha1.RemovalPacing, 0), "NodePool/a: Pacing, 3 of 3 left"},
		{removal(v1alpha1.RemovalDraining, 2), "NodePool/a: Draining, 2 of 3 left"},
		{nil, "NodePool/a is gone"},
	} {
		all = all.see(c.removals)
		if got := all[0].words(); got != c.words {
			t.Errorf("%s, want %s", got, c.words)
		}
	}
	if all[1].Phase != "" {
		t.Errorf("what was never recorded is %s", all[1].Phase)
	}
	if rows := bars(all); len(rows) != 2 || !strings.Contains(rows[0], "3 of 3 ended") {
		t.Errorf("bars %q", rows)
	}
}
