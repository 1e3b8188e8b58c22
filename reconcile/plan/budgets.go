package plan

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/dustin/go-humanize/english"
	"github.com/robfig/cron/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

// budgets are the disruption budgets of a pool of so many nodes that count for a reason, with their
// schedules read once. They are read as Karpenter reads them: in UTC, and active up to their duration
// after a hit (sigs.k8s.io/karpenter pkg/apis/v1/nodepool.go IsActive, 1.14.1).
type budgets struct {
	nodes int
	all   []budget
}

// budget is one of them; without a schedule it is always active.
type budget struct {
	allowed  int
	schedule cron.Schedule
	duration time.Duration
}

// readBudgets reads those for a reason. An error, also of one for other reasons, means that Karpenter disrupts nothing.
func readBudgets(pool *karpv1.NodePool, nodes int, reason karpv1.DisruptionReason) (budgets, error) {
	b := budgets{nodes: nodes}
	for _, is := range pool.Spec.Disruption.Budgets {
		amount := karpv1.GetIntStrFromValue(is.Nodes)
		allowed, err := intstr.GetScaledValueFromIntOrPercent(&amount, nodes, true)
		if err != nil {
			return budgets{}, err
		}
		one := budget{allowed: allowed, duration: ptr.Deref(is.Duration, metav1.Duration{}).Duration}
		if is.Schedule != nil || is.Duration != nil {
			if one.schedule, err = cron.ParseStandard("TZ=UTC " + ptr.Deref(is.Schedule, "")); err != nil {
				return budgets{}, err
			}
		}
		if is.Reasons == nil || slices.Contains(is.Reasons, reason) {
			b.all = append(b.all, one)
		}
	}
	return b, nil
}

// active reports whether it counts at a time. A schedule that never hits counts always.
func (b budget) active(t time.Time) bool {
	return b.schedule == nil || !b.schedule.Next(t.UTC().Add(-b.duration)).After(t.UTC())
}

// at is how many nodes they allow to be replaced at a time.
func (b budgets) at(t time.Time) int {
	n := b.nodes
	for _, one := range b.all {
		if one.allowed < n && one.active(t) {
			n = one.allowed
		}
	}
	return n
}

// always is what those allow that have no schedule: they never allow more.
func (b budgets) always() int {
	n := b.nodes
	for _, one := range b.all {
		if one.schedule == nil {
			n = min(n, one.allowed)
		}
	}
	return n
}

// widest is the most that they allow at any time within a duration; whole reports whether all of it was
// looked at.
func (b budgets) widest(now time.Time, within time.Duration) (n int, whole bool) {
	n = b.at(now)
	turns, whole := b.turns(now, within)
	for _, turn := range turns {
		if n >= b.always() {
			return n, true
		}
		n = max(n, b.at(turn))
	}
	return n, whole || n >= b.always()
}

// most is the most that they allow at any time within a year; what cannot be looked at whole counts as open.
func (b budgets) most(now time.Time) int {
	if now.IsZero() {
		return b.always()
	}
	if n, whole := b.widest(now, year); whole {
		return n
	}
	return b.always()
}

// turns are the times within a duration at which one begins or ceases to be active, sorted; whole reports
// whether these are all, and not only the first of them.
func (b budgets) turns(now time.Time, within time.Duration) (found []time.Time, whole bool) {
	end := now.Add(within)
	each, cut := min(hits, looked/max(1, len(b.all))), time.Time{}
	for _, one := range b.all {
		if one.schedule == nil {
			continue
		}
		hit, last := now.Add(-one.duration).UTC(), true
		for range each {
			if hit = one.schedule.Next(hit); hit.IsZero() || hit.After(end) {
				last = false
				break
			}
			found = append(found, hit, hit.Add(one.duration))
		}
		if last && (cut.IsZero() || hit.Before(cut)) {
			cut = hit
		}
	}
	found = slices.DeleteFunc(found, func(t time.Time) bool { return !t.After(now) || !cut.IsZero() && t.After(cut) })
	slices.SortFunc(found, time.Time.Compare)
	found = slices.CompactFunc(found, time.Time.Equal)
	return found[:min(len(found), hits)], cut.IsZero() && len(found) <= hits
}

// PoolPace is how fast Karpenter may replace the nodes of one NodePool that a Plan outdates, or how fast
// they go where the pool leaves.
type PoolPace struct {
	Pool string
	// Nodes is how many are outdated or go, and Of how many there are. UpTo reports that AWS decides which of
	// the Nodes are. Leaves reports that the pool leaves.
	Nodes, Of    int
	UpTo, Leaves bool
	// Unlaunchable reports that no instance type meets the pool: no replacement can be launched.
	Unlaunchable bool
	// Launch is how long the fastest launch of its nodes has taken; 0 where none is known.
	Launch time.Duration
	// Allowed is by the disruption budgets as they are after the Plan, or by spec.removal.
	Allowed Allowed
	// Windows are when these allow a replacement in the next 30 days; none if that is always, or
	// never.
	Windows []Window
}

// Rounds is the least number of rounds, each as long as a launch and a drain, in which the nodes
// can be replaced; 0 if the budgets allow none, or no replacement can be launched.
func (p PoolPace) Rounds() int {
	at := cmp.Or(p.Allowed.Now, p.Allowed.Next)
	if at == 0 {
		return 0
	}
	return (p.Nodes + at - 1) / at
}

// AtLeast is about the shortest time in which that many rounds can follow each other, whole minutes
// where it is longer than one; 0 where it is not known.
func (p PoolPace) AtLeast() time.Duration {
	if p.UpTo {
		return 0
	}
	shortest := time.Duration(p.Rounds()) * p.Launch
	if shortest > time.Minute {
		return shortest.Truncate(time.Minute)
	}
	return shortest
}

// LowerBound says how many rounds there are, and how long they take.
func (p PoolPace) LowerBound() string {
	rounds := english.Plural(p.Rounds(), "round", "")
	switch {
	case p.UpTo:
		return rounds + " for all of them"
	case p.AtLeast() == 0:
		return rounds + " at least"
	}
	return fmt.Sprintf("%s, ~%s at least", rounds, Short(p.AtLeast()))
}

// Words say it to people.
func (p PoolPace) Words(now time.Time) string {
	if p.Leaves {
		return fmt.Sprintf("NodePool/%s: %s to terminate, up to %d at a time: %s (each round drains nodes, and launches others if pods are pending)",
			p.Pool, english.Plural(p.Nodes, "node", ""), p.Allowed.Now, p.LowerBound())
	}
	words := fmt.Sprintf("NodePool/%s: %d of %d nodes to replace, ", p.Pool, p.Nodes, p.Of)
	if p.UpTo {
		words = fmt.Sprintf("NodePool/%s: up to %d of %d nodes to replace, ", p.Pool, p.Nodes, p.Of)
	}
	switch {
	case p.Unlaunchable:
		return words + "but no instance type meets it: Karpenter launches no replacement"
	case p.Allowed.Unreadable:
		return words + "but a disruption budget cannot be parsed: Karpenter disrupts none"
	case p.Rounds() == 0:
		return words + "but its disruption budgets allow none"
	case p.Allowed.Now == 0:
		words += fmt.Sprintf("none until %s, then ", ClockTime(p.Allowed.At, now))
	}
	words += fmt.Sprintf("up to %d at a time: %s", cmp.Or(p.Allowed.Now, p.Allowed.Next), p.LowerBound())
	if p.AtLeast() > 0 {
		return words + fmt.Sprintf(" (each round launches and drains nodes; the fastest launch took %s)", Short(p.Launch))
	}
	return words + " (each round launches and drains nodes)"
}

// Paces are those of the NodePools whose nodes the Changes of a Plan outdate, by name. Where AWS
// decides which nodes these are, all count. unlaunchable are the NodePools that no instance type meets.
func Paces(changes []Change, live Live, unlaunchable []string, now time.Time) []PoolPace {
	paces, pools := pacesOf(live)
	outdated, budgets := map[types.UID]bool{}, map[string]*Object{}
	for i := range changes {
		c := &changes[i]
		if c.Ref.Kind == render.NodePool && c.Object.Defaulted != nil {
			budgets[c.Ref.Name] = NewObject(c.Wanted())
		}
		if c.Effect != EffectReplace {
			continue
		}
		for _, uid := range c.touched {
			pace := pools[uid]
			if pace == nil {
				continue // it ended since the Change was planned
			}
			pace.UpTo = pace.UpTo || c.UpTo
			if !outdated[uid] {
				outdated[uid] = true
				pace.Nodes++
			}
		}
	}
	var found []PoolPace
	for _, pace := range paces {
		object := cmp.Or(budgets[pace.Pool], live.object(render.Ref{Kind: render.NodePool, Name: pace.Pool}))
		if pace.Nodes > 0 && object != nil {
			if pace.Unlaunchable = slices.Contains(unlaunchable, pace.Pool); !pace.Unlaunchable {
				pace.Allowed, pace.Windows = AllowedDisruptions(object, pace.Of, now), Windows(object, pace.Of, now)
			}
			found = append(found, *pace)
		}
	}
	slices.SortFunc(found, func(a, b PoolPace) int { return cmp.Compare(a.Pool, b.Pool) })
	return found
}

// RemovalPaces are those of the NodePools that leave and whose nodes end, held ones included, by name. Each is a
// lower bound: removals that are open together share what may be leaving at a time.
func RemovalPaces(removals []Candidate, policy v1alpha1.RemovalPolicy) []PoolPace {
	var found []PoolPace
	for i := range removals {
		c := &removals[i]
		if at := policy.AtATime(c.Nodes); c.Ref.Kind == render.NodePool && c.Nodes > 0 && at > 0 {
			found = append(found, PoolPace{Pool: c.Ref.Name, Nodes: c.Nodes, Of: c.Nodes, Leaves: true, Allowed: Allowed{Now: at}})
		}
	}
	slices.SortFunc(found, func(a, b PoolPace) int { return cmp.Compare(a.Pool, b.Pool) })
	return found
}

// pacesOf are the pools that have NodeClaims, none of which is outdated yet, and the pool of each NodeClaim.
func pacesOf(live Live) (paces map[string]*PoolPace, pools map[types.UID]*PoolPace) {
	paces, pools = map[string]*PoolPace{}, map[types.UID]*PoolPace{}
	for i := range live.NodeClaims {
		c := &live.NodeClaims[i]
		if paces[c.Pool] == nil {
			paces[c.Pool] = &PoolPace{Pool: c.Pool}
		}
		pace := paces[c.Pool]
		pools[c.UID] = pace
		pace.Of++
		if c.Launch > 0 && (pace.Launch == 0 || c.Launch < pace.Launch) {
			pace.Launch = c.Launch
		}
	}
	return paces, pools
}

// MayGrow reports whether a NodePool launches nodes for pods, by what its spec
// tells: a static one has a fixed number of nodes, and a limit of 0 allows none
// (sigs.k8s.io/karpenter pkg/apis/v1/nodepool.go).
func MayGrow(pool *unstructured.Unstructured) bool {
	if _, static, _ := unstructured.NestedFieldNoCopy(pool.Object, "spec", "replicas"); static {
		return false
	}
	for _, limit := range quantities(pool, "spec", "limits") {
		if limit.IsZero() {
			return false
		}
	}
	return true
}

// LimitReached names the limit of a NodePool that leaves no room for a node, by its
// status; empty if none is.
func LimitReached(pool *unstructured.Unstructured) string {
	limits, used := quantities(pool, "spec", "limits"), quantities(pool, "status", "resources")
	var reached []string
	for name, limit := range limits {
		if now, counted := used[name]; counted {
			limit.Sub(now)
		}
		if least := leastNode(pool, name); limit.Sign() <= 0 || limit.Cmp(least) < 0 {
			reached = append(reached, name)
		}
	}
	if len(reached) == 0 {
		return ""
	}
	slices.Sort(reached)
	return reached[0]
}

// LimitsLeft is what the nodes of a NodePool have left of its limits of processors and memory;
// of a resource that it does not limit it has nothing.
func LimitsLeft(pool *unstructured.Unstructured) corev1.ResourceList {
	limits, used := quantities(pool, "spec", "limits"), quantities(pool, "status", "resources")
	left := corev1.ResourceList{}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if limit, limited := limits[string(name)]; limited {
			limit.Sub(used[string(name)])
			left[name] = limit
		}
	}
	return left
}

// leastNode is what the smallest node of a NodePool takes of a limit: no instance type has less
// than one processor and 512 MiB, and its requirements may ask for more processors.
func leastNode(pool *unstructured.Unstructured, limit string) resource.Quantity {
	switch limit {
	case string(corev1.ResourceMemory):
		return resource.MustParse("512Mi")
	case string(corev1.ResourceCPU):
		return *resource.NewQuantity(render.Least(pool, "karpenter.k8s.aws/instance-cpu"), resource.DecimalSI)
	}
	return resource.Quantity{}
}

// quantities reads a map of quantities. What cannot be read is left out: the API
// server has taken it, so that it is no quantity only where it does not matter.
func quantities(object *unstructured.Unstructured, path ...string) map[string]resource.Quantity {
	values, _, _ := unstructured.NestedFieldNoCopy(object.Object, path...)
	fields, _ := values.(map[string]any)
	all := map[string]resource.Quantity{}
	for name, value := range fields {
		if quantity, err := resource.ParseQuantity(fmt.Sprint(value)); err == nil {
			all[name] = quantity
		}
	}
	return all
}
