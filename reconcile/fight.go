package reconcile

import (
	"fmt"

	"github.com/plumbline-dev/plumbline/provision/charts/release"
	"github.com/plumbline-dev/plumbline/provision/charts/survey"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
)

// noteFight notes what a chart made, and somebody changes again and again. It is
// left as it is, and all else goes on.
func (p *pass) noteFight(result release.Result) {
	if len(result.Paused) == 0 {
		return
	}
	p.fought = append(p.fought, result.Paused...)
	p.memory.repairedAt = p.now // looked at no more often than it would be put right
}

// insists says that a person has asked for this pass: what is fought for is put
// right once more.
func (p *pass) insists() bool {
	return p.sync.Status.LastHandledReconcileAt != p.before.Status.LastHandledReconcileAt
}

// fight is what is said of it until Git changes, the fight ends, or a person asks.
func (p *pass) fight() verdict {
	moved := survey.Drifts(p.fought)
	return verdict{
		class: stuck, reason: v1alpha1.ReasonConflict,
		message: fmt.Sprintf("%s: it was corrected again and again, and is left as it is now: stop what changes it, or name the fields under ignoreDifferences in plumbline.yaml; plumbline reconcile %s corrects it once more",
			moved, p.sync.Name),
		brief: fault.Brief{What: moved + ": corrected again and again, left as it is now: stop what changes it, or use ignoreDifferences"},
	}
}
