package rollout

import (
	"cmp"
	"slices"
	"time"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// Pace returns the rollout of a look with how fast its nodes have been replaced, and when it is expected to be complete;
// nil if there is none. pools are the states of its NodePools, with the brakes of this reconcile.
func (r *Rollouts) Pace(looked Looked, pools []v1alpha1.PoolRollout, spec v1alpha1.NodeSyncSpec) *v1alpha1.Rollout {
	if looked.Rollout == nil {
		r.Memory.openings = nil
		return nil
	}
	of := looked.Rollout.DeepCopy()
	calendar, err := plan.CalendarOf(spec.Guard, r.Now)
	if err != nil {
		calendar = plan.Calendar{} // the Plan is refused for it
	}
	seen := r.paces(looked, pools, calendar)
	of.Paces = Measure(of.Paces, seen, r.Now)
	limit := Limit{Since: of.Since.Time}
	if spec.Rollout.Timeout != nil {
		limit.Timeout = spec.Rollout.Timeout.Duration
	}
	var again time.Time
	if of.Estimate, again = Estimate(of.Estimate, of.Paces, seen, limit, r.Now); !again.IsZero() {
		r.WakeBy(again)
	}
	return of
}

// paces returns what a look shows of each NodePool with outdated nodes, by name. Without Karpenter's controller, nothing
// is known but what was recorded before.
func (r *Rollouts) paces(looked Looked, pools []v1alpha1.PoolRollout, calendar plan.Calendar) []PaceSeen {
	var seen []PaceSeen
	if looked.away {
		for _, p := range looked.Rollout.Paces {
			seen = append(seen, PaceSeen{Pool: p.Pool, Outdated: int(p.Outdated), Blocked: v1alpha1.LimitKarpenter})
		}
		return seen
	}
	at := map[string]int{}
	for _, o := range looked.nodes {
		i, known := at[o.Claim.Pool]
		if !known {
			i, at[o.Claim.Pool] = len(seen), len(seen)
			seen = append(seen, PaceSeen{Pool: o.Claim.Pool})
		}
		seen[i].Outdated++
		if o.Claim.Deleting || o.Claim.Disrupted {
			seen[i].Replacing++
		}
	}
	nodes := map[string]int{}
	for i := range r.Live.NodeClaims {
		c := &r.Live.NodeClaims[i]
		nodes[c.Pool]++
		if i, known := at[c.Pool]; known && c.Launch > 0 && (seen[i].Launch == 0 || c.Launch < seen[i].Launch) {
			seen[i].Launch = c.Launch
		}
	}
	guard := calendar.At(r.Now)
	for i, s := range seen {
		seen[i] = r.pace(s, nodes[s.Pool], looked.limits[s.Pool], entryOf(pools, s.Pool), calendar, guard)
	}
	slices.SortFunc(seen, func(a, b PaceSeen) int { return cmp.Compare(a.Pool, b.Pool) })
	return seen
}

// pace returns s with what limits the replacement of a NodePool's nodes: limit, its budgets, the brake and the calendar.
// state is nil if nothing is known of a brake there, and guard is whether the calendar is closed now.
func (r *Rollouts) pace(
	s PaceSeen, nodes int, limit v1alpha1.RolloutLimit, state *v1alpha1.PoolRollout, calendar plan.Calendar, guard plan.Closed,
) PaceSeen {
	pool := r.Live.Objects[render.Ref{Kind: render.NodePool, Name: s.Pool}]
	if pool == nil {
		return s // Karpenter drains all nodes of a deleted NodePool
	}
	if !plan.IsStatic(pool.Unstructured) {
		s.Decision = plan.Decision(len(r.Live.NodeClaims))
	}
	if s.Blocked = blockedBy(state); s.Blocked != "" {
		return s
	}
	switch {
	case isBraked(state):
		s.Closed, s.Opens = true, guard.Until
		pool = r.unbraked(pool)
	case guard.By != "": // an emergency, or a person has resumed the rollout
		calendar = plan.Calendar{}
	}
	allowed := plan.AllowedDisruptions(pool, nodes, r.Now)
	switch s.AtATime = cmp.Or(allowed.Now, allowed.Next); {
	case allowed.Unreadable, s.AtATime == 0 && !allowed.Partly:
		s.Blocked = v1alpha1.LimitBudgets
		return s
	case allowed.Now == 0:
		s.Closed = true
		if allowed.At.After(s.Opens) {
			s.Opens = allowed.At
		}
	}
	s.Open, s.Blocked = r.openings(pool, nodes, calendar), limit
	if s.Outdated > s.Replacing && r.launchesFail(s.Pool) {
		s.Blocked = v1alpha1.LimitLaunches
	}
	return s
}

// isBraked reports whether the brake lets no node of a pool be replaced; state is nil if nothing is known of one.
func isBraked(state *v1alpha1.PoolRollout) bool {
	return state != nil && state.BrakedAt != nil && state.Failure == ""
}

// blockedBy returns why no node of a pool may be replaced for an unknown time: the brake or a wave; empty if neither.
func blockedBy(state *v1alpha1.PoolRollout) v1alpha1.RolloutLimit {
	switch braked := isBraked(state); {
	case braked && !frozen(*state):
		return v1alpha1.LimitStopped
	case !braked && state != nil && state.Wave.Limits():
		return v1alpha1.LimitWaves
	}
	return ""
}

// unbraked returns a NodePool as it is in Git: the brake is one of the live budgets.
func (r *Rollouts) unbraked(pool *plan.Object) *plan.Object {
	for _, p := range r.Pools {
		if p.Name == pool.GetName() && p.Git != nil {
			return plan.NewObject(p.Git)
		}
	}
	return pool
}

// launchesFail reports whether Karpenter launches no replacements in a NodePool.
func (r *Rollouts) launchesFail(pool string) bool {
	return slices.ContainsFunc(r.LaunchFailures, func(l LaunchFailure) bool { return l.Pool == pool && !l.Lost })
}

// openings are the periods in which nodes of a NodePool may be replaced, as read at a time from a version of it.
type openings struct {
	version string
	at      time.Time
	open    []plan.Window
}

// openings returns the periods in which a NodePool's nodes may be replaced. They are computed once a minute.
func (r *Rollouts) openings(pool *plan.Object, nodes int, calendar plan.Calendar) []plan.Window {
	name, m := pool.GetName(), r.Memory
	if known := m.openings[name]; known.version != pool.GetResourceVersion() || finding.Due(r.Now, known.at, time.Minute) {
		if m.openings == nil {
			m.openings = map[string]openings{}
		}
		m.openings[name] = openings{version: pool.GetResourceVersion(), at: r.Now, open: calendar.Openings(pool, nodes, r.Now)}
	}
	return m.openings[name].open
}
