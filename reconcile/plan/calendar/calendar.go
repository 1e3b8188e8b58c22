package calendar

import (
	"fmt"
	"time"
	_ "time/tzdata" // the image has no time zones

	"github.com/robfig/cron/v3"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// Horizon is how far ahead it is looked for a time at which it is open.
const Horizon = 366 * 24 * time.Hour

// dates is how a date is written.
const dates = time.DateOnly

// InvalidError is a window or a freeze that cannot be read, or never comes. Nothing is done by a
// calendar that is unknown.
type InvalidError struct {
	// Field is the path of what is wrong, and Problem what is wrong with it.
	Field, Problem string
}

// Error names the field, what is wrong and what to do.
func (e *InvalidError) Error() string {
	return fmt.Sprintf("%s: %s: nothing is written or removed until it is corrected in the NodeSync", e.Field, e.Problem)
}

// Calendar is what a NodeSync says of when nodes may be removed or replaced. The zero value is
// always open.
type Calendar struct {
	windows []window
	freezes []freeze
}

// window is one of spec.guard.windows: it is open for a duration after each time of a schedule.
type window struct {
	schedule cron.Schedule
	duration time.Duration
}

// freeze is one of spec.guard.freeze, from its first date on and before the day after its last.
type freeze struct {
	from, before time.Time
	reason       string
}

// Of reads the calendar of a NodeSync. The error is an *InvalidError.
func Of(guard v1alpha1.Guard, now time.Time) (Calendar, error) {
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
			return Calendar{}, &InvalidError{field + ".schedule", fmt.Sprintf("%q is no cron schedule (%s), such as 0 22 * * mon-fri", w.Schedule, err)}
		case schedule.Next(now).IsZero():
			return Calendar{}, &InvalidError{field + ".schedule", fmt.Sprintf("%q comes at no time", w.Schedule)}
		case w.Duration.Duration < time.Minute:
			return Calendar{}, &InvalidError{field + ".duration", fmt.Sprintf("%s is less than a minute", w.Duration.Duration)}
		}
		c.windows = append(c.windows, window{schedule, w.Duration.Duration})
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
			return Calendar{}, &InvalidError{field, fmt.Sprintf("to (%s) is before from (%s)", f.To, f.From)}
		}
		c.freezes = append(c.freezes, freeze{from, to.AddDate(0, 0, 1), f.Reason})
	}
	return c, nil
}

func zoneOf(field, name string) (*time.Location, error) {
	if name == "Local" { // which is the daemon's, or the user's
		return nil, &InvalidError{field + ".timeZone", "Local is another one on each machine: name one, such as Europe/Berlin"}
	}
	zone, err := time.LoadLocation(name) // UTC where it is empty
	if err != nil {
		return nil, &InvalidError{field + ".timeZone", fmt.Sprintf("there is no time zone %s: name one of the IANA database, such as Europe/Berlin", name)}
	}
	return zone, nil
}

func dateOf(field, text string, zone *time.Location) (time.Time, error) {
	date, err := time.ParseInLocation(dates, text, zone)
	if err != nil {
		return time.Time{}, &InvalidError{field, fmt.Sprintf("%q is no date, such as 2026-12-24", text)}
	}
	return date, nil
}
