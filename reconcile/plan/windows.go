package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"
	"k8s.io/apimachinery/pkg/runtime"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/internal/shortlist"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// ReasonFrozen is the reason of what waits for spec.guard.windows, or for the end of a freeze.
const ReasonFrozen = "Frozen"

// awaitsWindow is what such a Change waits for.
const awaitsWindow = "a window of spec.guard"

// MaxEmergency is how long an emergency lasts at the most: the annotation is not forgotten for longer.
const MaxEmergency = 24 * time.Hour

// Frozen is why no node may be removed or replaced now. The zero value is that it may.
type Frozen struct {
	// Message says it, and what to do in an emergency. It does not change by itself.
	Message string
	// Until is when that ends; zero if unknown.
	Until time.Time
	// Begins is when it does, where it does not yet; zero if that is more than a day ahead.
	Begins time.Time
}

// FrozenNow is why no node may be removed or replaced now; zero if it may, and where there is no Plan.
func (p *Plan) FrozenNow() Frozen {
	if p == nil {
		return Frozen{}
	}
	return p.Frozen
}

// Emergency says until when there is one, by the annotation of a NodeSync, and otherwise what is wrong
// with it; empty if there is none.
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

// frozen reports whether nodes may be removed or replaced at the time of the Plan. What was asked for by name,
// the deletion of a NodeSync, is not asked for.
func (p Policy) frozen() (Frozen, error) {
	if p.Deleting || p.Offline {
		return Frozen{}, nil
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
	message := fmt.Sprintf("%s; in an emergency: plumbline emergency %s -n %s --until 2h --reason TEXT", closed, p.Owner.Name, p.Owner.Namespace)
	if mistake != "" {
		message = closed.String() + "; the annotation " + v1alpha1.EmergencyAnnotation + " of the NodeSync is ignored: it " + mistake
	}
	return Frozen{Message: message, Until: closed.Until}, nil
}

// freeze has the Changes wait that would end or replace nodes, but for what reverts.
func (m *maker) freeze(p *Plan) {
	if p.Frozen.Message == "" {
		return
	}
	for i := range p.Changes {
		c := &p.Changes[i]
		if !weighs(c) {
			continue
		}
		if c.Reverts = m.reverts(c); c.Reverts != nil {
			continue
		}
		c.Action, c.Reason, c.WaitsFor = Wait, ReasonFrozen, awaitsWindow
		c.Message = p.Frozen.Message
		if len(c.Editors) > 0 {
			c.Message += fmt.Sprintf("; until then the edits by %s to %s are not reverted", strings.Join(c.Editors, ", "), c.Ref)
		}
	}
}

// reverts are the NodePools in which a Change takes back one that Karpenter is rolling out: nodes that
// it replaces for that, and has not replaced yet, stay. Another pool of the same class may have a rollout
// of its own, which is not taken back.
func (m *maker) reverts(c *Change) []string {
	if c.UpTo {
		return nil
	}
	var pools []string
	for _, n := range m.claims()[c.Ref] {
		if n.Drifted && !n.Deleting && slices.Contains(c.DriftReasons, n.DriftReason) && !slices.Contains(c.touched, n.UID) {
			pools = append(pools, n.Pool)
		}
	}
	slices.Sort(pools)
	return slices.Compact(pools)
}

// horizon is how far ahead windows of disruption budgets are looked for, hits how many times of one
// schedule are looked at, and of one pool at how many times, and looked how many times of all schedules
// of a pool: Git may have 49 budgets that turn each minute.
const (
	horizon = 31 * 24 * time.Hour
	// year is how far ahead is looked for the most that budgets allow: a schedule comes again within it.
	year   = 366 * 24 * time.Hour
	hits   = 2000
	looked = 5 * hits
)

// Allowed is how many of a NodePool's nodes Karpenter may replace for drift.
type Allowed struct {
	// Now is how many that is at the time, and Next from At on, where Now is 0. At is zero if
	// that is not within 31 days.
	Now, Next int
	At        time.Time
	// Partly reports whether where At is zero not all of the 31 days was looked at.
	Partly bool
	// Unreadable reports whether a budget's schedule cannot be read: Karpenter disrupts nothing then.
	Unreadable bool
}

// AllowedDisruptions reads off the disruption budgets of a NodePool how many of so many nodes
// Karpenter may replace for drift at a time, and when the next window opens.
func AllowedDisruptions(object *Object, nodes int, now time.Time) Allowed {
	pool, err := typed[karpv1.NodePool](object.Unstructured)
	if err != nil {
		return Allowed{Unreadable: true}
	}
	return allowedOf(pool, nodes, now)
}

// allowedOf reads it off a pool.
func allowedOf(pool *karpv1.NodePool, nodes int, now time.Time) Allowed {
	b, err := readBudgets(pool, nodes, karpv1.DisruptionReasonDrifted)
	if err != nil {
		return Allowed{Unreadable: true}
	}
	if n := b.at(now); n > 0 {
		return Allowed{Now: n}
	}
	turns, whole := b.turns(now, horizon)
	for _, turn := range turns {
		if n := b.at(turn); n > 0 {
			return Allowed{Next: n, At: turn}
		}
	}
	return Allowed{Partly: !whole}
}

// BudgetActive reports whether a disruption budget, as it stands on a NodePool, counts now. One that
// cannot be read does not.
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

// ClockTime is a time as people write it, with its day where that is another one than now's.
func ClockTime(t, now time.Time) string {
	t, now = t.UTC(), now.UTC()
	if t.YearDay() == now.YearDay() && t.Year() == now.Year() {
		return t.Format("15:04 UTC")
	}
	return t.Format("Mon 2 Jan 15:04 UTC")
}

// ahead is how far windows are listed, and listed how many of them are written out.
const (
	ahead  = 30 * 24 * time.Hour
	listed = 3
)

// Window is a time in which disruption budgets let Karpenter replace nodes for drift.
type Window struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	// AtATime is the most that they allow at a time in it.
	AtATime int `json:"atATime"`
}

// Windows are those of the next 30 days in which the disruption budgets of a NodePool let Karpenter
// replace any of so many nodes, by its own reading of them at each time at which one begins or ends;
// none if they always do, never do, or cannot be read. The last one is cut off where the 30 days are
// over.
func Windows(object *Object, nodes int, now time.Time) []Window {
	pool, err := typed[karpv1.NodePool](object.Unstructured)
	if err != nil {
		return nil
	}
	b, err := readBudgets(pool, nodes, karpv1.DisruptionReasonDrifted)
	if err != nil {
		return nil
	}
	end := now.Add(ahead)
	turning, whole := b.turns(now, horizon)
	if len(turning) == 0 || !whole {
		return nil // one that turns each minute is not looked at for so long
	}
	var found []Window
	from, shut := now, false
	for _, at := range append(turning, end) {
		if at.After(end) {
			at = end
		}
		n := b.at(from)
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

// WindowWords list the first of them; empty if there are none.
func (p PoolPace) WindowWords(now time.Time) string {
	if len(p.Windows) == 0 {
		return ""
	}
	var parts []string
	var open time.Duration
	for i, w := range p.Windows {
		open += w.To.Sub(w.From)
		if i < listed {
			parts = append(parts, fmt.Sprintf("%s to %s (up to %d at a time)", ClockTime(w.From, now), ClockTime(w.To, now), w.AtATime))
		}
	}
	return fmt.Sprintf("NodePool/%s: %s in 30 days, %s in all: %s%s", p.Pool, english.Plural(len(p.Windows), "window", ""), hours(open), strings.Join(parts, "; "),
		shortlist.More(" ", len(p.Windows)-listed))
}

// hours writes a duration by the hour, or by the minute where it is under one.
func hours(d time.Duration) string {
	if d < time.Hour {
		return Short(d.Round(time.Minute))
	}
	return Short(d.Round(time.Hour))
}
