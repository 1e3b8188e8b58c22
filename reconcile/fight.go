package reconcile

import (
	"fmt"

	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// noteFight notes what a chart made, and somebody changes again and again. It is
// left as it is, and all else goes on.
func (p *pass) noteFight(result charts.Result) {
	if len(result.Fought) == 0 {
		return
	}
	p.fought = append(p.fought, result.Fought...)
	p.memory.repairedAt = p.now // looked at no more often than it would be put right
}

// insists says that a person has asked for this pass: what is fought for is put
// right once more.
func (p *pass) insists() bool {
	return p.sync.Status.LastHandledReconcileAt != p.before.Status.LastHandledReconcileAt
}

// fight is what is said of it until Git changes, the fight ends, or a person asks.
func (p *pass) fight() verdict {
	return verdict{stuck, v1alpha1.ReasonConflict, fmt.Sprintf(
		"%s: it was put right again and again, and now is left as it is: stop whoever changes it, or name the fields under ignoreDifferences in plumbline.yaml; plumbline reconcile %s puts it right once more",
		charts.Moves(p.fought), p.sync.Name)}
}
