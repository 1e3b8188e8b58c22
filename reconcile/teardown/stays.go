package teardown

import (
	"time"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// stays ends the way of a removal before its pool is deleted, where only the nodes were to go. That none is left is
// read past the cache: a NodeClaim that the cache lacks may have an instance that EC2 does not show yet.
func stays(r v1alpha1.Removal, o Observation, _ time.Time) (step, bool) {
	switch {
	case !o.Stays || !o.alive():
		return step{}, true
	case !o.Fresh && !r.Drained():
		return step{phase: v1alpha1.RemovalVerifyingCloud, reason: r.Reason, message: r.Message, remaining: 0, actions: []Action{Reread{}}}, false
	}
	return step{
		phase: v1alpha1.RemovalVerifyingCloud, reason: ReasonDrained,
		message: "none of its nodes is left, by EC2 too, and it makes no new one", remaining: 0,
	}, false
}

// rests asks nobody again about the nodes of such a pool, as long as it gets none.
func rests(r v1alpha1.Removal, o Observation, now time.Time) (step, bool) {
	if !r.Drained() {
		return step{}, true
	}
	return stays(r, o, now)
}
