package status

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

// TestSuspendedWithRemovals shows that nothing proceeds, and that removals in progress are reported.
func TestSuspendedWithRemovals(t *testing.T) {
	draining := v1alpha1.Removal{Kind: render.NodePool, Name: "old", Phase: v1alpha1.RemovalDraining, Message: "its NodeClaims are drained and terminated", Remaining: 2}
	const want = "suspended: no removal continues, but NodeClaims that are already being deleted are terminated: NodePool/old (draining, 2 nodes left)"
	for name, c := range map[string]struct {
		before   func(*v1alpha1.NodeSync)
		removals []v1alpha1.Removal
		removing string
		ready    string
	}{
		"at work": {
			func(n *v1alpha1.NodeSync) {
				conditions.MarkUnknown(n, meta.ReadyCondition, v1alpha1.ReasonRemoving, "removing NodePool/old")
			}, []v1alpha1.Removal{draining}, want, want,
		},
		"held": {
			func(n *v1alpha1.NodeSync) {
				conditions.MarkFalse(n, meta.ReadyCondition, v1alpha1.ReasonHeld, "held: a change")
			}, []v1alpha1.Removal{draining}, want, "held: a change",
		},
		"nothing is open": {
			func(n *v1alpha1.NodeSync) {
				conditions.MarkTrue(n, meta.ReadyCondition, v1alpha1.ReasonSucceeded, "applied")
			}, nil, "", "applied",
		},
	} {
		t.Run(name, func(t *testing.T) {
			sync := &v1alpha1.NodeSync{}
			c.before(sync)
			sync.Status.Removals = c.removals
			s := &Step{Sync: sync, Before: sync.DeepCopy()}
			s.Suspended = true
			for range 2 {
				s.Summarize()
			}
			if got := conditions.GetMessage(sync, v1alpha1.RemovingCondition); got != c.removing {
				t.Errorf("Removing: %q", got)
			}
			if got := conditions.GetMessage(sync, meta.ReadyCondition); got != c.ready {
				t.Errorf("Ready: %q", got)
			}
		})
	}
}

// TestHeldDoesNotHideTheController shows that a crashing controller is reported in addition.
func TestHeldDoesNotHideTheController(t *testing.T) {
	sync := &v1alpha1.NodeSync{}
	sync.Status.Removals = []v1alpha1.Removal{{Kind: render.NodePool, Name: "old", Phase: v1alpha1.RemovalHeld, Message: "2 NodePools leave, 1 may"}}
	const crashes = "deployment/karpenter: 0 of 2 replicas are ready"
	for name, c := range map[string]struct {
		crds, controller bool
		want             string
	}{
		"it runs":       {true, true, "2 NodePools leave, 1 may"},
		"it crashes":    {true, false, "2 NodePools leave, 1 may; Karpenter's controller: " + crashes},
		"nobody looked": {false, false, "2 NodePools leave, 1 may"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &Step{Sync: sync, Before: sync}
			s.Stages = []Stage{{Name: render.StageCRDs, Ready: c.crds}, {Name: render.StageController, Ready: c.controller, Message: crashes}}
			v := s.Verdict()
			if v.Reason != v1alpha1.ReasonHeld || !strings.HasSuffix(v.Message, c.want) {
				t.Errorf("%s: %s", v.Reason, v.Message)
			}
		})
	}
}

// TestNobodyLooksWhileSuspended shows that conditions that need a check are not reported then, and that every condition
// is in the one table.
func TestNobodyLooksWhileSuspended(t *testing.T) {
	of := map[string]bool{}
	for _, c := range ownConditions() {
		of[c.kind] = c.keptWhileSuspended
	}
	sync := &v1alpha1.NodeSync{Status: v1alpha1.NodeSyncStatus{LaunchFailing: []v1alpha1.LaunchFailure{{Pool: "a"}}}}
	for _, kind := range conditionsOf(t) {
		if _, listed := of[kind]; !listed {
			t.Errorf("nobody sets %s", kind)
		}
		conditions.MarkTrue(sync, kind, "Reason", "%s", "words")
	}
	s := &Step{Sync: sync, Before: sync.DeepCopy()}
	s.Suspended = true
	s.setConditions(Verdict{})
	for kind, kept := range of {
		if conditions.Has(sync, kind) != kept {
			t.Errorf("%s is kept: %t", kind, !kept)
		}
	}
	if sync.Status.LaunchFailing != nil {
		t.Errorf("launchFailing: %v", sync.Status.LaunchFailing)
	}
}

// conditionsOf returns the conditions of the API without those of kstatus.
func conditionsOf(t *testing.T) []string {
	t.Helper()
	source, err := os.ReadFile("../api/v1alpha1/conditions.go")
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, found := range regexp.MustCompile(`(?m)^\t\w+Condition += "(\w+)"$`).FindAllStringSubmatch(string(source), -1) {
		kinds = append(kinds, found[1])
	}
	if len(kinds) < 11 {
		t.Fatalf("found %v only", kinds)
	}
	return kinds
}
