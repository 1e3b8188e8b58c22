package promotion

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// Way is how a commit goes over the rings if nothing stops it.
type Way struct {
	// Legs are in the order of the rings.
	Legs []Leg
	// Over is when the last ring has succeeded; zero if that is unknown, because a ring is paused or no window opens.
	Over time.Time
	// Measured reports whether Over includes how long rollouts took before. Otherwise it is a lower bound: soaks and
	// windows only.
	Measured bool
}

// Leg is a Way's part in one ring.
type Leg struct {
	Ring string
	// Soak is how long the commit must have been good in the rings before.
	Soak time.Duration
	// Steps is in how many groups its clusters take the commit; Nodes counts all of its nodes, by its records.
	Steps, Nodes int
	// Paused is why the ring takes nothing; empty if it is not paused.
	Paused string
	// Over is when enough of its clusters have succeeded; zero if unknown. Done reports that they have.
	Over time.Time
	Done bool
}

// WayOf returns how a commit goes over the rings.
//
//   - history is nil, and commit empty, for one that is not on the branch yet.
//   - e is its effect on a cluster, as far as it is known.
//   - floor is that of the own NodeSync.
func WayOf(rings *Rings, records Records, history *History, commit string, e Effect, floor Floor, now time.Time) Way {
	w := Way{}
	known := true
	for i := range rings.Rings {
		ring := &rings.Rings[i]
		leg := Leg{Ring: ring.Name, Steps: 1, Paused: ring.Paused, Soak: ring.soak(e)}
		if ring.Name == floor.Ring {
			leg.Soak = max(leg.Soak, floor.MinSoak)
		}
		if len(ring.Before) == 0 {
			leg.Soak = 0
		}
		if ring.MaxClusters > 0 {
			leg.Steps = (len(ring.Members) + ring.MaxClusters - 1) / ring.MaxClusters
		}
		var longest time.Duration
		for _, m := range ring.Members {
			took, nodes, measured := pace(records[m].Record, e)
			longest, leg.Nodes, w.Measured = max(longest, took), leg.Nodes+nodes, w.Measured || measured
		}
		if leg.Over, leg.Done = succeededBy(ring, records, history, commit); !leg.Done {
			leg.Over = ring.next(w.Legs, leg.Soak, now)
			if !leg.Over.IsZero() {
				leg.Over = leg.Over.Add(time.Duration(leg.Steps) * longest)
			}
		}
		known = known && !leg.Over.IsZero()
		if leg.Over.After(w.Over) {
			w.Over = leg.Over
		}
		w.Legs = append(w.Legs, leg)
	}
	if !known {
		w.Over = time.Time{}
	}
	return w
}

// next returns when a ring may take a commit, given the legs of the rings before; zero if that is unknown.
func (r *Ring) next(before []Leg, soak time.Duration, now time.Time) time.Time {
	at := now
	for _, i := range r.Before {
		if before[i].Over.IsZero() {
			return time.Time{}
		}
		if over := before[i].Over.Add(soak); over.After(at) {
			at = over
		}
	}
	if r.Paused != "" {
		return time.Time{}
	}
	if closed := r.Calendar.At(at); closed.By != "" {
		return closed.Until
	}
	return at
}

// pace returns how long a change with an effect takes on a cluster, by its last rollout that replaced nodes, and how many
// nodes the cluster has.
func pace(record *Record, e Effect) (took time.Duration, nodes int, measured bool) {
	if record == nil {
		return 0, 0, false
	}
	for i := range record.Verdicts { // newest first
		v := &record.Verdicts[i]
		if nodes == 0 {
			nodes = v.Effect.Of
		}
		if v.State != Succeeded || v.Effect.Nodes == 0 || v.Took == 0 {
			continue
		}
		if e.Of == 0 || e.Nodes == 0 {
			return 0, nodes, true
		}
		replaced := float64(e.Nodes) / float64(e.Of) * float64(nodes)
		return time.Duration(float64(v.Took) * float64(time.Second) * replaced / float64(v.Effect.Nodes)), nodes, true
	}
	return 0, nodes, false
}

// succeededBy returns when enough clusters of a ring had succeeded on a commit or a descendant of it, if they have.
func succeededBy(ring *Ring, records Records, history *History, commit string) (at time.Time, done bool) {
	if history == nil {
		return time.Time{}, false
	}
	var times []time.Time
	for _, m := range ring.Members {
		if v := firstSuccess(history, records[m].Record, commit); v != nil {
			times = append(times, v.Since)
		}
	}
	needed := (len(ring.Members)*ring.AtLeast + 99) / 100
	if len(times) < needed || needed == 0 {
		return time.Time{}, false
	}
	slices.SortFunc(times, time.Time.Compare)
	return times[needed-1], true
}

// Words describes the way in one line.
func (w Way) Words(now time.Time) string {
	legs := make([]string, 0, len(w.Legs))
	for _, leg := range w.Legs {
		text := leg.Ring
		if leg.Steps > 1 {
			text += fmt.Sprintf(" in %d steps", leg.Steps)
		}
		switch {
		case leg.Paused != "":
			text += ", which is paused: " + leg.Paused
		case leg.Soak == 0:
			text += " at once"
		default:
			text += " after " + plan.Hours(leg.Soak)
		}
		if leg.Nodes > 0 {
			text += fmt.Sprintf(" (%s nodes)", humanize.Comma(int64(leg.Nodes)))
		}
		legs = append(legs, text)
	}
	text := "rings: " + strings.Join(legs, " → ")
	switch {
	case w.Over.IsZero():
	case w.Measured:
		text += fmt.Sprintf("; over about %s after a merge now if nothing stops it", plan.Hours(w.Over.Sub(now)))
	default:
		text += fmt.Sprintf("; soaks and windows take %s, and rollouts come on top", plan.Hours(w.Over.Sub(now)))
	}
	return text
}

// EffectOf returns the effect of a commit on the nodes of its cluster: of its plan, and of a change of Karpenter's version.
// What is nil is unknown.
func EffectOf(p *plan.Plan, live plan.Live, before *v1alpha1.KarpenterStatus, after *render.Karpenter) Effect {
	e := Effect{}
	if p != nil {
		e.Nodes, e.Of = p.Totals(live).DisruptedNodes, p.Nodes
		if changesImage(p) {
			e.Kind = KindImage
		}
	}
	if before != nil && after != nil && before.Version != "" && after.Version != "" &&
		strings.TrimPrefix(before.Version, "v") != strings.TrimPrefix(after.Version, "v") {
		e.Kind = KindKarpenter
	}
	return e
}

// changesImage reports whether a plan changes the AMI of nodes.
func changesImage(p *plan.Plan) bool {
	for i := range p.Changes {
		c := &p.Changes[i]
		if c.Ref.Kind != render.EC2NodeClass || c.Drift {
			continue
		}
		if slices.ContainsFunc(c.Fields, func(f plan.Field) bool { return strings.HasPrefix(f.Path, "spec.ami") }) {
			return true
		}
	}
	return false
}
