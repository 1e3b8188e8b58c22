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

	"github.com/plumbline-dev/plumbline/internal/steppoint"
	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/removal/teardown"
)

const leavingPath = syncPath + "prod"

// fleetToLeave is a NodeSync with a pool of one node, and a pool that it does not own.
func fleetToLeave(t *testing.T) (*apiServer, string, *v1alpha1.NodeSync) {
	t.Helper()
	sync := &v1alpha1.NodeSync{ObjectMeta: metav1.ObjectMeta{Name: "prod", Namespace: "fleet", UID: "1", ResourceVersion: "1"}}
	sync.APIVersion, sync.Kind = v1alpha1.GroupVersion.String(), "NodeSync" // needed to decode the response to a deletion
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

// karpenterWith returns the Deployment of Karpenter's controller, with this many replicas.
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

// teardownBy runs a teardown with a stand-in for the daemon.
func teardownBy(ctx context.Context, t *testing.T, stand standInStarter, aws *remainsOf, args ...string) said {
	t.Helper()
	return teardownOver(ctx, t, stand, aws, &endingAWS{}, args...)
}

// teardownOver runs a teardown with an AWS that answers queries, and one that deletes.
func teardownOver(ctx context.Context, t *testing.T, stand standInStarter, aws *remainsOf, by *endingAWS, args ...string) said {
	t.Helper()
	return teardownAsking(ctx, t, stand, verification{dial: aws.dial, dialDeleter: by.dial, now: time.Now, pause: time.Millisecond}, args...)
}

// teardownAsking runs a teardown with a verification.
func teardownAsking(ctx context.Context, t *testing.T, stand standInStarter, v verification, args ...string) said {
	t.Helper()
	kubeconfig := genericclioptions.NewConfigFlags(true)
	cmd := newTeardownCommand(kubeconfig, v, stand)
	kubeconfig.ClusterName = nil // the command defines --cluster
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

// endsAtOnce removes a NodeSync as soon as it is deleted, and returns the requests until then.
func endsAtOnce(s *apiServer) *[]string {
	var done []string
	s.patched = func(_ *apiServer, path string) { done = append(done, "patch "+path) }
	s.deleted = func(s *apiServer, path string) {
		done = append(done, "delete "+path)
		delete(s.objects, path)
	}
	return &done
}

// TestTeardown shows and confirms the plan, drains, and prints AWS's answer.
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
	if got := teardownWith(t.Context(), t, aws, "prod", "--kubeconfig", kubeconfig); got.code != exitFailed || !strings.Contains(got.err, "query AWS for what is left with --cluster") {
		t.Errorf("again, without names: code %d: %s", got.code, got.err)
	}
	again := teardownWith(t.Context(), t, aws, "prod", "--cluster", "demo", "--region", "eu-west-1", "--account", "111122223333", "--kubeconfig", kubeconfig)
	if again.code != exitDone || !strings.Contains(again.out, "nothing is left") {
		t.Errorf("again: code %d: %s", again.code, again.err)
	}
}

// hosts makes a pod run on the node to terminate.
func hosts(s *apiServer, namespace, name string) {
	s.objects["/api/v1/namespaces/"+namespace+"/pods/"+name] = map[string]any{
		"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"namespace": namespace, "name": name}, "spec": map[string]any{"nodeName": "ip-1"},
	}
}

// TestTeardownBeginsNothing if it could not complete, or nobody has confirmed it.
func TestTeardownBeginsNothing(t *testing.T) {
	for name, c := range map[string]struct {
		change func(s *apiServer)
		aws    []cloud.Answer
		args   []string
		says   string
	}{
		"nobody has confirmed it": {nil, nothingLeft, nil, "this terminates all nodes of nodesync/prod: without a terminal to type the name in, confirm with --yes"},
		"Karpenter runs on what ends": {
			func(s *apiServer) { hosts(s, "kube-system", "karpenter-1") }, nothingLeft,
			[]string{"--yes"},
			"run Karpenter's controller (pod kube-system/karpenter-1 on node ip-1 of NodePool/general), and draining them would stop the teardown itself: move it",
		},
		"the daemon runs on what ends": {
			func(s *apiServer) { hosts(s, "fleet", "a") }, nothingLeft,
			[]string{"--yes"},
			"run plumbline (pod fleet/a on node ip-1 of NodePool/general)",
		},
		"AWS does not answer":    {nil, denied, []string{"--yes"}, "AWS does not answer every query"},
		"another cluster":        {nil, nothingLeft, []string{"--yes", "--cluster", "prod", "--region", "eu-west-1"}, "nodesync/prod is of cluster demo in eu-west-1, and not of prod"},
		"a cluster of no region": {nil, nothingLeft, []string{"--cluster", "demo"}, "set --cluster and --region together"},
		"no such NodeSync": {func(s *apiServer) {
			delete(s.objects, leavingPath)
			delete(s.objects, controllerPath) // it is served for any label selector
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

// TestTeardownIsWatched: progress is printed, and how to continue if the watch stops.
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
	if got.code != exitFailed || !strings.Contains(got.err, "stopped; the daemon continues the teardown") {
		t.Errorf("stopped: code %d: %s", got.code, got.err)
	}
}

// TestDepartures: what was recorded and no longer exists is gone, and before anything is deleted all is left.
func TestDepartures(t *testing.T) {
	plan := teardown.Plan{Objects: []teardown.Object{{Kind: "NodePool", Name: "a", NodeClaims: 3}, {Kind: "NodePool", Name: "b"}}}
	all := plan.Departures()
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
		all = all.Next(c.removals)
		if got := departureWords(all[0]); got != c.words {
			t.Errorf("%s, want %s", got, c.words)
		}
	}
	if all[1].Phase != "" {
		t.Errorf("what was never recorded is %s", all[1].Phase)
	}
	if rows := bars(all); len(rows) != 2 || !strings.Contains(rows[0], "3 of 3 gone") {
		t.Errorf("bars %q", rows)
	}
}

// crd adds a CRD of Karpenter's to the cluster.
func (s *apiServer) crd(plural, kind, group string) {
	s.objects["/apis/apiextensions.k8s.io/v1/customresourcedefinitions/"+plural+"."+group] = map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": plural + "." + group, "uid": plural},
		"spec": map[string]any{"group": group, "names": map[string]any{"plural": plural, "kind": kind}, "versions": []any{map[string]any{"name": "v1", "served": true}}},
	}
}

// TestTeardownKeepsKarpenter if something else needs it, or another tool has installed it: nothing is started then.
func TestTeardownKeepsKarpenter(t *testing.T) {
	for name, c := range map[string]struct {
		change func(s *apiServer, sync *v1alpha1.NodeSync)
		says   string
	}{
		"another pool": {func(*apiServer, *v1alpha1.NodeSync) {}, "objects of its kinds exist in the cluster: NodePool/other (managed by an unknown client); delete them first"},
		"a pool of another NodeSync": {func(s *apiServer, sync *v1alpha1.NodeSync) {
			delete(s.objects, "/apis/karpenter.sh/v1/nodepools/other")
			other := sync.DeepCopy()
			other.Name, other.UID = "stage", "2"
			s.objects[syncPath+"stage"] = other
		}, "karpenter cannot be removed while another NodeSync needs it: fleet/stage"},
		"it is External": {func(s *apiServer, sync *v1alpha1.NodeSync) {
			delete(s.objects, "/apis/karpenter.sh/v1/nodepools/other")
			sync.Status.Karpenter.Management = "External"
		}, "plumbline did not install Karpenter: deployment kube-system/karpenter is Helm release infra/karpenter (plumbline.yaml has management: External): uninstall it with the tool that installed it"},
		"Helm knows none": {func(s *apiServer, _ *v1alpha1.NodeSync) {
			delete(s.objects, "/apis/karpenter.sh/v1/nodepools/other")
		}, "plumbline did not install Karpenter: deployment kube-system/karpenter is Helm release infra/karpenter: uninstall it with the tool that installed it"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, kubeconfig, sync := fleetToLeave(t)
			s.crd("nodepools", "NodePool", "karpenter.sh")
			s.crd("nodeclaims", "NodeClaim", "karpenter.sh")
			metadata := s.objects[controllerPath].(map[string]any)["metadata"].(map[string]any)
			metadata["labels"].(map[string]any)["app.kubernetes.io/managed-by"] = "Helm"
			metadata["annotations"] = map[string]any{"meta.helm.sh/release-name": "karpenter", "meta.helm.sh/release-namespace": "infra"}
			c.change(s, sync)
			done := endsAtOnce(s)
			aws := &remainsOf{account: "111122223333", answers: [][]cloud.Answer{nothingLeft}}
			got := teardownWith(t.Context(), t, aws, "prod", "--yes", "--down-to", "crds", "--kubeconfig", kubeconfig)
			if got.code != exitFailed || len(*done) > 0 || !strings.Contains(got.err, c.says) {
				t.Errorf("code %d, did %v, says %s", got.code, *done, got.err)
			}
		})
	}
}

// TestTeardownWithoutKarpenter: if Karpenter was never installed, there is nothing to uninstall, and the message lists
// the valid levels.
func TestTeardownWithoutKarpenter(t *testing.T) {
	s, kubeconfig, _ := fleetToLeave(t)
	delete(s.objects, controllerPath)
	delete(s.objects, leavingPath)
	aws := &remainsOf{account: "111122223333", answers: [][]cloud.Answer{nothingLeft}}
	args := []string{"prod", "--cluster", "demo", "--region", "eu-west-1", "--account", "111122223333", "--kubeconfig", kubeconfig, "--down-to"}
	if got := teardownWith(t.Context(), t, aws, append(args, "crds")...); got.code != exitDone {
		t.Errorf("code %d: %s", got.code, got.err)
	}
	if got := teardownWith(t.Context(), t, aws, append(args, "everything")...); got.code != exitFailed || !strings.Contains(got.err, `"everything" is not one of nodes, definitions, controller, crds, aws`) {
		t.Errorf("code %d: %s", got.code, got.err)
	}
}

// TestTeardownBringsTheControllerBack: scaled to 0 it is scaled up, and if missing the daemon installs it, before
// anything is deleted.
func TestTeardownBringsTheControllerBack(t *testing.T) {
	for name, c := range map[string]struct {
		gone    bool
		change  func(sync *v1alpha1.NodeSync)
		code    int
		patches string
		says    string
	}{
		"scaled to 0":               {false, func(*v1alpha1.NodeSync) {}, exitDone, controllerPath, "(deployment kube-system/karpenter is scaled to 0), and nothing else terminates the nodes: the teardown scales it to 1 first"},
		"gone":                      {true, func(*v1alpha1.NodeSync) {}, exitDone, leavingPath, "and nothing else terminates the nodes: the daemon reinstalls Karpenter 1.14.1 first"},
		"gone, and suspended":       {true, func(sync *v1alpha1.NodeSync) { sync.Spec.Suspend = true }, exitFailed, "", "run `plumbline resume prod -n fleet`"},
		"gone, and External":        {true, func(sync *v1alpha1.NodeSync) { sync.Status.Karpenter.Management = "External" }, exitFailed, "", "start it with the tool that installs it; nothing was changed"},
		"gone, and deleted already": {true, begunToLeave, exitStalled, "", "stop the daemon (kubectl scale deployment plumbline -n fleet --replicas=0) and run this command again, which reinstalls it with its values from Git; or start it by hand"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, kubeconfig, sync := fleetToLeave(t)
			if s.objects[controllerPath] = karpenterWith(0); c.gone {
				delete(s.objects, controllerPath)
			}
			c.change(sync)
			done := endsAtOnce(s)
			noted := s.patched
			s.patched = func(s *apiServer, path string) {
				noted(s, path)
				s.objects[controllerPath] = karpenterWith(1)
			}
			aws := &remainsOf{account: "111122223333", answers: [][]cloud.Answer{nothingLeft}}
			got := teardownWith(t.Context(), t, aws, "prod", "--yes", "--timeout", "1s", "--kubeconfig", kubeconfig)
			if got.code != c.code || !strings.Contains(got.out+got.err, c.says) {
				t.Errorf("code %d, prints %s, says %s", got.code, got.out, got.err)
			}
			if first := append(*done, "")[0]; c.patches != "" && first != "patch "+c.patches || c.patches == "" && first != "" {
				t.Errorf("did %v, want a patch of %q first", *done, c.patches)
			}
		})
	}
}

// TestTeardownInstallsTheController if it is missing and no daemon leads: the daemon's reconciles install it before
// anything is deleted, whether or not the NodeSync is suspended or being deleted.
func TestTeardownInstallsTheController(t *testing.T) {
	for name, c := range map[string]struct {
		change func(sync *v1alpha1.NodeSync)
		fails  bool
		code   int
		first  string
		says   string
	}{
		"gone":                         {func(*v1alpha1.NodeSync) {}, false, exitDone, "patch " + leavingPath, "Karpenter's controller runs"},
		"gone, and suspended":          {func(sync *v1alpha1.NodeSync) { sync.Spec.Suspend = true }, false, exitDone, "patch " + leavingPath, "Karpenter's controller runs"},
		"gone, and External":           {func(sync *v1alpha1.NodeSync) { sync.Status.Karpenter.Management = "External" }, true, exitFailed, "", "start it with the tool that installs it; nothing was changed"},
		"gone, and it does not start":  {func(*v1alpha1.NodeSync) {}, true, exitStalled, "", "waiting for Karpenter's controller: it has no Deployment in namespace kube-system"},
		"gone, and begun, and removed": {begunToLeave, false, exitDone, "", "Karpenter's controller runs"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, kubeconfig, sync := fleetToLeave(t)
			s.objects[leasePath] = leaseOf("", time.Hour)
			delete(s.objects, controllerPath)
			c.change(sync)
			done := endsAtOnce(s)
			in := &stoodIn{}
			in.begun = func() {
				s.mu.Lock()
				defer s.mu.Unlock()
				if !c.fails {
					s.objects[controllerPath] = karpenterWith(1)
				}
			}
			in.goesOn = func() {
				s.mu.Lock()
				defer s.mu.Unlock()
				if sync.DeletionTimestamp != nil {
					delete(s.objects, leavingPath)
				}
			}
			aws := &remainsOf{account: "111122223333", answers: [][]cloud.Answer{nothingLeft}}
			got := teardownBy(t.Context(), t, in.start, aws, "prod", "--yes", "--timeout", "1s", "--kubeconfig", kubeconfig)
			if got.code != c.code || !strings.Contains(got.out+got.err, c.says) {
				t.Errorf("code %d, prints %s, says %s", got.code, got.out, got.err)
			}
			if first := append(*done, "")[0]; first != c.first {
				t.Errorf("did %v, want %q first", *done, c.first)
			}
			if begun := c.code != exitFailed; begun != slices.Equal(in.installs, []bool{true}) || begun != in.stopped {
				t.Errorf("stood in by %v, stopped %v", in.installs, in.stopped)
			}
		})
	}
}

// begunToLeave makes a NodeSync one that is being deleted.
func begunToLeave(sync *v1alpha1.NodeSync) {
	sync.DeletionTimestamp, sync.Spec.OnDelete = &metav1.Time{Time: time.Unix(1, 0)}, v1alpha1.OnDeleteDrain
}

// TestTeardownSaysWhyTheControllerDoesNotStart, according to its log; nothing is deleted meanwhile.
func TestTeardownSaysWhyTheControllerDoesNotStart(t *testing.T) {
	s, kubeconfig, _ := fleetToLeave(t)
	s.objects[controllerPath] = karpenterWith(0)
	done := endsAtOnce(s)
	noted := s.patched
	s.patched = func(s *apiServer, path string) {
		noted(s, path)
		down := karpenterWith(1)
		labels := map[string]any{"app.kubernetes.io/name": "karpenter"}
		down["status"], down["spec"] = map[string]any{}, map[string]any{"replicas": 1, "selector": map[string]any{"matchLabels": labels}}
		s.objects[controllerPath] = down
		s.objects["/api/v1/namespaces/kube-system/pods/karpenter-a"] = map[string]any{
			"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "karpenter-a", "namespace": "kube-system", "labels": labels},
			"status": map[string]any{"containerStatuses": []any{map[string]any{"name": "controller", "restartCount": 3}}},
		}
		s.texts = map[string]string{"/api/v1/namespaces/kube-system/pods/karpenter-a/log": `{"message":"ec2 api connectivity check failed","error":"AccessDenied: not authorized to perform sts:AssumeRoleWithWebIdentity"}`}
	}
	aws := &remainsOf{account: "111122223333", answers: [][]cloud.Answer{nothingLeft}}
	got := teardownWith(t.Context(), t, aws, "prod", "--yes", "--timeout", "1s", "--kubeconfig", kubeconfig)
	if got.code != exitStalled || !slices.Equal(*done, []string{"patch " + controllerPath}) || !strings.Contains(got.err, "AccessDenied: not authorized to perform sts:AssumeRoleWithWebIdentity") {
		t.Errorf("code %d, did %q, says %s", got.code, *done, got.err)
	}
}
