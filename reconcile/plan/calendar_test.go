package plan_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

// at parses a time in 2026.
func at(t *testing.T, text string) time.Time {
	t.Helper()
	found, err := time.Parse("2006-01-02 15:04", "2026-"+text)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func nightly(zone string) v1alpha1.GuardWindow {
	return v1alpha1.GuardWindow{Schedule: "0 22 * * mon-fri", Duration: metav1.Duration{Duration: 6 * time.Hour}, TimeZone: zone}
}

func christmas(zone string) v1alpha1.GuardFreeze {
	return v1alpha1.GuardFreeze{From: "2026-12-20", To: "2026-12-27", TimeZone: zone, Reason: "Christmas"}
}

// TestOpen: what closes the calendar at a time, and when it opens next. 2026-11-25 is a Wednesday.
func TestOpen(t *testing.T) {
	for name, c := range map[string]struct {
		guard v1alpha1.Guard
		now   string
		by    string
		until string
	}{
		"nothing is said":                        {now: "11-25 12:00"},
		"before the window":                      {guard: v1alpha1.Guard{Windows: []v1alpha1.GuardWindow{nightly("")}}, now: "11-25 21:59", by: "spec.guard.windows", until: "11-25 22:00"},
		"as it opens":                            {guard: v1alpha1.Guard{Windows: []v1alpha1.GuardWindow{nightly("")}}, now: "11-25 22:00"},
		"after midnight":                         {guard: v1alpha1.Guard{Windows: []v1alpha1.GuardWindow{nightly("")}}, now: "11-26 03:59"},
		"as it closes":                           {guard: v1alpha1.Guard{Windows: []v1alpha1.GuardWindow{nightly("")}}, now: "11-26 04:00", by: "spec.guard.windows", until: "11-26 22:00"},
		"a weekend lies between":                 {guard: v1alpha1.Guard{Windows: []v1alpha1.GuardWindow{nightly("")}}, now: "11-28 12:00", by: "spec.guard.windows", until: "11-30 22:00"},
		"in winter Berlin is an hour ahead":      {guard: v1alpha1.Guard{Windows: []v1alpha1.GuardWindow{nightly("Europe/Berlin")}}, now: "11-25 12:00", by: "spec.guard.windows", until: "11-25 21:00"},
		"in summer it is two":                    {guard: v1alpha1.Guard{Windows: []v1alpha1.GuardWindow{nightly("Europe/Berlin")}}, now: "07-01 12:00", by: "spec.guard.windows", until: "07-01 20:00"},
		"either of two":                          {guard: v1alpha1.Guard{Windows: []v1alpha1.GuardWindow{nightly(""), nightly("Europe/Berlin")}}, now: "11-25 21:30"},
		"a freeze":                               {guard: v1alpha1.Guard{Freeze: []v1alpha1.GuardFreeze{christmas("")}}, now: "12-20 00:00", by: "spec.guard.freeze", until: "12-28 00:00"},
		"its last day is part of it":             {guard: v1alpha1.Guard{Freeze: []v1alpha1.GuardFreeze{christmas("")}}, now: "12-27 23:59", by: "spec.guard.freeze", until: "12-28 00:00"},
		"before it":                              {guard: v1alpha1.Guard{Freeze: []v1alpha1.GuardFreeze{christmas("")}}, now: "12-19 23:59"},
		"after it":                               {guard: v1alpha1.Guard{Freeze: []v1alpha1.GuardFreeze{christmas("")}}, now: "12-28 00:00"},
		"in Tokyo it begins the evening before":  {guard: v1alpha1.Guard{Freeze: []v1alpha1.GuardFreeze{christmas("Asia/Tokyo")}}, now: "12-19 15:00", by: "spec.guard.freeze", until: "12-27 15:00"},
		"a freeze is stronger than a window":     {guard: v1alpha1.Guard{Windows: []v1alpha1.GuardWindow{nightly("")}, Freeze: []v1alpha1.GuardFreeze{christmas("")}}, now: "12-21 23:00", by: "spec.guard.freeze", until: "12-28 22:00"},
		"freezes that follow one another":        {guard: v1alpha1.Guard{Freeze: []v1alpha1.GuardFreeze{christmas(""), {From: "2026-12-28", To: "2027-01-03"}}}, now: "12-25 12:00", by: "spec.guard.freeze", until: "13-04 00:00"},
		"a freeze that ends in no time of note":  {guard: v1alpha1.Guard{Freeze: []v1alpha1.GuardFreeze{{From: "2026-01-01", To: "2999-12-31"}}}, now: "12-25 12:00", by: "spec.guard.freeze"},
		"a window that is over when a freeze is": {guard: v1alpha1.Guard{Windows: []v1alpha1.GuardWindow{{Schedule: "0 0 24 12 *", Duration: metav1.Duration{Duration: time.Hour}}}, Freeze: []v1alpha1.GuardFreeze{christmas("")}}, now: "12-21 00:00", by: "spec.guard.freeze"},
	} {
		t.Run(name, func(t *testing.T) {
			now := at(t, c.now)
			days, err := plan.CalendarOf(c.guard, now)
			if err != nil {
				t.Fatal(err)
			}
			closed := days.At(now)
			if closed.By != c.by {
				t.Fatalf("closed by %q, want %q", closed.By, c.by)
			}
			want := time.Time{}
			switch {
			case strings.HasPrefix(c.until, "13"): // the next year
				want = time.Date(2027, 1, 4, 0, 0, 0, 0, time.UTC)
			case c.until != "":
				want = at(t, c.until)
			}
			if !closed.Until.Equal(want) {
				t.Errorf("open again at %s, want %s", closed.Until, want)
			}
			if c.by != "" && !strings.Contains(closed.String(), "no node is removed or replaced") || c.by == "" && closed.String() != "" {
				t.Errorf("says %q", closed)
			}
		})
	}
}

// TestClosedWords: the message contains what closes the calendar, and the time in UTC.
func TestClosedWords(t *testing.T) {
	now := at(t, "12-21 12:00")
	days, err := plan.CalendarOf(v1alpha1.Guard{Freeze: []v1alpha1.GuardFreeze{christmas("Europe/Berlin")}}, now)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := days.At(now).String(), "no node is removed or replaced before 2026-12-27 23:00 UTC (spec.guard.freeze: Christmas)"; got != want {
		t.Errorf("says %q, want %q", got, want)
	}
}

// TestWhatCannotBeRead: an invalid calendar is refused with the field and the expected value.
func TestWhatCannotBeRead(t *testing.T) {
	window := func(schedule, zone string, duration time.Duration) v1alpha1.Guard {
		return v1alpha1.Guard{Windows: []v1alpha1.GuardWindow{nightly(""), {Schedule: schedule, Duration: metav1.Duration{Duration: duration}, TimeZone: zone}}}
	}
	freeze := func(from, to, zone string) v1alpha1.Guard {
		return v1alpha1.Guard{Freeze: []v1alpha1.GuardFreeze{{From: from, To: to, TimeZone: zone}}}
	}
	for name, c := range map[string]struct {
		guard v1alpha1.Guard
		says  string
	}{
		"no schedule":                {window("now and then", "", time.Hour), `spec.guard.windows[1].schedule: "now and then" is not a valid cron schedule`},
		"a schedule out of range":    {window("0 25 * * *", "", time.Hour), "spec.guard.windows[1].schedule"},
		"a schedule that never is":   {window("0 0 31 2 *", "", time.Hour), "never matches"},
		"an unknown time zone":       {window("0 0 * * *", "Europe/Berln", time.Hour), "spec.guard.windows[1].timeZone: unknown time zone Europe/Berln"},
		"the zone of the machine":    {window("0 0 * * *", "Local", time.Hour), "Local depends on the machine"},
		"a path":                     {window("0 0 * * *", "../etc/passwd", time.Hour), "unknown time zone"},
		"no duration":                {window("0 0 * * *", "", 0), "spec.guard.windows[1].duration: 0s is less than a minute"},
		"another form of a date":     {freeze("20.12.2026", "2026-12-27", ""), `spec.guard.freeze[0].from: "20.12.2026" is not a date`},
		"a date that is none":        {freeze("2026-02-28", "2026-02-30", ""), `spec.guard.freeze[0].to: "2026-02-30" is not a date`},
		"it ends before it begins":   {freeze("2026-12-27", "2026-12-20", ""), "spec.guard.freeze[0]: to (2026-12-20) is before from (2026-12-27)"},
		"a freeze in an unknown one": {freeze("2026-12-20", "2026-12-27", "Nowhere"), "spec.guard.freeze[0].timeZone"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := plan.CalendarOf(c.guard, at(t, "11-25 12:00"))
			var invalid *plan.InvalidCalendarError
			if !errors.As(err, &invalid) || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "until it is corrected") {
				t.Errorf("says %v, want %q", err, c.says)
			}
		})
	}
}

// TestPeriods: consecutive periods of some days, with a change to summer time.
func TestPeriods(t *testing.T) {
	guard := v1alpha1.Guard{
		Windows: []v1alpha1.GuardWindow{{Schedule: "0 1 * * *", Duration: metav1.Duration{Duration: 2 * time.Hour}, TimeZone: "Europe/Berlin"}},
		Freeze:  []v1alpha1.GuardFreeze{{From: "2026-03-30", To: "2026-03-30", TimeZone: "Europe/Berlin", Reason: "stocktaking"}},
	}
	from := at(t, "03-28 12:00")
	days, err := plan.CalendarOf(guard, from)
	if err != nil {
		t.Fatal(err)
	}
	window := func(from, to string) plan.CalendarPeriod {
		return plan.CalendarPeriod{From: at(t, from), To: at(t, to), Open: true}
	}
	closed := func(from, to string) plan.CalendarPeriod {
		return plan.CalendarPeriod{From: at(t, from), To: at(t, to), By: "spec.guard.windows"}
	}
	frozen := plan.CalendarPeriod{From: at(t, "03-29 22:00"), To: at(t, "03-30 22:00"), By: "spec.guard.freeze", Reason: "stocktaking"}
	want := []plan.CalendarPeriod{
		closed("03-28 12:00", "03-29 00:00"), window("03-29 00:00", "03-29 02:00"), // 01:00 to 04:00 summer time
		closed("03-29 02:00", "03-29 22:00"), frozen,
		closed("03-30 22:00", "03-30 23:00"), window("03-30 23:00", "03-31 01:00"), closed("03-31 01:00", "03-31 12:00"),
	}
	utc := cmp.Transformer("utc", func(t time.Time) string { return t.UTC().Format(time.DateTime) })
	if diff := cmp.Diff(want, days.Periods(from, at(t, "03-31 12:00")), utc); diff != "" {
		t.Errorf("periods (-want +got):\n%s", diff)
	}
	always, err := plan.CalendarOf(v1alpha1.Guard{}, from)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]plan.CalendarPeriod{window("03-28 12:00", "03-31 12:00")}, always.Periods(from, at(t, "03-31 12:00")), utc); diff != "" {
		t.Errorf("without any (-want +got):\n%s", diff)
	}
}

// TestPeriodsAgreeWithTheTime: each minute of some days is open in its period exactly if At reports it open, even if
// windows overlap.
func TestPeriodsAgreeWithTheTime(t *testing.T) {
	guard := v1alpha1.Guard{
		Windows: []v1alpha1.GuardWindow{
			nightly("America/New_York"),
			{Schedule: "*/20 3 * * *", Duration: metav1.Duration{Duration: 30 * time.Minute}},
			{Schedule: "@weekly", Duration: metav1.Duration{Duration: 90 * time.Minute}, TimeZone: "Asia/Kolkata"},
		},
		Freeze: []v1alpha1.GuardFreeze{{From: "2026-11-03", To: "2026-11-03"}, {From: "2026-11-03", To: "2026-11-04", TimeZone: "Asia/Tokyo"}},
	}
	from, to := at(t, "10-30 00:00"), at(t, "11-09 00:00")
	days, err := plan.CalendarOf(guard, from)
	if err != nil {
		t.Fatal(err)
	}
	periods := days.Periods(from, to)
	for now := from; now.Before(to); now = now.Add(time.Minute) {
		for len(periods) > 1 && !now.Before(periods[0].To) {
			periods = periods[1:]
		}
		closed := days.At(now)
		if (closed.By == "") != periods[0].Open {
			t.Fatalf("%s: closed by %q, period %+v", now, closed.By, periods[0])
		}
		if closed.By != "" && days.At(closed.Until).By != "" {
			t.Fatalf("%s: closed until %s, and then %q", now, closed.Until, days.At(closed.Until).By)
		}
	}
}

// TestCloses: the next time at which it closes, within the given limit.
func TestCloses(t *testing.T) {
	guard := v1alpha1.Guard{Windows: []v1alpha1.GuardWindow{nightly(""), {Schedule: "0 3 * * *", Duration: metav1.Duration{Duration: 2 * time.Hour}}}, Freeze: []v1alpha1.GuardFreeze{christmas("")}}
	for from, want := range map[string]string{"11-25 22:00": "11-26 05:00", "11-26 04:30": "11-26 05:00", "12-19 04:00": "12-19 05:00", "12-25 12:00": ""} {
		now := at(t, from)
		days, err := plan.CalendarOf(guard, now)
		if err != nil {
			t.Fatal(err)
		}
		wanted := time.Time{}
		if want != "" {
			wanted = at(t, want)
		}
		if got := days.Closes(now, now.Add(24*time.Hour)); want != "" && !got.Equal(wanted) {
			t.Errorf("at %s it closes at %s, want %s", from, got, want)
		}
	}
	always, err := plan.CalendarOf(v1alpha1.Guard{Freeze: []v1alpha1.GuardFreeze{christmas("")}}, at(t, "12-01 00:00"))
	if err != nil {
		t.Fatal(err)
	}
	if got := always.Closes(at(t, "12-01 00:00"), at(t, "12-02 00:00")); !got.IsZero() {
		t.Errorf("weeks before a freeze it closes at %s", got)
	}
	if got := always.Closes(at(t, "12-19 12:00"), at(t, "12-20 12:00")); !got.Equal(at(t, "12-20 00:00")) {
		t.Errorf("before a freeze it closes at %s", got)
	}
}

// TestOpenings: nodes of a pool may be replaced when both its disruption budgets and the calendar allow it.
// 2026-11-25 is a Wednesday.
func TestOpenings(t *testing.T) {
	now := at(t, "11-25 12:00")
	always, nights := "[{nodes: 10%}]", `[{nodes: "0", schedule: "0 6 * * *", duration: 18h}, {nodes: 10%}]` // from 00:00 to 06:00
	for name, c := range map[string]struct {
		budgets string
		guard   v1alpha1.Guard
		first   []string
		count   int
	}{
		"always":                        {budgets: always},
		"by budgets":                    {budgets: nights, first: []string{"11-26 00:00", "11-26 06:00"}, count: 30},
		"by the calendar":               {budgets: always, guard: v1alpha1.Guard{Windows: []v1alpha1.GuardWindow{nightly("")}}, first: []string{"11-25 22:00", "11-26 04:00"}, count: 22},
		"by both":                       {budgets: nights, guard: v1alpha1.Guard{Windows: []v1alpha1.GuardWindow{nightly("")}}, first: []string{"11-26 00:00", "11-26 04:00"}, count: 22},
		"by a freeze":                   {budgets: always, guard: v1alpha1.Guard{Freeze: []v1alpha1.GuardFreeze{christmas("")}}, first: []string{"11-25 12:00", "12-20 00:00"}, count: 1},
		"a freeze that is far":          {budgets: always, guard: v1alpha1.Guard{Freeze: []v1alpha1.GuardFreeze{{From: "2027-05-01", To: "2027-05-02"}}}},
		"a window that opens too often": {budgets: always, guard: v1alpha1.Guard{Windows: []v1alpha1.GuardWindow{{Schedule: "*/2 * * * *", Duration: metav1.Duration{Duration: time.Minute}}}}},
	} {
		t.Run(name, func(t *testing.T) {
			days, err := plan.CalendarOf(c.guard, now)
			if err != nil {
				t.Fatal(err)
			}
			cluster := newCluster(t)
			cluster.have(t, owner, class("default"), pool("a", "default", "disruption: {consolidateAfter: 0s, budgets: "+c.budgets+"}"))
			found := days.Openings(plan.NewObject(cluster.Object(poolRef("a"))), 10, now)
			if len(found) != c.count {
				t.Fatalf("%d periods, want %d: %v", len(found), c.count, found)
			}
			if len(c.first) > 0 && (!found[0].From.Equal(at(t, c.first[0])) || !found[0].To.Equal(at(t, c.first[1]))) {
				t.Errorf("the first is from %s to %s, want %v", found[0].From, found[0].To, c.first)
			}
			for _, w := range found {
				if open := days.At(w.From).By == "" && days.At(w.To.Add(-time.Second)).By == ""; !open {
					t.Errorf("closed from %s to %s", w.From, w.To)
				}
			}
		})
	}
}
