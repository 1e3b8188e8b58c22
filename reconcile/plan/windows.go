package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/internal/shortlist"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

// ReasonFrozen is the reason of what waits for spec.guard.windows, or until a freeze is over.
const ReasonFrozen = "Frozen"

// awaitsWindow is what a frozen Change waits for.
const awaitsWindow = "a window of spec.guard"

// MaxEmergency limits how long an emergency lasts, so that a forgotten annotation has no effect for longer.
const MaxEmergency = 24 * time.Hour

// Frozen is why no node may be removed or replaced now. The zero value means that nodes may.
type Frozen struct {
	// Message is the reason, and what to do in an emergency. It does not change by itself.
	Message string
	// Until is when the freeze is over; zero if unknown.
	Until time.Time
	// Begins is when it starts, if it has not started yet; zero if that is more than a day ahead.
	Begins time.Time
}

// FrozenNow returns why no node may be removed or replaced now; zero if nodes may, or if the Plan is nil.
func (p *Plan) FrozenNow() Frozen {
	if p == nil {
		return Frozen{}
	}
	return p.Frozen
}

// Emergency returns when the emergency in the annotation of a NodeSync is over, or what is wrong with the annotation;
// both are empty if there is none.
func Emergency(annotation string, now time.Time) (until time.Time, mistake string) {
	if annotation == "" {
		return time.Time{}, ""
	}
	until, err := time.Parse(time.RFC3339, annotation)
	switch {
	case err != nil:
		return time.Time{}, "must be a time, for example 2026-12-24T20:00:00Z"
	case until.After(now.Add(MaxEmergency)):
		return time.Time{}, fmt.Sprintf("must be within %d hours", int(MaxEmergency.Hours()))
	case !until.After(now):
		return time.Time{}, ""
	}
	return until, ""
}

// frozen reports whether nodes may be removed or replaced at the time of the Plan. The deletion of a NodeSync was
// requested explicitly, so it is never frozen.
func (p Policy) frozen() (Frozen, error) {
	if p.Deleting || p.Offline {
		return Frozen{}, nil
	}
	if p.Conflict != "" {
		return Frozen{Message: p.Conflict}, nil
	}
	days, err := CalendarOf(p.Guard, p.Now)
	if err != nil {
		return Frozen{}, err
	}
	until, mistake := Emergency(p.Emergency, p.Now)
	closed := days.At(p.Now)
	switch {
	case closed.By == "":
		return Frozen{Begins: days.Closes(p.Now, p.Now.Add(MaxEmergency))}, nil
	case !until.IsZero():
		return Frozen{Begins: until}, nil
	}
	message := fmt.Sprintf("%s; in an emergency: plumbline emergency %s -n %s --until 2h --reason TEXT",
		closed, p.Owner.Name, p.Owner.Namespace)
	if mistake != "" {
		message = closed.String() + "; the annotation " + v1alpha1.EmergencyAnnotation + " of the NodeSync is ignored: it " + mistake
	}
	return Frozen{Message: message, Until: closed.Until}, nil
}

// limited reports whether the disruption budgets of a NodePool belong to the brake.
func (p Policy) limited(pool string) bool { return p.Braked[pool] || p.Conflict != "" }

// waitForWindow makes the Changes wait that would terminate or replace nodes, except reverts.
func (m *maker) waitForWindow(p *Plan) {
	if p.Frozen.Message == "" {
		return
	}
	reverted := newReverted(m)
	for i := range p.Changes {
		c := &p.Changes[i]
		if !proceedsAndCounts(c) {
			continue
		}
		message := p.Frozen.Message
		if pools, others := m.reverts(c, reverted); pools != nil {
			others = slices.DeleteFunc(others, m.isBraked)
			if len(others) == 0 {
				c.Reverts = pools
				reverted.add(pools)
				continue
			}
			c.BrakesFirst = others
			message += fmt.Sprintf("; %s is reverted once plumbline has stopped the rollout in %s, where that would replace more nodes than it keeps", c.Ref, poolNames(others))
		}
		c.Action, c.Reason, c.WaitsFor = Wait, ReasonFrozen, awaitsWindow
		c.Message = message
		c.Message += c.remainingEdits()
	}
	p.Reverted = reverted.list()
}

// reverted are the NodePools that were reverted during this freeze, by name.
type reverted struct {
	pools map[string]v1alpha1.RevertedPool
	// live and git return the hash of what determines the nodes of a NodePool, now and once Git is applied.
	live, git func(pool string) string
}

func newReverted(m *maker) reverted {
	r := reverted{pools: map[string]v1alpha1.RevertedPool{}, git: MadeByGit(m.objects, m.live.Objects)}
	r.live = func(pool string) string {
		if live := m.live.object(render.Ref{Kind: render.NodePool, Name: pool}); live != nil {
			return MadeBy(live, m.live.Objects)
		}
		return ""
	}
	for _, p := range m.policy.Reverted {
		r.pools[p.Pool] = p
	}
	return r
}

// forbids reports whether a NodePool was reverted to another definition than Git's. A revert that could not be written
// forbids nothing.
func (r reverted) forbids(pool string) bool {
	p, is := r.pools[pool]
	return is && p.Definition != r.git(pool) && p.From != r.live(pool)
}

// add adds NodePools that are about to be reverted. A revert that is written once more stays as it was recorded.
func (r reverted) add(pools []string) {
	for _, pool := range pools {
		if git := r.git(pool); r.pools[pool].Definition != git {
			r.pools[pool] = v1alpha1.RevertedPool{Pool: pool, From: r.live(pool), Definition: git}
		}
	}
}

// list returns the NodePools, by name; nil if there are none.
func (r reverted) list() []v1alpha1.RevertedPool {
	return slices.SortedFunc(maps.Values(r.pools), func(a, b v1alpha1.RevertedPool) int { return cmp.Compare(a.Pool, b.Pool) })
}

// reverts returns the NodePools in which a Change reverts one that Karpenter is rolling out, and the others in which it
// would replace nodes: these must be braked first. pools is nil if the Change is no revert: one that keeps at least as
// many nodes, which Karpenter has not replaced yet, as it replaces. Otherwise a single node that is left of an earlier
// definition would let that definition pass any freeze. Another pool of the same class may have a rollout of its own,
// which is not reverted. A revert of a revert is none, during one freeze: it is the change that the freeze has stopped.
// Nor is a Change one that terminates nodes in another way than replacing those that do not match: by consolidation, by
// expiry, or because a static NodePool has fewer replicas. The former requirements may let Karpenter consolidate more than
// those that are reverted: a Change of them is a revert if it leaves spec.disruption as it is.
func (m *maker) reverts(c *Change, before reverted) (pools, others []string) {
	if c.UpTo || c.unnamed > 0 || len(c.expiring) > 0 || len(c.consolidated) > 0 && changesDisruption(c) {
		return nil, nil
	}
	kept, replaced, touched := map[string]int{}, map[string]int{}, sets.New(c.touched...)
	surplus := 0
	for _, n := range m.claims()[c.Ref] {
		switch {
		case n.Deleting: // it is replaced in any case
		case touched.Has(n.UID):
			replaced[n.Pool]++
			surplus--
		case n.Drifted && slices.Contains(c.DriftReasons, n.DriftReason):
			kept[n.Pool]++
			surplus++
		}
	}
	affected := slices.Sorted(maps.Keys(sets.KeySet(kept).Union(sets.KeySet(replaced))))
	if surplus < 0 || slices.ContainsFunc(affected, before.forbids) {
		return nil, nil
	}
	for _, pool := range affected {
		if kept[pool] >= replaced[pool] {
			pools = append(pools, pool)
		} else {
			others = append(others, pool)
		}
	}
	return pools, others
}

// changesDisruption reports whether a Change sets another spec.disruption of a NodePool, apart from the brake.
func changesDisruption(c *Change) bool {
	return c.Live != nil && !equal(specField(unbraked(c.Live), "disruption"), specField(c.Wanted(), "disruption"))
}

// poolNames lists NodePools for a message.
func poolNames(pools []string) string {
	names := make([]string, 0, len(pools))
	for _, pool := range pools {
		names = append(names, render.NodePool+"/"+pool)
	}
	return someOf(names)
}

// horizon limits how far ahead windows of disruption budgets are searched, maxHits how many times of one schedule and
// of one pool are evaluated, and maxHitsOfPool how many of all schedules of a pool: Git may have 49 budgets that
// change each minute.
const (
	horizon = 31 * 24 * time.Hour
	// year limits how far ahead the maximum of the budgets is searched: a schedule repeats within it.
	year          = 366 * 24 * time.Hour
	maxHits       = 2000
	maxHitsOfPool = 5 * maxHits
)

// Allowed is how many of a NodePool's nodes Karpenter may disrupt for a reason.
type Allowed struct {
	// Now is how many at this time, and Next how many from At on if Now is 0. At is zero if that is not within 31 days.
	Now, Next int
	At        time.Time
	// Partly reports whether, if At is zero, not all of the 31 days were searched.
	Partly bool
	// Unreadable reports whether a budget's schedule cannot be parsed: Karpenter disrupts nothing then.
	Unreadable bool
}

// AllowedDisruptions returns how many of this many nodes the disruption budgets of a NodePool let Karpenter replace for
// drift at a time, and when the next window opens.
func AllowedDisruptions(object *Object, nodes int, now time.Time) Allowed {
	pool, err := typed[karpv1.NodePool](object.Unstructured)
	if err != nil {
		return Allowed{Unreadable: true}
	}
	return AllowedFor(pool, karpv1.DisruptionReasonDrifted, nodes, now)
}

// AllowedFor is AllowedDisruptions of a typed NodePool for any reason.
func AllowedFor(pool *karpv1.NodePool, reason karpv1.DisruptionReason, nodes int, now time.Time) Allowed {
	b, err := readBudgets(pool, nodes, reason)
	if err != nil {
		return Allowed{Unreadable: true}
	}
	if n := b.allowedAt(now); n > 0 {
		return Allowed{Now: n}
	}
	turns, whole := b.changeTimes(now, horizon)
	for _, turn := range turns {
		if n := b.allowedAt(turn); n > 0 {
			return Allowed{Next: n, At: turn}
		}
	}
	return Allowed{Partly: !whole}
}

// Extremes are how much and how little the disruption budgets of a NodePool allow.
type Extremes struct {
	// Most is how many nodes they allow to be disrupted at most, at any time within a year.
	Most int
	// Opens is when they next allow a disruption, if they allow none now. All is when they first allow all nodes to be
	// disrupted at a time. Both are zero if that is not within 31 days.
	Opens, All time.Time
}

// ExtremesOf returns those of the disruption budgets of a NodePool with this many nodes, for a reason. An error means that a
// budget cannot be parsed: Karpenter disrupts nothing then.
func ExtremesOf(pool *karpv1.NodePool, nodes int, reason karpv1.DisruptionReason, now time.Time) (Extremes, error) {
	b, err := readBudgets(pool, nodes, reason)
	if err != nil {
		return Extremes{}, err
	}
	turns, _ := b.changeTimes(now, horizon)
	turns = slices.Insert(turns, 0, now)
	first := func(allows func(int) bool) (at time.Time) {
		if i := slices.IndexFunc(turns, func(t time.Time) bool { return allows(b.allowedAt(t)) }); i >= 0 {
			at = turns[i]
		}
		return at
	}
	found := Extremes{Most: b.maxInYear(now), All: first(func(n int) bool { return n >= nodes })}
	if b.allowedAt(now) == 0 {
		found.Opens = first(func(n int) bool { return n > 0 })
	}
	return found, nil
}

// BudgetActive reports whether a disruption budget in a NodePool's spec is active now. One that cannot be parsed is
// not.
func BudgetActive(budget map[string]any, now time.Time) bool {
	var read karpv1.Budget
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(budget, &read); err != nil {
		return false
	}
	read.Reasons = nil
	pool := &karpv1.NodePool{}
	pool.Spec.Disruption.Budgets = []karpv1.Budget{read}
	budgets, err := readBudgets(pool, 0, karpv1.DisruptionReasonDrifted)
	return err == nil && budgets.all[0].active(now)
}

// ClockTime formats a time, with its day if that is not today.
func ClockTime(t, now time.Time) string {
	t, now = t.UTC(), now.UTC()
	if t.YearDay() == now.YearDay() && t.Year() == now.Year() {
		return t.Format("15:04 UTC")
	}
	return t.Format("Mon 2 Jan 15:04 UTC")
}

// listPeriod limits how far ahead windows are listed, and maxListed how many of them a message contains.
const (
	listPeriod = 30 * 24 * time.Hour
	maxListed  = 3
)

// Window is a period in which disruption budgets let Karpenter replace nodes for drift.
type Window struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	// AtATime is the maximum that they allow at a time.
	AtATime int `json:"atATime"`
}

// Windows returns the periods within the next 30 days in which the disruption budgets of a NodePool let Karpenter
// replace any of this many nodes; none if they always do, never do, or cannot be parsed. The budgets are evaluated, as
// Karpenter does, at each time at which one of them starts or stops being active. The last period is cut off at 30
// days.
func Windows(object *Object, nodes int, now time.Time) []Window {
	pool, err := typed[karpv1.NodePool](object.Unstructured)
	if err != nil {
		return nil
	}
	b, err := readBudgets(pool, nodes, karpv1.DisruptionReasonDrifted)
	if err != nil {
		return nil
	}
	end := now.Add(listPeriod)
	turning, whole := b.changeTimes(now, horizon)
	if len(turning) == 0 || !whole {
		return nil // a budget that changes each minute is not evaluated that far
	}
	var found []Window
	from, shut := now, false
	for _, at := range append(turning, end) {
		if at.After(end) {
			at = end
		}
		n := b.allowedAt(from)
		switch last := len(found) - 1; {
		case n == 0:
			shut = true
		case last >= 0 && found[last].To.Equal(from):
			found[last].To, found[last].AtATime = at, max(found[last].AtATime, n)
		default:
			found = append(found, Window{From: from, To: at, AtATime: n})
		}
		if from = at; !at.Before(end) {
			break
		}
	}
	if !shut {
		return nil
	}
	return found
}

// WindowWords lists the first Windows; empty if there are none.
func (p PoolPace) WindowWords(now time.Time) string {
	if len(p.Windows) == 0 {
		return ""
	}
	var parts []string
	var open time.Duration
	for i, w := range p.Windows {
		open += w.To.Sub(w.From)
		if i < maxListed {
			parts = append(parts, fmt.Sprintf("%s to %s (up to %d at a time)", ClockTime(w.From, now), ClockTime(w.To, now), w.AtATime))
		}
	}
	return fmt.Sprintf("NodePool/%s: %s in 30 days, %s in all: %s%s", p.Pool, english.Plural(len(p.Windows), "window", ""), Hours(open), strings.Join(parts, "; "),
		shortlist.More(" ", len(p.Windows)-maxListed))
}

// Hours formats a duration in hours, or in minutes if it is less than one hour.
func Hours(d time.Duration) string {
	if d < time.Hour {
		return Short(d.Round(time.Minute))
	}
	return Short(d.Round(time.Hour))
}
