package rollout_test

import (
	"slices"
	"testing"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// TestWithoutGitNoBrakeEnds shows that the status reports a stopped rollout until Git's budgets can be restored, even
// if a client edits the pool or a person resumes it meanwhile.
func TestWithoutGitNoBrakeEnds(t *testing.T) {
	for name, change := range map[string]func(*world){
		"edited by hand": func(w *world) {
			pool := w.live[render.Ref{Kind: render.NodePool, Name: "general"}]
			pool.Object["spec"].(map[string]any)["template"].(map[string]any)["metadata"] = map[string]any{"labels": map[string]any{"by": "hand"}}
		},
		"resumed": func(w *world) {
			w.sync.Annotations = map[string]string{v1alpha1.ResumeRolloutAnnotation: "general@2026-03-01T12:05:00Z"}
		},
		"only reported": func(w *world) { w.sync.Spec.Rollout.OnFailure = v1alpha1.RolloutReport },
		"a freeze that is over": func(w *world) {
			w.sync.Status.PoolRollouts[0].Reason, w.sync.Status.PoolRollouts[0].Failed = v1alpha1.BrakeFrozen, nil
			w.launches = nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.failThree()
			w.pass(true)
			stopped := w.sync.Status.PoolRollouts[0].BrakedAt
			if change(w); w.launches == nil {
				w.launches = newWorld(t).launches
			}
			w.inForce, w.events = true, nil
			w.pass(true)
			w.pass(true)
			if got := w.sync.Status.PoolRollouts[0]; stopped == nil || !got.BrakedAt.Equal(stopped) || slices.Contains(w.events, "RolloutResumed") || len(w.applied) == 0 {
				t.Errorf("stopped at %v: %+v, events %v, applied %q", stopped, got, w.events, w.applied)
			}
		})
	}
	w := newWorld(t)
	w.frozen, w.inForce = plan.Frozen{Message: "not now"}, true
	w.pass(true)
	if w.pass(true); len(w.applied) == 0 {
		t.Error("no rollout is stopped")
	}
}
