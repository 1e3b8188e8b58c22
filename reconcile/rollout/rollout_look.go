package rollout

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/blocker"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

const (
	// eventsAfter is how long a rollout makes no progress until Karpenter's events, or what blocks draining nodes, are
	// queried.
	eventsAfter = 30 * time.Second
	// askEvery is the longest time between two queries.
	askEvery = time.Minute
	// earlyEvery is the time between queries before that, for causes that do not pass by themselves.
	earlyEvery = 3 * time.Second
)

// Memory is kept from one look at a rollout to the next. Losing it costs time, and part of a message about restored
// nodes.
type Memory struct {
	match plan.MatchMemory
	// expected are NodeClaims that AWS has reported as outdated, each with the possible reasons, until Karpenter has
	// had the time to check them.
	expected map[types.UID][]string
	// answered is true if AWS has reported such NodeClaims, and whole if these are all. compared is when they were
	// last compared with EC2.
	answered, whole bool
	compared        time.Time
	// looked is true after the first look. unrecalled is, after a restart, of how many NodeClaims it is unknown whether
	// AWS had reported them as outdated.
	looked     bool
	unrecalled int
	// withoutClaims contains the last written definitions without NodeClaims, and began is when the first look was.
	withoutClaims withoutClaims
	began         time.Time
	// asked is when Karpenter's events, or what blocks draining nodes, were last queried, and blocked is the result;
	// lasts reports whether it does not pass by itself. blockedDrains are the draining NodeClaims that it is about.
	asked         time.Time
	blocked       string
	lasts         bool
	blockedDrains map[types.UID]bool
	// askedEarly is when Karpenter's events were read before the rollout was quiet, and early is the result.
	askedEarly time.Time
	early      string
	// openings are when nodes of NodePools may be replaced.
	openings map[string]openings
	// instances are EC2's answers about instances.
	instances instanceMemory
	// remembered are the nodes that a commit has outdated.
	remembered remembered
	// watched is when the rollout was last looked at.
	watched time.Time
}

// Rollouts follows the replacement of nodes that do not match their definitions.
type Rollouts struct {
	finding.Findings

	Live  plan.Live
	Pools []Pool
	// Lost are the NodeClaims of static pools whose Node is gone.
	Lost map[types.UID]bool
	// Leaving are NodePools that were removed from Git and whose removal has not started: Karpenter still replaces
	// their nodes.
	Leaving []*plan.Object
	// Classes are the existing EC2NodeClasses of Git: pools of other NodeSyncs may refer to them.
	Classes []*plan.Object
	// Events reads past the cache: Karpenter's events, what blocks draining nodes, and who wrote a definition when.
	Events client.Reader
	// DaemonSets returns those of CSI drivers and CNI plugins. It is called only if a volume blocks a node.
	DaemonSets func(ctx context.Context, claims []plan.NodeClaim) (plan.DaemonSets, time.Time)
	// EC2 returns the region's client, which reads the network of instances, and whether one is protected; if nil, EC2
	// is not queried.
	EC2 func(ctx context.Context) (EC2, error)
	// Off reports whether one of Karpenter's feature gates is off; if nil, none is queried.
	Off func(ctx context.Context, gate string) (bool, error)
	// On reports whether one of them is on; if nil, none is queried.
	On       func(ctx context.Context, gate string) (bool, error)
	CABundle string
	// Before is the recorded rollout, and Reported that of the last reconcile, which events have reported; both nil if
	// there is none.
	Before, Reported *v1alpha1.Rollout
	Changes          []plan.Change
	// Revision is the applied one, and Applied the one before it.
	Revision, Applied string
	Now               time.Time
	// LaunchFailures are the pools that get no nodes, and therefore no replacements.
	LaunchFailures []LaunchFailure
	Memory         *Memory
	// Waves are the recorded states of the NodePools, and WatchFor is how long the workloads on new nodes are judged after
	// the last node is replaced; 0 without waves.
	Waves    []v1alpha1.PoolRollout
	WatchFor time.Duration
}

// Looked is the result of a look.
type Looked struct {
	// Rollout is how far the rollout has come, and what it waits for; nil if each node matches.
	Rollout *v1alpha1.Rollout
	// Outdated are the NodePools with nodes that do not match, each with Karpenter's reasons for the nodes that no commit
	// has outdated; Unknown reports that there may be other pools.
	Outdated map[string][]string
	Unknown  bool
	// Restored are nodes that are no longer outdated.
	Restored Restored

	// nodes are the nodes that do not match, and limits is what keeps nodes from being replaced. away reports that
	// Karpenter's controller is not ready.
	nodes  []plan.Outdated
	limits limits
	away   bool
	// unknown are the NodePools, by name, of which it is unknown whether nodes do not match.
	unknown map[string]bool
}

// limits is what keeps the nodes of NodePools, by name, from being replaced, and does not pass by itself.
type limits map[string]v1alpha1.RolloutLimit

func (l limits) add(by v1alpha1.RolloutLimit, pools ...string) {
	for _, pool := range pools {
		l[pool] = by
	}
}

// Begin records the rollout that the Changes start, before they are written, and reports whether they do.
func (r *Rollouts) Begin(status *v1alpha1.NodeSyncStatus) bool {
	if of := r.Before; of != nil && of.Revision != "" && of.Revision != r.Memory.remembered.revision { // after a restart
		r.Memory.remembered.remember(r.Before, r.match(true).Outdated, r.definitionHashes(), true)
	}
	short, full := staticOf(r.Pools, r.Live.NodeClaims)
	seen := Seen{
		Changes: OutdatedBy(r.Changes), Short: short, Full: full, Pools: changedPools(r.Changes, r.Pools, r.Live.NodeClaims),
		Revision: r.Revision, Applied: r.Applied, Now: r.Now,
	}
	_, fills := seen.fillsStatic()
	if outdates := seen.Changes.Any() && seen.Changes.Committed && (r.Before == nil || r.Before.Revision != r.Revision); !outdates && !fills {
		return false
	}
	seen.Matched = r.match(true)
	seen.Late, seen.LateFrom = r.knownLaunchedFromPrevious(slices.DeleteFunc(slices.Clone(seen.Outdated),
		func(o plan.Outdated) bool { return slices.Contains(seen.Pools, o.Claim.Pool) }))
	seen.Outdated, seen.Expected = r.withExpected(seen.Outdated)
	if r.Before != nil && r.mustRecall() {
		seen.Unrecalled = len(r.rolling())
	}
	status.Rollout = Roll(r.Before, seen)
	return true
}

// See is Look while Karpenter's controller is ready. Otherwise it checks no node, and gives Karpenter the full time
// once it is ready again.
func (r *Rollouts) See(ctx context.Context, ready bool) Looked {
	if ready {
		return r.Look(ctx)
	}
	return r.unseen()
}

func (r *Rollouts) unseen() Looked {
	looked := Looked{Unknown: true, away: true, unknown: r.poolsOf(func(*plan.NodeClaim) bool { return true })}
	if r.Before == nil {
		return looked
	}
	next := r.Before.DeepCopy()
	next.Message = "Karpenter's controller is not ready"
	if next.SettlesAt != nil && next.SettlesAt.Sub(r.Now) < Settles-askEvery {
		until := metav1.NewTime(r.Now.Add(Settles)).Rfc3339Copy()
		next.SettlesAt = &until
	}
	looked.Rollout = next
	return looked
}

// Look finds how far the rollout has come, and what it waits for.
func (r *Rollouts) Look(ctx context.Context) Looked {
	changes := OutdatedBy(r.Changes)
	r.noteWithoutClaims()
	exact := r.Before != nil || changes.Any() || r.Memory.withoutClaims.fresh(r.Now)
	matched := r.match(exact)
	if !exact && len(matched.Outdated) > 0 {
		matched = r.match(true)
	}
	var settled bool
	matched.Outdated, settled = r.expect(ctx, changes, matched.Outdated)
	late, from := r.launchedFromPrevious(ctx, matched.Outdated)
	short, full := staticOf(r.Pools, Present(r.Live.NodeClaims, r.Lost))
	next := Roll(r.Before, Seen{
		Changes: changes, Matched: matched, Excess: excess(r.Pools, r.Live.NodeClaims, matched.Outdated), Short: short, Full: full,
		Pools: changedPools(r.Changes, r.Pools, r.Live.NodeClaims), Revision: r.Revision, Applied: r.Applied, Now: r.Now,
		Expected: len(r.Memory.expected) > 0, Settled: settled, Unrecalled: r.Memory.unrecalled, Late: late, LateFrom: from,
		Waves: r.Waves, WatchFor: r.WatchFor, Unwatched: r.unwatched(),
	})
	looked := Looked{
		Rollout: next, Outdated: outdatedPools(next, matched.Outdated), Unknown: len(matched.Unresolved)+len(matched.Unknown) > 0,
		nodes: matched.Outdated, unknown: r.unknownPools(matched),
	}
	r.Memory.looked = true
	if r.Memory.unrecalled == 0 {
		r.Memory.instances.forget(matched.Outdated)
	}
	looked.Restored = r.Memory.remembered.follow(r, next, matched.Outdated)
	if next != nil && !looked.Unknown && !changes.Any() {
		r.Memory.remembered.recount(next, matched.Outdated, r.notDeleting())
	}
	if next != nil {
		next.Inputs = r.inputs(ctx,
			slices.DeleteFunc(slices.Clone(matched.Outdated), func(o plan.Outdated) bool { return !uncommitted(next, o) }))
	}
	r.announce(next)
	if next != nil {
		next.Message, looked.limits = r.waits(ctx, *next, matched)
		r.wakeFor(*next)
	}
	return looked
}

// watchEvery is the longest time between two looks at a rollout whose workloads are still judged.
const watchEvery = time.Minute

// unwatched returns for how long nothing has looked at a rollout whose workloads are still judged: because the NodeSync was
// suspended, Karpenter's controller was not ready, or no reconcile got that far. After a restart that is unknown, and the
// longest time counts.
func (r *Rollouts) unwatched() time.Duration {
	last := r.Memory.watched
	r.Memory.watched = r.Now
	switch gap := r.Now.Sub(last); {
	case r.Before == nil || r.Before.WatchUntil == nil:
		return 0
	case last.IsZero():
		return r.WatchFor
	case gap > 2*watchEvery:
		return gap
	}
	return 0
}

// wakeFor triggers a reconcile when a rollout may change without any event.
func (r *Rollouts) wakeFor(of v1alpha1.Rollout) {
	if len(of.StaticPools) > 0 {
		r.WakeBy(nextCheck(of, r.Now))
	}
	for _, at := range []*metav1.Time{of.SettlesAt, of.WatchUntil} {
		if at != nil && r.Now.Before(at.Time) {
			r.WakeBy(at.Time)
		}
	}
	if of.WatchUntil != nil {
		r.WakeBy(r.Now.Add(watchEvery))
	}
}

// unknownPools returns the NodePools, by name, of which nodes may not match although that is not known: Karpenter resolves
// the AMIs of their class, or EC2 has not answered since a restart. A node without a comparable hash is not one of these:
// Karpenter does not replace it.
func (r *Rollouts) unknownPools(matched plan.Matched) map[string]bool {
	return r.poolsOf(func(c *plan.NodeClaim) bool {
		return slices.Contains(matched.Resolving, c.Class) || r.Memory.unrecalled > 0 && r.Before.Changes(c.Pool)
	})
}

// poolsOf returns the NodePools, by name, with a NodeClaim for which wanted is true.
func (r *Rollouts) poolsOf(wanted func(*plan.NodeClaim) bool) map[string]bool {
	pools := map[string]bool{}
	for i := range r.Live.NodeClaims {
		if c := &r.Live.NodeClaims[i]; !pools[c.Pool] && wanted(c) {
			pools[c.Pool] = true
		}
	}
	return pools
}

// UnknownPools returns the NodePools, by name, of which it is unknown whether nodes do not match.
func (l Looked) UnknownPools() map[string]bool { return l.unknown }

// Nodes returns the nodes that do not match.
func (l Looked) Nodes() []plan.Outdated { return l.nodes }

// outdatedPools returns the NodePools of outdated nodes, each with Karpenter's reasons for those that no commit has
// outdated; of is nil if there is no rollout.
func outdatedPools(of *v1alpha1.Rollout, outdated []plan.Outdated) map[string][]string {
	all := map[string][]string{}
	for _, o := range outdated {
		reasons := all[o.Claim.Pool]
		if of != nil && uncommitted(of, o) && !slices.Contains(reasons, o.Reason) {
			reasons = append(reasons, o.Reason)
			slices.Sort(reasons)
		}
		all[o.Claim.Pool] = reasons
	}
	return all
}

// match finds the nodes of the pools, and those of the classes, that do not match the live definitions. It does not
// compare nodes with a NodePool that a removal has changed so that all of them drift, although Git contains it again.
func (r *Rollouts) match(exact bool) plan.Matched {
	definitions := slices.Concat(r.Classes, r.Leaving)
	for _, pool := range r.Pools {
		if pool.Live != nil && !plan.Replaced(pool.Live.Unstructured) {
			definitions = append(definitions, pool.Live)
		}
	}
	return r.matching(exact).Outdated(definitions)
}

func (r *Rollouts) matching(exact bool) plan.Match {
	m := plan.Match{Live: r.Live, Exact: exact, CABundle: r.CABundle, Memory: &r.Memory.match}
	if r.Before != nil {
		m.Since, m.Unhashed = r.Before.Since.Time, r.Before.Unhashed
	}
	return m
}

// waits describes what a rollout waits for: what blocks the nodes that must still be replaced, and those that drain. It
// is empty if nodes drain normally, or are about to. limited are the NodePools in which that does not pass by itself.
func (r *Rollouts) waits(ctx context.Context, of v1alpha1.Rollout, matched plan.Matched) (words string, limited limits) {
	staying := map[string]int{}
	var next, ending []*plan.NodeClaim
	for _, o := range matched.Outdated {
		if o.Claim.Deleting {
			ending = append(ending, o.Claim)
			continue
		}
		staying[o.Claim.Pool]++
		next = append(next, o.Claim)
	}
	limited = limits{}
	hangs, pools := r.blockedDraining(ctx, of, ending)
	limited.add(v1alpha1.LimitPods, pools...)
	if len(staying) == 0 {
		return cmp.Or(blocker.JoinWaits(r.whyNotLaunched(of), hangs), r.whyNotTerminated(ctx), r.unanswered(of, matched)), limited
	}
	if words := r.closed(staying, hangs != ""); words != "" {
		return blocker.JoinWaits(words, hangs), limited
	}
	if words, pools := r.withoutRoom(ctx, staying); words != "" {
		limited.add(v1alpha1.LimitLaunches, pools...)
		return blocker.JoinWaits(words, hangs), limited
	}
	for _, l := range r.LaunchFailures {
		if staying[l.Pool] > 0 {
			return blocker.JoinWaits(fmt.Sprintf("NodePool/%s launches no replacements: %s", l.Pool, l.Why), hangs), limited
		}
	}
	if len(ending) > 0 || r.allClosed(staying) {
		return hangs, limited
	}
	words, lasts := r.undisrupted(ctx, of, next)
	if lasts {
		limited.add(v1alpha1.LimitPods, next[0].Pool)
	}
	unmarked, pools := r.notMarked(next)
	limited.add(v1alpha1.LimitKarpenter, pools...)
	return cmp.Or(words, unmarked), limited
}

// allClosed reports whether Karpenter may replace none of the nodes that must still be replaced, because the waves of
// their pools are judged, held or queued, or open while the budgets in Git allow no replacement.
func (r *Rollouts) allClosed(staying map[string]int) bool {
	for name := range staying {
		e := entryOf(r.Waves, name)
		if e == nil || !e.Wave.Limits() {
			return false
		}
		at := slices.IndexFunc(r.Pools, func(p Pool) bool { return p.Name == name && p.Live != nil })
		if e.Wave.State == v1alpha1.WaveOpen && (at < 0 || !r.closedInGit(r.Pools[at])) {
			return false
		}
	}
	return true
}

// closedInGit reports whether the budgets of a NodePool in Git allow no replacement now.
func (r *Rollouts) closedInGit(pool Pool) bool {
	nodes := 0
	for i := range r.Live.NodeClaims {
		if r.Live.NodeClaims[i].Pool == pool.Name {
			nodes++
		}
	}
	why, _ := whyClosed(pool.Live, nodes, r.Now)
	return why != ""
}

// undisrupted returns why Karpenter does not start to replace nodes: its event on the first of them, once the rollout
// makes no progress. A cause that does not pass by itself (lasts) is reported as soon as Karpenter reports it.
func (r *Rollouts) undisrupted(ctx context.Context, of v1alpha1.Rollout, claims []*plan.NodeClaim) (words string, lasts bool) {
	early := r.queryEarly(of, func() string {
		words, lasts := r.reported(ctx, of, claims)
		if !lasts {
			return ""
		}
		return words
	})
	words = cmp.Or(early, r.blocked(of, false, func() (words string, lasts bool) { return r.reported(ctx, of, claims) }))
	return words, early != "" || words != "" && r.Memory.lasts
}

// queryEarly queries what blocks the nodes of a rollout whose last progress is more recent than quiet.
func (r *Rollouts) queryEarly(of v1alpha1.Rollout, ask func() string) string {
	m, from := r.Memory, of.LastProgress.Add(earlyEvery)
	switch {
	case !r.Now.Before(of.LastProgress.Add(eventsAfter)):
		m.early = ""
		return ""
	case r.Now.Before(from):
		m.early = ""
		r.WakeBy(from)
		return ""
	case finding.Due(r.Now, m.askedEarly, earlyEvery):
		m.askedEarly, m.early = r.Now, ask()
	}
	r.WakeBy(m.askedEarly.Add(earlyEvery))
	return m.early
}

// reported reads Karpenter's event on the first of some NodeClaims, and whether what it reports does not pass by
// itself. If that names a PodDisruptionBudget, all that block these nodes are named instead.
func (r *Rollouts) reported(ctx context.Context, of v1alpha1.Rollout, claims []*plan.NodeClaim) (words string, lasts bool) {
	first := claims[0]
	words, err := blocker.WhyNotDisrupted(ctx, r.Events, first.Name, first.Node != "", of.Since.Add(-clocksDiffer), r.Now)
	if err != nil {
		return err.Error(), false
	}
	if !blocker.NamesBudget(words) {
		return words, strings.Contains(words, karpv1.DoNotDisruptAnnotationKey)
	}
	if all, err := r.budgets(ctx, claims); err == nil && all != "" {
		return all, true
	}
	return words, true
}

// maxBlocked is the maximum number of nodes whose pods are read, to find the PodDisruptionBudgets that block them.
const maxBlocked = 25

// budgets names the PodDisruptionBudgets that block nodes, and their number; empty if none does.
func (r *Rollouts) budgets(ctx context.Context, claims []*plan.NodeClaim) (string, error) {
	names, namespaces := plan.Drains{}, map[string]bool{}
	var pods []corev1.Pod
	for _, c := range claims[:min(maxBlocked, len(claims))] {
		if c.Node == "" {
			continue
		}
		list := &corev1.PodList{}
		if err := r.Events.List(ctx, list, client.MatchingFields{"spec.nodeName": c.Node}); err != nil {
			return "", fmt.Errorf("list pods of node %s: %w", c.Node, err)
		}
		names[c.Node], pods = c.TerminationGracePeriod, append(pods, list.Items...)
		for i := range list.Items {
			namespaces[list.Items[i].Namespace] = true
		}
	}
	var budgets []policyv1.PodDisruptionBudget
	for namespace := range namespaces {
		list := &policyv1.PodDisruptionBudgetList{}
		if err := r.Events.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return "", fmt.Errorf("list PodDisruptionBudgets of namespace %s: %w", namespace, err)
		}
		budgets = append(budgets, list.Items...)
	}
	words := plan.WorkloadsOf(names, pods, budgets, r.Now).Blocks()
	if more := len(claims) - maxBlocked; words != "" && more > 0 {
		words = fmt.Sprintf("%s; %s not examined", words, english.Plural(more, "more node was", "more nodes were"))
	}
	return words, nil
}

// clocksDiffer is by how much Karpenter's clock may differ from ours.
const clocksDiffer = time.Minute

// blocked returns what blocks nodes. It queries this once the rollout makes no progress, or if goesOn, and then
// repeatedly, less often the longer it lasts: no watch reports budgets, and `plumbline why` reads them at once.
func (r *Rollouts) blocked(of v1alpha1.Rollout, goesOn bool, ask func() (words string, lasts bool)) string {
	m := r.Memory
	if asks := of.LastProgress.Add(eventsAfter); !goesOn && r.Now.Before(asks) {
		r.WakeBy(asks)
		m.blocked, m.lasts = "", false
		return ""
	}
	every := blocker.ReadAgain(r.Now.Sub(of.LastProgress.Time))
	if finding.Due(r.Now, m.asked, every) {
		m.asked = r.Now
		m.blocked, m.lasts = ask()
	}
	r.WakeBy(m.asked.Add(every))
	return m.blocked
}

// unanswered describes what a rollout waits for if no node is known to wait.
func (r *Rollouts) unanswered(of v1alpha1.Rollout, matched plan.Matched) string {
	if len(matched.Unresolved) > 0 {
		return fmt.Sprintf("Karpenter is resolving the AMIs of %s", finding.Few(matched.Unresolved, ", "))
	}
	if len(matched.Unknown) > 0 && of.Revision != "" {
		return fmt.Sprintf("unknown whether NodeClaim %s is up to date, because it has no hash for Karpenter to compare: delete it to have Karpenter replace it", finding.Few(matched.Unknown, ", "))
	}
	if n := r.Memory.unrecalled; n > 0 {
		if why := cmp.Or(r.unresolved(), r.Memory.instances.refused); why != "" {
			return fmt.Sprintf("unknown since a restart of plumbline whether %s outdated: %s", english.Plural(n, "node is", "nodes are"), why)
		}
	}
	if of.WatchUntil != nil && !r.Now.Before(of.WatchUntil.Time) {
		return "the workloads on the new nodes are judged until that shows that they work"
	}
	if of.WatchUntil != nil {
		return fmt.Sprintf("the workloads on the new nodes are judged until %s", plan.ClockTime(of.WatchUntil.Time, r.Now))
	}
	if of.Outdated == 0 && of.SettlesAt != nil {
		return fmt.Sprintf("Karpenter queries AWS for other outdated nodes until %s", plan.ClockTime(of.SettlesAt.Time, r.Now))
	}
	return ""
}

// closed names the pools whose budgets block their outdated nodes, if none may be disrupted; empty if one may. staying
// is how many wait in each pool, and beside reports that another cause is reported as well.
func (r *Rollouts) closed(staying map[string]int, beside bool) string {
	nodes := map[string]int{}
	for i := range r.Live.NodeClaims {
		nodes[r.Live.NodeClaims[i].Pool]++
	}
	var words []string
	for _, pool := range r.Pools {
		if staying[pool.Name] == 0 {
			continue
		}
		if e := entryOf(r.Waves, pool.Name); e != nil && e.Wave.Limits() {
			return "" // the state of the wave says what it waits for
		}
		allowed := plan.AllowedDisruptions(pool.Live, nodes[pool.Name], r.Now)
		var long, short string
		switch opens := plan.ClockTime(allowed.At, r.Now); {
		case allowed.Unreadable:
			short = fmt.Sprintf("NodePool/%s has a disruption budget that cannot be parsed", pool.Name)
			long = short + ": Karpenter disrupts no node until it is corrected"
		case allowed.Now > 0:
			return ""
		case allowed.At.IsZero():
			long = fmt.Sprintf("budgets of NodePool/%s allow no replacement", pool.Name)
			short = fmt.Sprintf("NodePool/%s allows no replacement", pool.Name)
		default:
			long = fmt.Sprintf("budgets of NodePool/%s allow no replacement until %s", pool.Name, opens)
			short = fmt.Sprintf("next window of NodePool/%s %s", pool.Name, opens)
			r.WakeBy(allowed.At)
		}
		if beside {
			long = short
		}
		words = append(words, long)
	}
	slices.Sort(words)
	return finding.Few(words, "; ")
}
