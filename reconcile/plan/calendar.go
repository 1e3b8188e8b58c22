package plan

import (
	"fmt"
	"slices"
	"time"
	_ "time/tzdata" // the image has no time zones

	"github.com/robfig/cron/v3"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// calendarHorizon limits how far ahead the next open time is searched.
const calendarHorizon = 366 * 24 * time.Hour

// dateLayout is the format of a date.
const dateLayout = time.DateOnly

// InvalidCalendarError reports a window or a freeze that cannot be parsed, or never matches. Nothing is applied while
// the calendar is unknown.
type InvalidCalendarError struct {
	// Field is the path of the invalid field, and Problem is what is wrong with it.
	Field, Problem string
}

// Error returns the field, the problem and what to do.
func (e *InvalidCalendarError) Error() string {
	return fmt.Sprintf("%s: %s: nothing is written or removed until it is corrected in the NodeSync", e.Field, e.Problem)
}

// Calendar is when spec.guard.windows and spec.guard.freeze let nodes be removed or replaced. The zero value is always open.
type Calendar struct {
	windows []guardWindow
	freezes []freeze
}

// guardWindow is one of spec.guard.windows: open for a duration after each time of a schedule.
type guardWindow struct {
	schedule cron.Schedule
	duration time.Duration
}

// freeze is one of spec.guard.freeze, from its first date until the day after its last.
type freeze struct {
	from, before time.Time
	reason       string
}

// CalendarOf parses the calendar of a NodeSync. The error is an *InvalidCalendarError.
func CalendarOf(guard v1alpha1.Guard, now time.Time) (Calendar, error) {
	var c Calendar
	for i, w := range guard.Windows {
		field := fmt.Sprintf("spec.guard.windows[%d]", i)
		zone, err := zoneOf(field, w.TimeZone)
		if err != nil {
			return Calendar{}, err
		}
		schedule, err := cron.ParseStandard("TZ=" + zone.String() + " " + w.Schedule)
		switch {
		case err != nil:
			return Calendar{}, &InvalidCalendarError{
				field + ".schedule", fmt.Sprintf("%q is not a valid cron schedule (%s), for example 0 22 * * mon-fri", w.Schedule, err),
			}
		case schedule.Next(now).IsZero():
			return Calendar{}, &InvalidCalendarError{field + ".schedule", fmt.Sprintf("%q never matches", w.Schedule)}
		case w.Duration.Duration < time.Minute:
			return Calendar{}, &InvalidCalendarError{field + ".duration", fmt.Sprintf("%s is less than a minute", w.Duration.Duration)}
		}
		c.windows = append(c.windows, guardWindow{schedule, w.Duration.Duration})
	}
	for i, f := range guard.Freeze {
		field := fmt.Sprintf("spec.guard.freeze[%d]", i)
		zone, err := zoneOf(field, f.TimeZone)
		if err != nil {
			return Calendar{}, err
		}
		from, err := dateOf(field+".from", f.From, zone)
		if err != nil {
			return Calendar{}, err
		}
		to, err := dateOf(field+".to", f.To, zone)
		if err != nil {
			return Calendar{}, err
		}
		if to.Before(from) {
			return Calendar{}, &InvalidCalendarError{field, fmt.Sprintf("to (%s) is before from (%s)", f.To, f.From)}
		}
		c.freezes = append(c.freezes, freeze{from, to.AddDate(0, 0, 1), f.Reason})
	}
	return c, nil
}

func zoneOf(field, name string) (*time.Location, error) {
	if name == "Local" { // the time zone of the daemon, or of the user
		return nil, &InvalidCalendarError{field + ".timeZone", "Local depends on the machine: name a time zone, for example Europe/Berlin"}
	}
	zone, err := time.LoadLocation(name) // UTC if the name is empty
	if err != nil {
		return nil, &InvalidCalendarError{
			field + ".timeZone", fmt.Sprintf("unknown time zone %s: use a name from the IANA database, for example Europe/Berlin", name),
		}
	}
	return zone, nil
}

func dateOf(field, text string, zone *time.Location) (time.Time, error) {
	date, err := time.ParseInLocation(dateLayout, text, zone)
	if err != nil {
		return time.Time{}, &InvalidCalendarError{field, fmt.Sprintf("%q is not a date, for example 2026-12-24", text)}
	}
	return date, nil
}

// Closed is why no node may be removed or replaced at a time. The zero value means that nodes may.
type Closed struct {
	// By is the field that closes it; empty if it is open.
	By string
	// Reason is the reason of a freeze.
	Reason string
	// Until is when it opens next; zero if that is not within the calendarHorizon.
	Until time.Time
}

// String returns a message that does not change by itself; empty if it is open.
func (c Closed) String() string {
	if c.By == "" {
		return ""
	}
	why := c.By
	if c.Reason != "" {
		why += ": " + c.Reason
	}
	if c.Until.IsZero() {
		return fmt.Sprintf("no node is removed or replaced within a year (%s)", why)
	}
	return fmt.Sprintf("no node is removed or replaced before %s (%s)", c.Until.UTC().Format("2006-01-02 15:04 UTC"), why)
}

// At reports whether nodes may be removed or replaced at a time, and otherwise when they next may.
func (c Calendar) At(now time.Time) Closed {
	closed := c.closedBy(now)
	if closed.By == "" {
		return closed
	}
	closed.Until = c.nextOpen(now)
	return closed
}

// closedBy returns what closes the calendar at a time.
func (c Calendar) closedBy(t time.Time) Closed {
	if f := c.frozen(t); f != nil {
		return Closed{By: "spec.guard.freeze", Reason: f.reason}
	}
	if len(c.windows) == 0 || slices.ContainsFunc(c.windows, func(w guardWindow) bool { return w.open(t) }) {
		return Closed{}
	}
	return Closed{By: "spec.guard.windows"}
}

// open reports whether a window is open at a time: up to its duration after a time of its schedule, like Karpenter's
// budgets (sigs.k8s.io/karpenter pkg/apis/v1/nodepool.go IsActive).
func (w guardWindow) open(t time.Time) bool {
	hit := w.schedule.Next(t.Add(-w.duration))
	return !hit.IsZero() && !hit.After(t)
}

// frozen returns the freeze at a time, the one that lasts longest; nil if there is none.
func (c Calendar) frozen(t time.Time) *freeze {
	var found *freeze
	for i := range c.freezes {
		f := &c.freezes[i]
		if !t.Before(f.from) && t.Before(f.before) && (found == nil || f.before.After(found.before)) {
			found = f
		}
	}
	return found
}

// nextOpen returns the next open time; zero if there is none within the calendarHorizon.
func (c Calendar) nextOpen(from time.Time) time.Time {
	for t := from; t.Before(from.Add(calendarHorizon)); {
		if f := c.frozen(t); f != nil {
			t = f.before
			continue
		}
		if c.closedBy(t).By == "" {
			return t
		}
		if t = earliest(c.windows, func(w guardWindow) time.Time { return w.schedule.Next(t) }); t.IsZero() {
			break
		}
	}
	return time.Time{}
}

// Closes returns when an open calendar closes next; zero if that is not before the given time.
func (c Calendar) Closes(from, before time.Time) time.Time {
	at := from
	for range maxTurns {
		if at = c.nextChange(at); at.IsZero() || !at.Before(before) {
			break
		}
		if c.closedBy(at).By != "" {
			return at
		}
	}
	return time.Time{}
}

// nextChange returns the next time after t at which a window or a freeze starts or is over, so that the calendar may
// change; zero if there is none.
func (c Calendar) nextChange(t time.Time) time.Time {
	next := earliest(c.windows, func(w guardWindow) time.Time {
		begins, ends := w.schedule.Next(t), w.schedule.Next(t.Add(-w.duration)).Add(w.duration)
		if begins.Before(ends) {
			return begins
		}
		return ends
	})
	for _, f := range c.freezes {
		for _, turn := range []time.Time{f.from, f.before} {
			if turn.After(t) && (next.IsZero() || turn.Before(next)) {
				next = turn
			}
		}
	}
	return next
}

// earliest returns the earliest time of some windows; zero if there is none.
func earliest(windows []guardWindow, of func(guardWindow) time.Time) time.Time {
	var first time.Time
	for _, w := range windows {
		if t := of(w); !t.IsZero() && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	return first
}

// CalendarPeriod is a period in which the calendar is open, or closed for one reason.
type CalendarPeriod struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	Open bool      `json:"open"`
	// By is the field that closes it, and Reason is that of a freeze, or who declared an emergency.
	By     string `json:"by,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// maxTurns limits how many turns are evaluated: those of a window that opens each minute, for 90 days.
const maxTurns = 300_000

// Periods returns consecutive periods between two times. The first and the last are cut off.
func (c Calendar) Periods(from, to time.Time) []CalendarPeriod {
	found, _ := c.periods(from, to, maxTurns)
	return found
}

// periods returns Periods of a number of turns at most; whole reports whether they reach to.
func (c Calendar) periods(from, to time.Time, turns int) (found []CalendarPeriod, whole bool) {
	at := from
	for range turns {
		if !at.Before(to) {
			break
		}
		until := c.nextChange(at)
		if until.IsZero() || until.After(to) {
			until = to
		}
		closed := c.closedBy(at)
		p := CalendarPeriod{From: at, To: until, Open: closed.By == "", By: closed.By, Reason: closed.Reason}
		if last := len(found) - 1; last >= 0 && samePeriod(found[last], p) {
			found[last].To = until
		} else {
			found = append(found, p)
		}
		at = until
	}
	return found, !at.Before(to)
}

// samePeriod reports whether one period continues in the next.
func samePeriod(a, b CalendarPeriod) bool {
	return a.Open == b.Open && a.By == b.By && a.Reason == b.Reason
}

// Openings returns the periods within the next 30 days in which both the disruption budgets of a NodePool, for this many
// nodes, and the calendar let Karpenter replace nodes; nil if they always do, or if neither changes in a way that can be
// searched. The last period is cut off.
func (c Calendar) Openings(budgets *Object, nodes int, now time.Time) []Window {
	ofBudgets := Windows(budgets, nodes, now)
	if len(c.windows)+len(c.freezes) == 0 {
		return ofBudgets
	}
	ofGuard := c.openings(now, now.Add(listPeriod))
	switch {
	case ofGuard == nil:
		return ofBudgets
	case ofBudgets == nil:
		return ofGuard
	}
	return overlaps(ofBudgets, ofGuard)
}

// openings returns the open periods between two times; nil if the calendar is open all the time, or if it changes too
// often.
func (c Calendar) openings(from, to time.Time) []Window {
	periods, whole := c.periods(from, to, maxHits)
	if !whole {
		return nil
	}
	found := []Window{}
	for _, p := range periods {
		if last := len(found) - 1; p.Open && last >= 0 && found[last].To.Equal(p.From) {
			found[last].To = p.To
		} else if p.Open {
			found = append(found, Window{From: p.From, To: p.To})
		}
	}
	if len(found) == 1 && found[0].From.Equal(from) && found[0].To.Equal(to) {
		return nil
	}
	return found
}

// overlaps returns the periods that are in both lists, each sorted and without overlaps. AtATime is that of the first.
func overlaps(a, b []Window) []Window {
	found := []Window{}
	for len(a) > 0 && len(b) > 0 {
		w := Window{From: a[0].From, To: a[0].To, AtATime: a[0].AtATime}
		if b[0].From.After(w.From) {
			w.From = b[0].From
		}
		if b[0].To.Before(w.To) {
			w.To = b[0].To
		}
		if w.From.Before(w.To) {
			found = append(found, w)
		}
		if a[0].To.Before(b[0].To) {
			a = a[1:]
		} else {
			b = b[1:]
		}
	}
	return found
}
