package conclude

import (
	"strings"
	"testing"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

// TestSuspendedWithRemovals: nothing goes on, and what is open is reported.
func TestSuspendedWithRemovals(t *testing.T) {
	draining := v1alpha1.Removal{Kind: render.NodePool, Name: "old", Phase: v1alpha1.RemovalDraining, Message: "its NodeClaims drain and end", Remaining: 2}
	const want = "suspended: no removal goes on, NodeClaims that are deleted already end all the same: NodePool/old (draining, 2 nodes left)"
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

// TestHeldDoesNotHideTheController: it may crash all the while.
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
