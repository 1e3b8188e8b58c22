package status

import (
	"errors"
	"strings"
	"testing"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/step"
	"github.com/plumbline-dev/plumbline/render"
)

// TestAPassThatDoesNotComeToRemovals reports which removals are paused: their phases are the previous ones.
func TestAPassThatDoesNotComeToRemovals(t *testing.T) {
	open := v1alpha1.Removal{Kind: render.NodePool, Name: "old", Phase: v1alpha1.RemovalDraining, Remaining: 2}
	held := v1alpha1.Removal{Kind: render.NodePool, Name: "kept", Phase: v1alpha1.RemovalHeld}
	const words = "; meanwhile no removal continues, but NodeClaims that are already being deleted are terminated: NodePool/old (draining, 2 nodes left)"
	for name, c := range map[string]struct {
		removals []v1alpha1.Removal
		class    fault.Class
		work     []step.Timing
		says     bool
	}{
		"Git is away":                {removals: []v1alpha1.Removal{held, open}, class: fault.Transient, says: true},
		"a commit is broken":         {removals: []v1alpha1.Removal{open}, class: fault.Terminal, says: true},
		"it is tried again at once":  {removals: []v1alpha1.Removal{open}, class: fault.Superseded},
		"nothing has begun":          {removals: []v1alpha1.Removal{held}, class: fault.Transient},
		"removals were driven first": {removals: []v1alpha1.Removal{open}, class: fault.Transient, work: []step.Timing{{Step: step.Remove}}},
	} {
		t.Run(name, func(t *testing.T) {
			sync := &v1alpha1.NodeSync{Status: v1alpha1.NodeSyncStatus{Removals: c.removals}}
			s := &Step{Sync: sync, Before: sync, Work: Work{Durations: c.work}}
			s.Fault = &fault.Error{Class: c.class, Reason: v1alpha1.ReasonSourceFailed, Err: errors.New("the host is away")}
			v := s.Verdict()
			if strings.HasSuffix(v.Message, words) != c.says || strings.Contains(v.CommitText(), "meanwhile") {
				t.Errorf("it says %q, of the commit %q", v.Message, v.CommitText())
			}
		})
	}
}
