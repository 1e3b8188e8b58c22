package rollout

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// StaticGate is the feature gate without which Karpenter does nothing for static pools
// (sigs.k8s.io/karpenter pkg/operator/options/options.go).
const StaticGate = "StaticCapacity"

// replicas returns how many nodes a pool in the cluster should have; static reports whether it sets a number.
func (p Pool) replicas() (n int64, static bool) {
	if p.Live == nil {
		return 0, false
	}
	return replicasOf(p.Live.Unstructured)
}

func replicasOf(pool *unstructured.Unstructured) (n int64, static bool) {
	if pool == nil {
		return 0, false
	}
	n, found, err := unstructured.NestedInt64(pool.Object, "spec", "replicas")
	return n, found && err == nil
}

// unlaunchedStatic returns the static pools that have fewer NodeClaims than replicas.
func unlaunchedStatic(pools []Pool, claims []plan.NodeClaim) []string {
	wants := map[string]int64{}
	for _, pool := range pools {
		if replicas, static := pool.replicas(); static && replicas > 0 {
			wants[pool.Name] = replicas
		}
	}
	for i := range claims {
		if n, static := wants[claims[i].Pool]; static && n > 1 {
			wants[claims[i].Pool] = n - 1
		} else {
			delete(wants, claims[i].Pool)
		}
	}
	return slices.Sorted(maps.Keys(wants))
}

// staticOf returns the static pools of Git that have fewer initialized, staying nodes than replicas, or more
// NodeClaims: which of these Karpenter terminates is unknown beforehand, and it may be the initialized nodes. Those
// that have exactly as many are filled.
func staticOf(pools []Pool, claims []plan.NodeClaim) (short, filled []v1alpha1.StaticPool) {
	found := staticPoolsWithReplicas(pools)
	if len(found) == 0 {
		return nil, nil
	}
	all, ready := counted(claims)
	for _, s := range found {
		if s.Ready = ready[s.Pool]; full(s) && all[s.Pool] <= s.Replicas {
			filled = append(filled, s)
		} else {
			short = append(short, s)
		}
	}
	return short, filled
}

// staticPoolsWithReplicas returns the static pools of Git with at least one replica.
func staticPoolsWithReplicas(pools []Pool) []v1alpha1.StaticPool {
	var found []v1alpha1.StaticPool
	for _, pool := range pools {
		if replicas, static := replicasOf(pool.Git); static && replicas > 0 {
			found = append(found, v1alpha1.StaticPool{Pool: pool.Name, Replicas: int32(replicas)})
		}
	}
	return found
}

// full reports whether a static pool has as many nodes as replicas.
func full(s v1alpha1.StaticPool) bool { return s.Ready >= s.Replicas }

// counted returns how many NodeClaims of each pool are not being deleted, and how many of them have initialized nodes.
func counted(claims []plan.NodeClaim) (all, ready map[string]int32) {
	all, ready = map[string]int32{}, map[string]int32{}
	for i := range claims {
		c := &claims[i]
		if c.Deleting {
			continue
		}
		all[c.Pool]++
		if c.Initialized {
			ready[c.Pool]++
		}
	}
	return all, ready
}

// withoutFilled omits the static pools that need no node: the cause of their failed launch is over. A pool with a
// drifted node needs its replacement, although it has all nodes.
func withoutFilled(found []LaunchFailure, pools []Pool, claims []plan.NodeClaim) []LaunchFailure {
	if len(found) == 0 {
		return nil
	}
	_, ready := counted(slices.DeleteFunc(slices.Clone(claims), func(c plan.NodeClaim) bool { return c.Drifted }))
	return slices.DeleteFunc(found, func(l LaunchFailure) bool {
		return slices.ContainsFunc(pools, func(p Pool) bool {
			replicas, static := p.replicas()
			return p.Name == l.Pool && static && int64(ready[p.Name]) >= replicas
		})
	})
}

// Shortage is how many nodes a NodePool has that has fewer than Git wants, or none.
type Shortage struct {
	// Ready are the initialized nodes of a static pool, and Replicas those that Git wants; 0 for another pool, which
	// has no node.
	Ready, Replicas int32
}

// Of names the nodes that a pool does not have.
func (s Shortage) Of(pool string) string {
	if s.Replicas == 0 {
		return fmt.Sprintf("no node of %s/%s", render.NodePool, pool)
	}
	return fmt.Sprintf("%d of %d nodes of %s/%s", s.Ready, s.Replicas, render.NodePool, pool)
}

// Missing returns the pools of Git that have too few nodes, by name: static ones fewer than their replicas, others
// none.
func Missing(pools []Pool, claims []plan.NodeClaim) map[string]Shortage {
	_, ready := counted(claims)
	registered := map[string]bool{}
	for i := range claims {
		if claim := &claims[i]; claim.Node != "" && !claim.Deleting {
			registered[claim.Pool] = true
		}
	}
	missing := map[string]Shortage{}
	for _, pool := range pools {
		replicas, static := replicasOf(pool.Git)
		switch has := ready[pool.Name]; {
		case static && int64(has) < replicas:
			missing[pool.Name] = Shortage{Ready: has, Replicas: int32(replicas)}
		case !static && !registered[pool.Name]:
			missing[pool.Name] = Shortage{}
		}
	}
	return missing
}

// writes records that a Change writes a static NodePool.
func (o *Outdating) writes(c *plan.Change) {
	if c.Ref.Kind != render.NodePool || !c.Action.Writes() {
		return
	}
	replicas, static := replicasOf(c.Wanted())
	had, _ := replicasOf(c.Live)
	committed := !c.Drift && !c.Rescue
	if !static || !committed && had >= replicas {
		return // the correction does not concern the number
	}
	if o.Static == nil {
		o.Static = map[string]bool{}
	}
	o.Static[c.Ref.Name] = committed
}

// fillsStatic reports whether static pools that are short are written, and whether a commit does so.
func (s Seen) fillsStatic() (written, committed bool) {
	for _, pool := range s.Short {
		commits, is := s.Changes.Static[pool.Pool]
		written, committed = written || is, committed || commits
	}
	return written, committed
}

// awaited returns the static pools whose nodes a rollout waits for: those that are written while they are short, or
// whose nodes its commit has outdated, until they have had all nodes for a while, and no other number changes. A pool
// that loses a node for another reason is not included.
func (s Seen) awaited(before, of *v1alpha1.Rollout, outdated, draining int32) []v1alpha1.StaticPool {
	waits := map[string]bool{}
	for pool := range s.Changes.Static {
		waits[pool] = true
	}
	for _, o := range s.Outdated {
		waits[o.Claim.Pool] = waits[o.Claim.Pool] || of.Revision != ""
	}
	if before != nil {
		for _, pool := range before.StaticPools {
			waits[pool.Pool] = true
		}
	}
	left := slices.DeleteFunc(slices.Clone(s.Short), func(pool v1alpha1.StaticPool) bool { return !waits[pool.Pool] })
	if before == nil {
		return left
	}
	moves := before.Outdated != outdated || before.Draining != draining
	for _, pool := range s.Full {
		_, written := s.Changes.Static[pool.Pool]
		was := slices.ContainsFunc(before.StaticPools, func(w v1alpha1.StaticPool) bool { return w.Pool == pool.Pool })
		if was && (moves || written || s.Now.Sub(before.LastProgress.Time) < steadyPeriod) {
			left = append(left, pool)
		}
	}
	slices.SortFunc(left, func(a, b v1alpha1.StaticPool) int { return strings.Compare(a.Pool, b.Pool) })
	return left
}

// steadyPeriod is how long a static pool must have all of its nodes: Karpenter may have chosen some to terminate, when
// there were too many NodeClaims a moment ago.
const steadyPeriod = 10 * time.Second

// filling reports whether the numbers of static pools have changed.
func filling(before, next *v1alpha1.Rollout) bool {
	return before != nil && !slices.Equal(next.StaticPools, before.StaticPools)
}

// onlyStatic reports whether a rollout is about static pools that get more nodes, and has outdated none.
func (s Seen) onlyStatic(before, next *v1alpha1.Rollout) bool {
	static := len(next.StaticPools) > 0 || before != nil && len(before.StaticPools) > 0
	return static && next.Nodes == 0 && next.SettlesAt == nil && !s.Changes.Any()
}

// whyNotLaunched describes why static pools of a rollout get no more nodes, if known.
func (r *Rollouts) whyNotLaunched(of v1alpha1.Rollout) string {
	var words []string
	for _, short := range of.StaticPools {
		if full(short) {
			continue
		}
		i := slices.IndexFunc(r.LaunchFailures, func(l LaunchFailure) bool { return l.Pool == short.Pool })
		if i >= 0 {
			words = append(words, fmt.Sprintf("%s/%s launches no node: %s", render.NodePool, short.Pool, r.LaunchFailures[i].Why))
		} else if limit := limitOf(r.Pools, short.Pool); limit != nil && limit.CmpInt64(int64(short.Replicas)) < 0 {
			words = append(words, fmt.Sprintf("spec.limits.nodes of %s/%s is %s", render.NodePool, short.Pool, limit))
		}
	}
	return finding.Few(words, "; ")
}

// whyNotTerminated names the static pools that keep more nodes than replicas because StaticGate is off; empty if there
// are none.
func (r *Rollouts) whyNotTerminated(ctx context.Context) string {
	if excess(r.Pools, r.Live.NodeClaims, nil) == 0 || r.Off == nil {
		return ""
	}
	if off, err := r.Off(ctx, StaticGate); err != nil || !off {
		return ""
	}
	return "Karpenter's feature gate " + StaticGate + " is off, so it terminates no node of a static NodePool: set settings.featureGates.staticCapacity: true in the chart's values"
}

// withoutRoom returns the static pools with outdated nodes in which Karpenter replaces none because limits.nodes leave no
// room, and words that name them; both are empty if there are none, or if it terminates such nodes first. staying is how
// many wait in each pool.
func (r *Rollouts) withoutRoom(ctx context.Context, staying map[string]int) (words string, pools []string) {
	all := map[string]int64{}
	for i := range r.Live.NodeClaims {
		all[r.Live.NodeClaims[i].Pool]++ // terminating ones hold their place until they are gone
	}
	var stuck []plan.NodeLimit
	for _, pool := range r.Pools {
		if staying[pool.Name] == 0 || pool.Live == nil {
			continue
		}
		if limit, at := plan.NodeLimitOf(pool.Live.Unstructured); at && all[pool.Name] >= limit.Limit {
			limit.Nodes = staying[pool.Name]
			stuck = append(stuck, limit)
		}
	}
	if len(stuck) == 0 || r.On == nil {
		return "", nil
	}
	if on, err := r.On(ctx, plan.TerminateFirst); err != nil || on {
		return "", nil
	}
	var each []string
	for _, limit := range stuck {
		pools = append(pools, limit.Pool)
		each = append(each, limit.Words(false))
	}
	slices.Sort(each)
	return finding.Few(each, "; "), pools
}

// limitOf returns the limit of a static pool's nodes; nil if it has none.
func limitOf(pools []Pool, name string) *resource.Quantity {
	i := slices.IndexFunc(pools, func(p Pool) bool { return p.Name == name && p.Git != nil })
	if i < 0 {
		return nil
	}
	value, found, _ := unstructured.NestedFieldNoCopy(pools[i].Git.Object, "spec", "limits", "nodes")
	limit, err := resource.ParseQuantity(fmt.Sprint(value))
	if !found || err != nil {
		return nil
	}
	return &limit
}

// StaticReady describes how many nodes the static pools of a rollout have.
func StaticReady(r v1alpha1.Rollout) string {
	var words []string
	waits := slices.ContainsFunc(r.StaticPools, func(s v1alpha1.StaticPool) bool { return !full(s) })
	for _, s := range r.StaticPools {
		if !full(s) || !waits && r.Nodes == 0 {
			words = append(words, fmt.Sprintf("%d of %d nodes of %s/%s are Ready", s.Ready, s.Replicas, render.NodePool, s.Pool))
		}
	}
	return finding.Few(words, ", ")
}

// withPoolsInGit returns a rollout without the static pools that were removed from Git.
func (r *Rollouts) withPoolsInGit(of v1alpha1.Rollout) v1alpha1.Rollout {
	of.StaticPools = slices.DeleteFunc(slices.Clone(of.StaticPools), func(s v1alpha1.StaticPool) bool {
		return !slices.ContainsFunc(r.Pools, func(p Pool) bool { return p.Name == s.Pool })
	})
	return of
}

// filled describes which static pools of a complete rollout have their nodes.
func filled(r v1alpha1.Rollout) string {
	var words []string
	for _, s := range r.StaticPools {
		words = append(words, fmt.Sprintf("%s/%s has all of its nodes", render.NodePool, s.Pool))
	}
	return finding.Few(words, ", ")
}

// nextCheck returns when static pools are checked again: no watch reports that a node is initialized.
func nextCheck(of v1alpha1.Rollout, now time.Time) time.Time {
	return now.Add(min(max(now.Sub(of.LastProgress.Time)/4, 2*time.Second), askEvery))
}

// PassedOver adds static pools that Karpenter ignores because StaticGate is off: such a pool is Ready, and no condition
// says why it has too few nodes. off reports whether a feature gate is off; it is called only if there is such a pool,
// and its error is returned.
func PassedOver(
	ctx context.Context, found []LaunchFailure, pools []Pool, claims []plan.NodeClaim,
	off func(ctx context.Context, gate string) (bool, error),
) ([]LaunchFailure, error) {
	static := unlaunchedStatic(pools, claims)
	if len(static) == 0 {
		return found, nil
	}
	if is, err := off(ctx, StaticGate); err != nil || !is {
		return found, err
	}
	const why = "it is static (spec.replicas), and Karpenter's feature gate " + StaticGate + " is off: set settings.featureGates.staticCapacity: true in the chart's values"
	all := slices.DeleteFunc(slices.Clone(found), func(l LaunchFailure) bool { return slices.Contains(static, l.Pool) })
	for _, pool := range static {
		all = append(all, LaunchFailure{Pool: pool, Why: why})
	}
	slices.SortFunc(all, func(a, b LaunchFailure) int { return strings.Compare(a.Pool, b.Pool) })
	return all, nil
}

// SwitchedOff names the static pools of a commit if the values of the charts turn StaticGate off. The daemon detects
// that (PassedOver) only once such a pool is short of nodes, which may be long after the commit.
func SwitchedOff(pools []Pool, values map[string]any) []string {
	if on, given := render.IsOn(values, "settings", "featureGates", "staticCapacity"); on || !given {
		return nil
	}
	var words []string
	for _, pool := range staticPoolsWithReplicas(pools) {
		words = append(words, fmt.Sprintf("%s/%s is static (spec.replicas), and the chart's values have settings.featureGates.staticCapacity: false: Karpenter launches no node for it any more, "+
			"and replaces none that it loses: set it to true", render.NodePool, pool.Pool))
	}
	return words
}
