package main

import (
	"context"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/removal/teardown"
)

var runningLeft = []cloud.Answer{{Kind: cloud.KindInstance, Resources: []cloud.Resource{
	{Kind: cloud.KindInstance, ID: "i-1", State: "running", Tags: map[string]string{"karpenter.sh/nodepool": "general"}},
	{Kind: cloud.KindInstance, ID: "i-2", State: "running", Tags: map[string]string{"karpenter.sh/nodepool": "other"}},
}}}

// timesOf matches the times of events.
var timesOf = regexp.MustCompile(`"time":"[^"]*"`)

// otherLeft contains the instances of a kept pool.
var otherLeft = []cloud.Answer{{Kind: cloud.KindInstance, Resources: runningLeft[0].Resources[1:]}}

// tornDown is a cluster with a NodeSync that has two pools, with a node each, and a pool of another NodeSync.
func tornDown(t *testing.T) (*apiServer, *v1alpha1.NodeSync, string) {
	t.Helper()
	sync := &v1alpha1.NodeSync{ObjectMeta: metav1.ObjectMeta{Name: "prod", Namespace: "fleet", UID: "uid-1", ResourceVersion: "1"}}
	sync.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(v1alpha1.NodeSyncKind))
	sync.Spec.OnDelete = v1alpha1.OnDeleteOrphan
	sync.Status.Karpenter = &v1alpha1.KarpenterStatus{Version: "1.12.1", Namespace: "kube-system", Cluster: "demo", Region: "eu-west-1", ClusterARN: "arn:aws:eks:eu-west-1:111122223333:cluster/demo"}
	s, kubeconfig := serve(t, sync)
	s.objects[leasePath] = leaseOf("pod-1_a", 0)
	s.objects[controllerPath] = karpenterWith(1)
	define := func(group, resource, kind, name, owner string, managers ...string) {
		var entries []any
		for _, manager := range managers {
			entries = append(entries, map[string]any{"manager": manager, "operation": "Apply"})
		}
		s.objects["/apis/"+group+"/"+resource+"/"+name] = map[string]any{
			"apiVersion": group, "kind": kind,
			"metadata": map[string]any{"name": name, "labels": map[string]any{v1alpha1.OwnerLabel: owner}, "managedFields": entries},
			"status":   map[string]any{"instanceProfile": "demo_" + name},
		}
	}
	define("karpenter.sh/v1", "nodepools", "NodePool", "general", "fleet.prod", "plumbline", "kustomize-controller")
	define("karpenter.sh/v1", "nodepools", "NodePool", "batch", "fleet.prod", "plumbline")
	define("karpenter.sh/v1", "nodepools", "NodePool", "other", "fleet.stage")
	define("karpenter.k8s.aws/v1", "ec2nodeclasses", "EC2NodeClass", "default", "fleet.prod", "plumbline")
	for name, pool := range map[string]string{"general-a": "general", "general-b": "general", "batch-a": "batch", "other-a": "other"} {
		s.objects["/apis/karpenter.sh/v1/nodeclaims/"+name] = map[string]any{
			"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
			"metadata": map[string]any{"name": name, "labels": map[string]any{"karpenter.sh/nodepool": pool}},
			"status":   map[string]any{"nodeName": "node-" + name, "providerID": "aws:///eu-west-1a/i-" + name},
		}
	}
	return s, sync, kubeconfig
}

func removalOf(name string, phase v1alpha1.RemovalPhase, remaining int32, message string) v1alpha1.Removal {
	return v1alpha1.Removal{Kind: "NodePool", Name: name, Phase: phase, Remaining: remaining, Message: message}
}

// drains performs a deletion as the daemon does: each read of the NodeSync returns the next state.
func drains(s *apiServer, states ...[]v1alpha1.Removal) {
	const path = syncPath + "prod"
	s.deleted = func(s *apiServer, at string) {
		sync := s.objects[at].(*v1alpha1.NodeSync)
		sync.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
		s.answered = func(at string) {
			sync, there := s.objects[path].(*v1alpha1.NodeSync)
			switch {
			case at != path || !there:
			case len(states) == 0:
				delete(s.objects, path)
			default:
				sync.Status.Removals, states = states[0], states[1:]
				sync.ResourceVersion += "1"
			}
		}
	}
}

func awsAnswers(answers ...[]cloud.Answer) *remainsOf {
	return &remainsOf{account: "111122223333", answers: answers}
}

// changes returns the requests that have changed something.
func (s *apiServer) changes() (made []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, asked := range s.asked {
		if !strings.HasPrefix(asked, http.MethodGet) {
			made = append(made, strings.SplitN(asked, "?", 2)[0])
		}
	}
	return made
}

// TestTeardownPrints: it prints what is deleted and kept, deletes the NodeSync with Drain, watches until it is gone,
// and queries AWS twice. What a kept pool has does not count.
func TestTeardownPrints(t *testing.T) {
	states := [][]v1alpha1.Removal{
		{removalOf("batch", v1alpha1.RemovalPacing, 0, ""), removalOf("general", v1alpha1.RemovalPacing, 0, "")},
		{removalOf("general", v1alpha1.RemovalDraining, 1, "waits for PDB web/web")},
		nil,
	}
	for output, golden := range map[string]string{"text": "teardown.txt", "json": "teardown.json"} {
		t.Run(output, func(t *testing.T) {
			s, _, kubeconfig := tornDown(t)
			drains(s, states...)
			aws := awsAnswers(runningLeft, otherLeft)
			got := teardownWith(t.Context(), t, aws, "prod", "--yes", "-o", output, "--kubeconfig", kubeconfig)
			if got.code != exitDone || len(aws.queries) != 3 {
				t.Errorf("code %d after %d questions: %s", got.code, len(aws.queries), got.err)
			}
			if !slices.Contains(aws.queries[2].ProviderIDs, "aws:///eu-west-1a/i-batch-a") {
				t.Errorf("AWS is asked about %v at the end, want the instances of before among them", aws.queries[2].ProviderIDs)
			}
			const path = syncPath + "prod"
			if want := []string{"DELETE " + path, "PATCH " + path, "DELETE " + path}; !slices.Equal(want, s.changes()) {
				t.Errorf("writes %v, want %v: a dry run, onDelete, the deletion", s.changes(), want)
			}
			goldenOf(t, golden, got)
		})
	}
}

// goldenOf compares the output on both streams with a file, without times.
func goldenOf(t *testing.T, name string, got said) {
	t.Helper()
	text := timesOf.ReplaceAllString(got.out+"--- stderr\n"+got.err, `"time":"…"`)
	golden(t, name, text)
}

// TestTeardownChangesNothing if it could not complete, or nobody has confirmed it.
func TestTeardownChangesNothing(t *testing.T) {
	yes := []string{"prod", "--yes"}
	cases := map[string]struct {
		args    []string
		aws     []cloud.Answer
		prepare func(s *apiServer, sync *v1alpha1.NodeSync)
		says    string
	}{
		"another region":      {append(yes, "--cluster", "demo", "--region", "us-east-1"), runningLeft, nil, "and not of demo in us-east-1"},
		"another account":     {append(yes, "--account", "999"), runningLeft, nil, "the AWS credentials are for account 111122223333, but the cluster is in 999"},
		"its cluster unknown": {yes, runningLeft, func(_ *apiServer, sync *v1alpha1.NodeSync) { sync.Status.Karpenter = nil }, "nodesync/prod does not have the cluster's name yet: give --cluster and --region"},
		"several": {yes[1:], runningLeft, func(s *apiServer, sync *v1alpha1.NodeSync) {
			stage := sync.DeepCopy()
			stage.Name = "stage"
			s.objects[syncPath+"stage"] = stage
		}, "there are several NodeSyncs in fleet: name one of prod, stage"},
		"no pools may be listed": {yes, runningLeft, func(s *apiServer, _ *v1alpha1.NodeSync) {
			s.refused["/apis/karpenter.sh/v1/nodepools"] = http.StatusForbidden
		}, "list NodePools: you are not allowed to"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, sync, kubeconfig := tornDown(t)
			if c.prepare != nil {
				c.prepare(s, sync)
			}
			got := teardownWith(t.Context(), t, awsAnswers(c.aws), append(slices.Clone(c.args), "--kubeconfig", kubeconfig)...)
			if got.code != exitFailed || !strings.Contains(got.err, c.says) || len(s.changes()) > 0 {
				t.Errorf("code %d, writes %v, says %q, want %q in it", got.code, s.changes(), got.err, c.says)
			}
		})
	}
}

// TestTeardownGoneAlready: an earlier run may have deleted the NodeSync; AWS is queried anyway.
func TestTeardownGoneAlready(t *testing.T) {
	s, _, kubeconfig := tornDown(t)
	delete(s.objects, syncPath+"prod")
	for _, names := range [][]string{{"prod"}, nil} {
		for _, c := range []struct {
			aws  []cloud.Answer
			code int
		}{{nothingLeft, exitDone}, {runningLeft, exitStalled}, {denied, exitFailed}} {
			args := append(slices.Clone(names), "--yes", "--timeout", "0", "--cluster", "demo", "--region", "eu-west-1", "--account", "111122223333", "--kubeconfig", kubeconfig)
			if got := teardownWith(t.Context(), t, awsAnswers(c.aws), args...); got.code != c.code || len(s.changes()) > 0 {
				t.Errorf("%v: code %d, want %d: %s", names, got.code, c.code, got.err)
			}
		}
	}
}

// TestTeardownEnds: what stops the watch before the NodeSync is gone, and what is printed then.
func TestTeardownEnds(t *testing.T) {
	const again = "\n  plumbline teardown prod -n fleet --yes --cluster demo --region eu-west-1 --account 111122223333\n"
	cases := map[string]struct {
		timeout string
		begun   func(s *apiServer, stop func())
		code    int
		says    []string
	}{
		"the time is over": {"1s", func(*apiServer, func()) {}, exitStalled, []string{"nodesync/prod is not gone after 1s", again}},
		"Ctrl-C":           {"1h", func(_ *apiServer, stop func()) { stop() }, exitFailed, []string{"stopped; the daemon continues the teardown", again}},
		"it is kept by Orphan": {"1h", func(s *apiServer, _ func()) {
			s.objects[syncPath+"prod"].(*v1alpha1.NodeSync).Spec.OnDelete = v1alpha1.OnDeleteOrphan
		}, exitFailed, []string{"another client set onDelete: Orphan on nodesync/prod"}},
		"it was created again": {"1h", func(s *apiServer, _ func()) { s.objects[syncPath+"prod"].(*v1alpha1.NodeSync).UID = "uid-2" }, exitFailed, []string{"another client recreated nodesync/prod"}},
		"access was withdrawn": {"1h", func(s *apiServer, _ func()) { s.refused[syncPath] = http.StatusForbidden }, exitFailed, []string{"read NodeSync prod: you are not allowed to"}},
		"the API server ended": {"1s", func(s *apiServer, _ func()) {
			if err := s.close(); err != nil {
				s.t.Error(err)
			}
		}, exitFailed, []string{"the cluster cannot be reached; trying again", "read NodeSync prod: the cluster cannot be reached"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, _, kubeconfig := tornDown(t)
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			s.deleted = func(s *apiServer, at string) {
				s.objects[at].(*v1alpha1.NodeSync).DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
				s.answered = func(string) { s.answered = nil; c.begun(s, stop) }
			}
			got := teardownWith(ctx, t, awsAnswers(runningLeft), "prod", "--yes", "--timeout", c.timeout, "--kubeconfig", kubeconfig)
			for _, want := range c.says {
				if got.code != c.code || !strings.Contains(got.err, want) {
					t.Errorf("code %d, want %d, says %q, want %q in it", got.code, c.code, got.err, want)
				}
			}
		})
	}
}

// TestTeardownRefused: a user who may not delete the NodeSync changes nothing, not even onDelete.
func TestTeardownRefused(t *testing.T) {
	s, sync, kubeconfig := tornDown(t)
	s.undeletable = true
	got := teardownWith(t.Context(), t, awsAnswers(runningLeft), "prod", "--yes", "--kubeconfig", kubeconfig)
	if got.code != exitFailed || !strings.Contains(got.err, "delete NodeSync prod (nothing was changed): you are not allowed to") || sync.Spec.OnDelete != v1alpha1.OnDeleteOrphan {
		t.Errorf("code %d, onDelete %s, says %q", got.code, sync.Spec.OnDelete, got.err)
	}
	if want := []string{"DELETE " + syncPath + "prod"}; !slices.Equal(want, s.changes()) {
		t.Errorf("writes %v, want the dry run only", s.changes())
	}
}

// TestTeardownGoesOn with a NodeSync that is being deleted: nothing is confirmed or written again.
func TestTeardownGoesOn(t *testing.T) {
	s, sync, kubeconfig := tornDown(t)
	drains(s, nil)
	sync.Spec.OnDelete = v1alpha1.OnDeleteDrain
	s.deleted(s, syncPath+"prod")
	got := teardownWith(t.Context(), t, awsAnswers(runningLeft, otherLeft), "--kubeconfig", kubeconfig)
	if got.code != exitDone || len(s.changes()) > 0 || !strings.Contains(got.err, "nodesync/prod is being deleted already, with onDelete: Drain") {
		t.Errorf("code %d, writes %v: %s", got.code, s.changes(), got.err)
	}
}

// TestBars: a bar for each pool, full once its nodes are terminated, redrawn in place; rows are cut at the terminal's
// width.
func TestBars(t *testing.T) {
	var out strings.Builder
	s := &barShow{peopleShow: peopleShow{err: &out}, width: 64}
	pool := teardown.Departure{Kind: "NodePool", Name: "general", Phase: "Draining", Left: 3, Of: 4, Message: "waits for PDB web/web (0 disruptions allowed)"}
	class := teardown.Departure{Kind: "EC2NodeClass", Name: "default"}
	s.progress(teardown.Departures{pool, class}, "")
	pool.Left, pool.Phase, pool.Message, class.Phase = 0, teardown.PhaseGone, "", teardown.PhaseGone
	s.progress(teardown.Departures{pool, class}, "deleting")
	want := "NodePool/general       █████░░░░░░░░░░░░░░░  1 of 4 gone  Drai…\n" +
		"EC2NodeClass/default\n\x1b[2F\x1b[J" +
		"NodePool/general       ████████████████████  4 of 4 gone  Gone\ndeleting\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("draws (-want +got):\n%s", diff)
	}
}

// TestEachStateIsPrintedOnce: the message of Ready is not printed if the line of the definition already has it.
func TestEachStateIsPrintedOnce(t *testing.T) {
	var out strings.Builder
	s := &lineShow{peopleShow: peopleShow{err: &out}, printed: map[string]teardown.Departure{}}
	all := teardown.Departures{{Kind: "NodePool", Name: "batch", Phase: "Draining", Left: 1, Of: 2, Message: "waits for PDB web/web"}}
	for range 2 {
		s.progress(all, "removing NodePool/batch: 1 node left, waits for PDB web/web")
		s.progress(all, "waiting for Controller: deployment/karpenter is scaled to 0")
	}
	if want := "NodePool/batch: Draining, 1 of 2 left: waits for PDB web/web\nwaiting for Controller: deployment/karpenter is scaled to 0\n"; out.String() != want {
		t.Errorf("prints %q, want %q", out.String(), want)
	}
}
