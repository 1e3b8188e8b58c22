package teardown

import (
	"time"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// growing stops a pool from making nodes. It may come at any time after the
// recording, and again where someone has undone it.
func growing(r v1alpha1.Removal, o Observation, _ time.Time) (step, bool) {
	if !o.Exists || o.Terminating || o.GrowthStopped || o.Static {
		return step{}, true
	}
	s := step{
		phase: upTo(r.Phase, v1alpha1.RemovalVerifyingCloud), reason: ReasonStoppingGrowth,
		message: "it is kept from making nodes", remaining: unknown, actions: []Action{StopGrowth{}},
	}
	if rank(s.phase) <= rank(v1alpha1.RemovalDraining) {
		s.remaining = len(o.NodeClaims)
	}
	return s, false
}

// draining ends the pool's NodeClaims. Their deletion cannot be taken back, so
// it wants every gate open, the providerIDs recorded and a look past the cache.
func draining(r v1alpha1.Removal, o Observation, _ time.Time) (step, bool) {
	if len(o.NodeClaims) == 0 {
		return step{}, true
	}
	left := o.undeleted()
	if len(left) > 0 {
		gates := []gate{o.controller(), o.cloud()}
		if !begun(r) {
			gates = append(gates, o.arrivals())
		}
		if s, open := closed(upTo(r.Phase, v1alpha1.RemovalDraining), len(o.NodeClaims), gates...); !open {
			return s.asking(o), false
		}
	}
	s := step{phase: v1alpha1.RemovalDraining, reason: ReasonNodeClaimsLeaving, message: "its NodeClaims drain and end", remaining: len(o.NodeClaims)}
	fresh, _ := o.news()
	switch {
	case len(left) == 0, len(fresh) > 0:
	case o.Exists && !o.Terminating && o.Static && !o.GrowthStopped:
		s.actions = []Action{ScaleToZero{}}
	case !o.Fresh:
		s.actions = []Action{Reread{}}
	default:
		for _, c := range left {
			s.actions = append(s.actions, DeleteNodeClaim{Name: c.Name, UID: c.UID, ResourceVersion: c.ResourceVersion})
		}
	}
	return s.asking(o), false
}

// scaling stops a static pool that happens to have no node just now.
func scaling(r v1alpha1.Removal, o Observation, _ time.Time) (step, bool) {
	if !o.Exists || o.Terminating || !o.Static || o.GrowthStopped {
		return step{}, true
	}
	phase := upTo(r.Phase, v1alpha1.RemovalDraining)
	gates := []gate{o.cloud()}
	if !begun(r) {
		gates = append(gates, o.arrivals())
	}
	if s, open := closed(phase, 0, gates...); !open {
		return s, false
	}
	return step{phase: phase, reason: ReasonStoppingGrowth, message: "it is kept from making nodes", remaining: 0, actions: []Action{ScaleToZero{}}}, false
}

// verifying asks EC2, and believes it only where it is known to be the right
// account: a wrong one has none of the instances. What was draining has drained
// by then, whether EC2 can be asked or not.
func verifying(r v1alpha1.Removal, o Observation, now time.Time) (step, bool) {
	phase, gates := upTo(r.Phase, v1alpha1.RemovalVerifyingCloud), []gate{o.cloud()}
	switch {
	case begun(r):
		phase = v1alpha1.RemovalVerifyingCloud
	case o.Exists && !o.Terminating:
		gates = append(gates, o.arrivals())
	}
	if s, open := closed(phase, unknown, gates...); !open {
		return s, false
	}
	s := step{phase: v1alpha1.RemovalVerifyingCloud, remaining: unknown}
	switch alive := o.unended(now); {
	case o.Silence != "":
		s.reason, s.message = ReasonEC2Silent, o.silence()
	case o.EC2 == nil:
		s.reason, s.message = ReasonAskingEC2, "EC2 is asked whether every instance has ended"
		if r.Reason == ReasonInstancesLeaving || r.Reason == ReasonEC2Silent || r.Reason == ReasonUnaskable {
			// The last answer stands until the next one: it may not be time to ask.
			s.reason, s.message = r.Reason, r.Message
		}
		s.actions = []Action{AskEC2{}}
	case len(alive) > 0 && len(alive) == len(o.Unaskable):
		s.reason, s.remaining = ReasonUnaskable, len(alive)
		s.message = names(o.Unaskable) + ": not an instance of EC2, which cannot say whether it has ended: check that it has, then delete it from the removal's record in ConfigMap plumbline-<name of the NodeSync>"
	case len(alive) > 0:
		s.reason, s.message, s.remaining = ReasonInstancesLeaving, "EC2 has not ended every instance yet", len(alive)
	default:
		return step{}, true
	}
	return s, false
}

// asking has EC2 show the instances that are recorded while they live, so that
// one that is absent later is one that was seen.
func (s step) asking(o Observation) step {
	if o.EC2 == nil && o.Silence == "" && o.Cloud.Open && o.unseen() {
		s.actions = append([]Action{AskEC2{}}, s.actions...)
	}
	return s
}

// undeleted returns the NodeClaims that nobody has deleted yet.
func (o Observation) undeleted() []Claim {
	var left []Claim
	for _, c := range o.NodeClaims {
		if c.Deleting.IsZero() {
			left = append(left, c)
		}
	}
	return left
}
