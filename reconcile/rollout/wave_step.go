package rollout

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/rollout/judge"
	"github.com/plumbline-dev/plumbline/render"
)

// waveLease is how long Karpenter may begin to replace nodes of a wave without a renewal, and waveRenewal how long before
// the expiry it is renewed. It is as short as the precision of a schedule allows: while plumbline does not run, Karpenter
// may replace more nodes than the wave has, one after another, until then.
const (
	waveLease   = 2 * time.Minute
	waveRenewal = 30 * time.Second
)

// judgeAgain is when workloads that could not be read are read again.
const judgeAgain = 15 * time.Second

// WaveMemory remembers what was found about the waves of a NodeSync, by NodePool.
type WaveMemory struct{ pools map[string]*waveMemory }

type waveMemory struct {
	// began is when the wave began that the verdict is about.
	began   time.Time
	verdict judge.Verdict
	// judged is when the verdict was made.
	judged time.Time
	// seen are the nodes on which workloads were looked at before they were drained.
	seen map[string]bool
	// notReady are the nodes that were NotReady at checked.
	notReady []string
	checked  time.Time
}

func (m *WaveMemory) forget() {
	if m != nil {
		m.pools = nil
	}
}

func (m *WaveMemory) of(pool string) *waveMemory {
	if m == nil {
		return &waveMemory{}
	}
	if m.pools == nil {
		m.pools = map[string]*waveMemory{}
	}
	if m.pools[pool] == nil {
		m.pools[pool] = &waveMemory{}
	}
	return m.pools[pool]
}

// pending returns the NodePools, by name, in which a commit is written once Karpenter can replace no node of them.
func (s *BrakeStep) pending() map[string]bool {
	pools := map[string]bool{}
	for i := range s.Changes {
		if c := &s.Changes[i]; c.Reason == plan.ReasonWaves {
			for _, pool := range c.BrakesFirst {
				pools[pool] = true
			}
		}
	}
	return pools
}

// whyClosed returns why the disruption budgets of a live NodePool, without those of the brake or a wave, allow no replacement
// now, and until when; empty if they do, and zero if that is unknown. nodes is how many NodeClaims it has.
func whyClosed(live *plan.Object, nodes int, now time.Time) (why string, opens time.Time) {
	allowed := plan.AllowedDisruptions(live.Unbraked(), nodes, now)
	switch {
	case allowed.Unreadable:
		return "it has a disruption budget that cannot be parsed: Karpenter disrupts no node until it is corrected", time.Time{}
	case allowed.Now > 0:
		return "", time.Time{}
	case allowed.At.IsZero():
		return "its budgets in Git allow no replacement", time.Time{}
	}
	return "its budgets in Git allow no replacement until " + plan.ClockTime(allowed.At, now), allowed.At
}

// restored returns the NodePools, by name, in which this reconcile has written a revert of what is being rolled out.
func (s *BrakeStep) restored() map[string]bool {
	pools := map[string]bool{}
	for i := range s.Changes {
		if c := &s.Changes[i]; s.Written[c.Ref] {
			for _, pool := range c.RevertsWaves {
				pools[pool] = true
			}
		}
	}
	return pools
}

// removing reports whether the removal of a NodePool has started, and sets its disruption budgets.
func (s *BrakeStep) removing(pool string) bool {
	return slices.ContainsFunc(s.Sync.Status.Removals, func(r v1alpha1.Removal) bool {
		return r.Kind == render.NodePool && r.Name == pool && r.Started() && !r.Returned()
	})
}

// waved are the NodeClaims of a NodePool, sorted by what they are for a wave.
type waved struct {
	WaveNodes
	// old are the names of the outdated Nodes that are not being replaced, leaving are those of which Karpenter launches the
	// replacement, and matching are the other NodeClaims.
	old, leaving []string
	matching     []*plan.NodeClaim
	// waiting are the NodeClaims of Waiting.
	waiting []*plan.NodeClaim
}

// count returns how many NodeClaims the pool has; w may be nil.
func (w *waved) count() int {
	if w == nil {
		return 0
	}
	return len(w.matching) + len(w.Waiting) + len(w.Launching) + len(w.Draining)
}

// waveNodes returns the nodes of each NodePool.
func (s *BrakeStep) waveNodes() map[string]*waved {
	if s.Sync.Spec.Rollout.GetWaves() == nil {
		return nil
	}
	outdated := make(map[string]bool, len(s.Nodes))
	for _, o := range s.Nodes {
		outdated[o.Claim.Name] = true
	}
	pools := map[string]*waved{}
	for i := range s.Live.NodeClaims {
		c := &s.Live.NodeClaims[i]
		n := pools[c.Pool]
		if n == nil {
			n = &waved{}
			pools[c.Pool] = n
		}
		if (c.Deleting || c.Disrupted) && c.Node != "" {
			n.Disrupting++
		}
		switch {
		case !outdated[c.Name]:
			n.matching = append(n.matching, c)
		case c.Deleting:
			n.Draining = append(n.Draining, c.Name)
		case c.Disrupted:
			n.Launching = append(n.Launching, c.Name)
			if c.Node != "" {
				n.leaving = append(n.leaving, c.Node)
			}
		default:
			n.Waiting, n.waiting = append(n.Waiting, c.Name), append(n.waiting, c)
			if c.Node != "" {
				n.old = append(n.old, c.Node)
			}
		}
	}
	return pools
}

// judged returns the nodes of a NodePool in a wave, and judges the workloads on the new ones. was is the recorded state of
// the pool, and found are its nodes; each may be nil.
func (s *BrakeStep) judged(ctx context.Context, was *v1alpha1.PoolRollout, found *waved) (WaveNodes, judge.Verdict) {
	if found == nil {
		found = &waved{}
	}
	nodes := found.WaveNodes
	if was == nil || was.Wave == nil {
		return nodes, judge.Verdict{}
	}
	since := was.Wave.JudgesSince()
	earlier := launchedSince(found.matching, since.Time)
	nodes.Earlier, nodes.Relaunched = len(earlier), len(launchedSince(found.waiting, was.Wave.Since.Time))
	if !inWave(was.Wave) || was.Wave.State == v1alpha1.WaveFailed {
		return nodes, judge.Verdict{}
	}
	memory := s.Waves.of(was.Pool)
	nodes.Excused = s.failing(ctx, memory, was.Wave.Excused, found)
	// Nodes of earlier waves are judged, too: pods of the nodes that this one drains may have moved to them.
	wave := judge.Wave{
		Pool: was.Pool, Began: since.Time, Old: slices.Concat(found.old, found.leaving), Excused: nodes.Excused,
	}
	began := was.Wave.BeganAt
	if was.Wave.State == v1alpha1.WaveLast {
		began = since
	}
	latest := launchedSince(found.matching, began.Time)
	wave.New, wave.Latest, nodes.New = nodesOf(earlier), nodesOf(latest), len(latest)
	verdict := s.verdict(ctx, memory, began.Time, wave, len(earlier))
	nodes.Excused, nodes.Good = verdict.Excused(nodes.Excused), countGood(latest, verdict.Good)
	nodes.NotReady = s.notReady(ctx, memory, *was.Wave, was.Pool)
	return nodes, verdict
}

// launchedSince returns the NodeClaims that were created since a time and are not terminating.
func launchedSince(claims []*plan.NodeClaim, since time.Time) []*plan.NodeClaim {
	return slices.DeleteFunc(slices.Clone(claims), func(c *plan.NodeClaim) bool { return c.Deleting || c.Created.Before(since) })
}

// nodesOf returns the names of the Nodes of NodeClaims.
func nodesOf(claims []*plan.NodeClaim) []string {
	var nodes []string
	for _, c := range claims {
		if c.Node != "" {
			nodes = append(nodes, c.Node)
		}
	}
	return nodes
}

// countGood counts the NodeClaims that are initialized and whose Nodes are good.
func countGood(claims []*plan.NodeClaim, good []string) int {
	is := make(map[string]bool, len(good))
	for _, node := range good {
		is[node] = true
	}
	n := 0
	for _, c := range claims {
		if c.Initialized && is[c.Node] {
			n++
		}
	}
	return n
}

// failing returns the workloads that fail on nodes of which Karpenter launches the replacement, in addition to earlier
// ones: once a node is drained, nothing shows how its pods were. Each node is looked at once. What cannot be read counts.
func (s *BrakeStep) failing(ctx context.Context, memory *waveMemory, earlier []string, found *waved) []string {
	var nodes []string
	old := slices.Clone(found.old)
	for _, node := range found.leaving {
		if memory.seen[node] {
			old = append(old, node)
		} else {
			nodes = append(nodes, node)
		}
	}
	if len(nodes) == 0 {
		return earlier
	}
	failing, err := s.Failing(ctx, nodes, old, earlier)
	if err != nil {
		return earlier
	}
	seen := map[string]bool{} // without nodes that are gone
	for _, node := range found.leaving {
		seen[node] = true
	}
	memory.seen = seen
	return failing
}

// verdict judges the workloads of a wave, unless that was done recently. launched is the number of NodeClaims that were
// launched since the first wave began, with or without a Node.
func (s *BrakeStep) verdict(ctx context.Context, memory *waveMemory, began time.Time, wave judge.Wave, launched int) judge.Verdict {
	switch {
	case len(wave.New) == 0 && launched > 0:
		return judge.Verdict{State: judge.Undecided, Message: "no new node has joined the cluster yet"}
	case len(wave.New) == 0:
		return judge.Verdict{State: judge.Inconclusive, Message: "no node was launched for the wave"}
	}
	if memory.began.Equal(began) && s.Now.Before(memory.verdict.Again) && !s.watchEndedSince(memory.judged) {
		return memory.verdict
	}
	verdict, err := s.Judge(ctx, wave)
	if err != nil {
		verdict = judge.Verdict{Message: fmt.Sprintf("the workloads on the new nodes of NodePool/%s cannot be judged: %v", wave.Pool, err)}
	}
	if verdict.Again.IsZero() {
		verdict.Again = s.Now.Add(judgeAgain)
	}
	memory.began, memory.verdict, memory.judged = began, verdict, s.Now
	return verdict
}

// watchEndedSince reports whether the time until which workloads are judged has ended since a verdict, which therefore does
// not show that they are good at the end.
func (s *BrakeStep) watchEndedSince(judged time.Time) bool {
	if s.Rollout == nil || s.Rollout.WatchUntil == nil {
		return false
	}
	until := s.Rollout.WatchUntil.Time
	return judged.Before(until) && !s.Now.Before(until)
}

// notReady returns the nodes of a NodePool that are NotReady, while a wave has been open for a while. What cannot be read
// is not reported.
func (s *BrakeStep) notReady(ctx context.Context, memory *waveMemory, wave v1alpha1.RolloutWave, pool string) []string {
	if s.NotReady == nil || wave.State != v1alpha1.WaveOpen || s.Now.Before(wave.BeganAt.Add(beginsWithin)) {
		memory.notReady, memory.checked = nil, time.Time{}
		return nil
	}
	if memory.checked.IsZero() || !s.Now.Before(memory.checked.Add(beginsWithin)) {
		if found, err := s.NotReady(ctx, pool); err == nil {
			memory.notReady = found
		}
		memory.checked = s.Now
	}
	s.WakeBy(memory.checked.Add(beginsWithin))
	return memory.notReady
}

// limit sets the disruption budgets of a pool in a wave: Git's, and those that let Karpenter begin the replacements of the
// wave if that is recorded, or none. The recorded wave is in was. While it is unknown what Git wants, or which nodes are
// outdated, none may begin.
func (s *BrakeStep) limit(ctx context.Context, was *v1alpha1.PoolRollout, e v1alpha1.PoolRollout) error {
	if was == nil || was.Wave == nil && was.BrakedAt == nil {
		s.WakeBy(s.Now) // the budgets are set once the wave is recorded
		return nil
	}
	allowed := s.mayBegin(e.Pool, was.Wave, e.Wave)
	live, object, err := s.budgetsOf(e.Pool)
	if live == nil || err != nil {
		return err
	}
	lease := plan.Lease{Nodes: allowed, Until: s.Now.Add(waveLease).Truncate(time.Minute)}
	has, leased := plan.LeaseOf(live.Unstructured, object, s.Now)
	if renew := has.Until.Add(-waveRenewal); allowed > 0 && leased && has.Nodes == allowed && s.Now.Before(renew) {
		s.WakeBy(renew)
		return nil
	}
	if allowed > 0 {
		s.WakeBy(lease.Until.Add(-waveRenewal))
	}
	budgets, err := plan.Leased(object, lease)
	if err != nil {
		return err
	}
	return s.lease(ctx, live, budgets)
}

// mayBegin returns how many replacements of the wave of a pool Karpenter may begin now. was is the recorded wave.
func (s *BrakeStep) mayBegin(pool string, was, is *v1alpha1.RolloutWave) int {
	if s.InForce || s.UnknownPools[pool] {
		return 0
	}
	allowed := WaveBudget(is)
	if allowed > 0 && !IsRecorded(was, is) {
		s.WakeBy(s.Now)
		return 0
	}
	return allowed
}

// lease writes the disruption budgets of a wave, unless the pool has them.
func (s *BrakeStep) lease(ctx context.Context, live *plan.Object, budgets []any) error {
	if set, err := plan.IsBraked(live.Unstructured, budgets); err != nil || set {
		return err
	}
	if err := s.edited(live.Unstructured, "apply those in Git, or turn waves off with spec.rollout.waves.disabled"); err != nil {
		return err
	}
	return s.writeBudgets(ctx, live, budgets, "limit the nodes of a wave")
}
