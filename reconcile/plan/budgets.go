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

// budgets are the disruption budgets for a reason of a pool with this many nodes, with parsed schedules. They work as
// in Karpenter: in UTC, and active up to their duration after a hit (sigs.k8s.io/karpenter pkg/apis/v1/nodepool.go
// IsActive, 1.14.1).
type budgets struct {
	nodes int
	all   []budget
}

// budget is one budget; without a schedule it is always active.
type budget struct {
	allowed  int
	schedule cron.Schedule
	duration time.Duration
}

// readBudgets parses those for a reason. An error, even in a budget for other reasons, means that Karpenter disrupts
// nothing.
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

// active reports whether it is active at a time. A schedule that never hits is always active.
func (b budget) active(t time.Time) bool {
	return b.schedule == nil || !b.schedule.Next(t.UTC().Add(-b.duration)).After(t.UTC())
}

// allowedAt returns how many nodes they allow to be replaced at a time.
func (b budgets) allowedAt(t time.Time) int {
	n := b.nodes
	for _, one := range b.all {
		if one.allowed < n && one.active(t) {
			n = one.allowed
		}
	}
	return n
}

// alwaysAllowed returns what the budgets without a schedule allow: all of them together never allow more.
func (b budgets) alwaysAllowed() int {
	n := b.nodes
	for _, one := range b.all {
		if one.schedule == nil {
			n = min(n, one.allowed)
		}
	}
	return n
}

// maxWithin returns the maximum that they allow at any time within a duration; whole reports whether all of it was
// searched.
func (b budgets) maxWithin(now time.Time, within time.Duration) (n int, whole bool) {
	n = b.allowedAt(now)
	turns, whole := b.changeTimes(now, within)
	for _, turn := range turns {
		if n >= b.alwaysAllowed() {
			return n, true
		}
		n = max(n, b.allowedAt(turn))
	}
	return n, whole || n >= b.alwaysAllowed()
}

// maxInYear returns the maximum that they allow at any time within a year; if not all of it can be searched, it counts
// as open.
func (b budgets) maxInYear(now time.Time) int {
	if now.IsZero() {
		return b.alwaysAllowed()
	}
	if n, whole := b.maxWithin(now, year); whole {
		return n
	}
	return b.alwaysAllowed()
}

// changeTimes returns the times within a duration at which a budget starts or stops being active, sorted; whole reports
// whether these are all, and not only the first.
func (b budgets) changeTimes(now time.Time, within time.Duration) (found []time.Time, whole bool) {
	end := now.Add(within)
	each, cut := min(maxHits, maxHitsOfPool/max(1, len(b.all))), time.Time{}
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
	return found[:min(len(found), maxHits)], cut.IsZero() && len(found) <= maxHits
}

// PoolPace is how fast Karpenter may replace the nodes of one NodePool that a Plan makes drift, or how fast they are
// terminated if the pool is removed.
type PoolPace struct {
	Pool string
	// Nodes is how many drift or terminate, and Of is the total. UpTo reports whether AWS decides which of the Nodes
	// drift. Leaves reports whether the pool is removed.
	Nodes, Of    int
	UpTo, Leaves bool
	// Unlaunchable is why no replacement can be launched, for example because no instance type meets the pool's
	// requirements; empty if one can.
	Unlaunchable string
	// Launch is the duration of the fastest launch of its nodes; 0 if unknown.
	Launch time.Duration
	// Decision is that of a cluster with so many nodes; 0 if Karpenter decides on several nodes of the pool at once.
	Decision time.Duration
	// Allowed is calculated from the disruption budgets after the Plan, or from spec.removal.
	Allowed Allowed
	// Windows are when the budgets allow a replacement in the next 30 days; none if that is always, or never.
	Windows []Window
}

// Rounds returns the minimum number of rounds, each as long as a launch and a drain, in which the nodes can be
// replaced; 0 if the budgets allow none, or no replacement can be launched.
func (p PoolPace) Rounds() int {
	return Rounds(p.Nodes, cmp.Or(p.Allowed.Now, p.Allowed.Next))
}

// Rounds returns in how many rounds nodes are replaced, this many at a time; 0 if none may be.
func Rounds(nodes, atATime int) int {
	if atATime == 0 {
		return 0
	}
	return (nodes + atATime - 1) / atATime
}

// decisionPerNode is about how long Karpenter takes at least to decide which node it replaces next, for each node of the
// cluster: a twentieth of the 27 s that it took on average with 5,000 nodes (kubernetes-sigs/karpenter#3197), because
// that depends on the pods, too.
//
// It decides on one drifted node of a dynamic NodePool in each evaluation, whatever the budgets allow
// (sigs.k8s.io/karpenter pkg/controllers/disruption/controller.go and drift.go, 1.14.1 and 1.15.0). Of static NodePools
// it replaces as many at once as the budgets allow (staticdrift.go there).
const decisionPerNode = 27 * time.Second / 5000 / 20

// Decision returns about how long Karpenter takes at least to decide which node it replaces next, in a cluster with
// this many nodes. It does not depend on the disruption budgets.
func Decision(nodes int) time.Duration { return time.Duration(nodes) * decisionPerNode }

// Decisions returns about how long Karpenter takes at least to decide on nodes one after another; 0 if that is less than
// a minute.
func Decisions(nodes int, each time.Duration) time.Duration {
	if took := time.Duration(nodes) * each; took >= time.Minute {
		return took
	}
	return 0
}

// decisions returns about how long Karpenter takes at least to decide on all nodes; 0 if that is less than a minute, or
// if it decides on all at once.
func (p PoolPace) decisions() time.Duration {
	if p.Rounds() == 0 {
		return 0
	}
	return Decisions(p.Nodes, p.Decision)
}

// byDecisions reports whether Karpenter's decisions take longer than the rounds.
func (p PoolPace) byDecisions() bool { return p.decisions() > time.Duration(p.Rounds())*p.Launch }

// AtLeast returns the approximate minimum duration of that many rounds, or of Karpenter's decisions if these take
// longer, in whole minutes if it is longer than one; 0 if unknown.
func (p PoolPace) AtLeast() time.Duration {
	if p.UpTo {
		return 0
	}
	shortest := max(time.Duration(p.Rounds())*p.Launch, p.decisions())
	if shortest > time.Minute {
		return shortest.Truncate(time.Minute)
	}
	return shortest
}

// LowerBound describes how many rounds there are, and how long they take.
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

// Words returns the pace as text.
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
	case p.Unlaunchable != "":
		return words + "but " + p.Unlaunchable + ": Karpenter launches no replacement"
	case p.Allowed.Unreadable:
		return words + "but a disruption budget cannot be parsed: Karpenter disrupts none"
	case p.Rounds() == 0:
		return words + "but its disruption budgets allow none"
	case p.Allowed.Now == 0:
		words += fmt.Sprintf("none until %s, then ", ClockTime(p.Allowed.At, now))
	}
	words += fmt.Sprintf("up to %d at a time: %s", cmp.Or(p.Allowed.Now, p.Allowed.Next), p.LowerBound())
	switch {
	case p.UpTo:
	case p.byDecisions():
		return words + " (Karpenter decides on one node after another, whatever the budgets allow: kubernetes-sigs/karpenter#3197 measured 17 in an hour with 5,000 nodes)"
	case p.AtLeast() > 0:
		return words + fmt.Sprintf(" (each round launches and drains nodes; the fastest launch took %s)", Short(p.Launch))
	}
	return words + " (each round launches and drains nodes)"
}

// Paces returns the pace of the NodePools whose nodes the Changes of a Plan make drift, by name. If AWS decides which
// nodes these are, all count. unlaunchable is why Karpenter launches no replacement in a NodePool, by its name.
func Paces(changes []Change, live Live, unlaunchable map[string]string, now time.Time) []PoolPace {
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
				continue // it terminated since the Change was planned
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
			if !IsStatic(object.Unstructured) {
				pace.Decision = Decision(len(live.NodeClaims))
			}
			if pace.Unlaunchable = unlaunchable[pace.Pool]; pace.Unlaunchable == "" {
				pace.Allowed, pace.Windows = AllowedDisruptions(object, pace.Of, now), Windows(object, pace.Of, now)
			}
			found = append(found, *pace)
		}
	}
	slices.SortFunc(found, func(a, b PoolPace) int { return cmp.Compare(a.Pool, b.Pool) })
	return found
}

// noInstanceType is why Karpenter launches no node in a NodePool whose requirements no instance type meets.
const noInstanceType = "no instance type meets it"

// Unlaunchable returns why Karpenter launches no replacements, by NodePool: no instance type meets its requirements, or
// its limits.nodes leave no room while the feature gate TerminateFirst is off.
func Unlaunchable(withoutType []string, limits []NodeLimit) map[string]string {
	found := map[string]string{}
	for _, limit := range limits {
		found[limit.Pool] = limit.Stuck()
	}
	for _, pool := range withoutType {
		found[pool] = noInstanceType
	}
	return found
}

// RemovalPaces returns the pace of the removed NodePools whose nodes terminate, including held ones, by name. Each is a
// lower bound: open removals share how many nodes may be leaving at a time.
func RemovalPaces(removals []Candidate, policy v1alpha1.RemovalPolicy) []PoolPace {
	var found []PoolPace
	for i := range removals {
		c := &removals[i]
		if at := policy.MaxTerminating(c.Nodes); c.Ref.Kind == render.NodePool && c.Nodes > 0 && at > 0 {
			found = append(found, PoolPace{Pool: c.Ref.Name, Nodes: c.Nodes, Of: c.Nodes, Leaves: true, Allowed: Allowed{Now: at}})
		}
	}
	slices.SortFunc(found, func(a, b PoolPace) int { return cmp.Compare(a.Pool, b.Pool) })
	return found
}

// pacesOf returns the pools that have NodeClaims, without drifted nodes yet, and the pool of each NodeClaim.
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

// IsStatic reports whether a NodePool is static: it has a fixed number of nodes.
func IsStatic(pool *unstructured.Unstructured) bool {
	_, static, _ := unstructured.NestedFieldNoCopy(pool.Object, "spec", "replicas")
	return static
}

// MayGrow reports whether a NodePool launches nodes for pods, according to its spec: a static one has a fixed number of
// nodes, and a limit of 0 allows none (sigs.k8s.io/karpenter pkg/apis/v1/nodepool.go).
func MayGrow(pool *unstructured.Unstructured) bool {
	if IsStatic(pool) {
		return false
	}
	for _, limit := range quantities(pool, "spec", "limits") {
		if limit.IsZero() {
			return false
		}
	}
	return true
}

// LimitReached returns the limit of a NodePool that, according to its status, allows no further node; empty if there is
// none.
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

// LimitsLeft returns the remaining CPU and memory within the limits of a NodePool; a resource without a limit is
// omitted.
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

// leastNode returns how much of a limit the smallest node of a NodePool uses: each instance type has at least one vCPU
// and 512 MiB, and the requirements may demand more vCPUs.
func leastNode(pool *unstructured.Unstructured, limit string) resource.Quantity {
	switch limit {
	case string(corev1.ResourceMemory):
		return resource.MustParse("512Mi")
	case string(corev1.ResourceCPU):
		return *resource.NewQuantity(render.Least(pool, "karpenter.k8s.aws/instance-cpu"), resource.DecimalSI)
	}
	return resource.Quantity{}
}

// quantities reads a map of quantities. Values that cannot be parsed are omitted: the API server has accepted them, so
// they do not matter.
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
