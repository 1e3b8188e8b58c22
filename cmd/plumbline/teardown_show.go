package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/plumbline-dev/plumbline/provision/leftover"
	"github.com/plumbline-dev/plumbline/redact"
	"github.com/plumbline-dev/plumbline/render"
)

// teardownShow prints how a teardown goes: bars on a terminal, lines in a pipe, events as JSON.
type teardownShow interface {
	// plan prints what is going to end.
	plan(l *teardownPlan) error
	// say prints a sentence.
	say(words string)
	// progress prints how far each definition is, and what is waited for.
	progress(all departures, message string)
	// report prints what AWS has left.
	report(report leftover.Report) error
	// end leaves the cursor at the beginning of a line.
	end()
}

func newShow(cmd *cobra.Command, output format, now func() time.Time) teardownShow {
	if output == formatJSON {
		return &eventShow{out: cmd.OutOrStdout(), now: now, said: map[string]departure{}}
	}
	people := peopleShow{out: cmd.OutOrStdout(), err: cmd.ErrOrStderr()}
	if width := widthOf(people.err); width > 0 {
		return &barShow{peopleShow: people, width: width}
	}
	return &lineShow{peopleShow: people, said: map[string]departure{}}
}

// peopleShow is what bars and lines have in common.
type peopleShow struct{ out, err io.Writer }

func (s *peopleShow) plan(l *teardownPlan) error {
	l.print(&visibleWriter{s.out})
	return nil
}

func (s *peopleShow) report(report leftover.Report) error {
	return writeReport(s.out, formatText, report)
}

// lineShow prints a line for each change.
type lineShow struct {
	peopleShow

	said map[string]departure
	last string
}

func (s *lineShow) say(words string) { fmt.Fprintln(s.err, redact.Visible(words)) }

func (s *lineShow) end() {}

func (s *lineShow) progress(all departures, message string) {
	for _, d := range news(s.said, all) {
		s.say(d.words())
	}
	if message = oneLine(message); message != "" && message != s.last && !all.describedBy(message) {
		s.last = message
		s.say(message)
	}
}

// news are the departures that have changed, which it notes.
func news(said map[string]departure, all departures) (changed departures) {
	for _, d := range all {
		if d.Phase != "" && said[d.ref()] != d {
			said[d.ref()] = d
			changed = append(changed, d)
		}
	}
	return changed
}

// describedBy reports whether a message is about the removal of one of the definitions: its line says the same.
func (all departures) describedBy(message string) bool {
	return slices.ContainsFunc(all, func(d departure) bool { return d.Phase != "" && strings.Contains(message, d.ref()+": ") })
}

// words are a departure in a line.
func (d departure) words() string {
	if d.Phase == phaseGone {
		return d.ref() + " is gone"
	}
	words := d.ref() + ": " + d.Phase
	if d.Kind == render.NodePool {
		words += fmt.Sprintf(", %d of %d left", d.Left, d.Of)
	}
	if d.Stalled {
		words += ", stalled"
	}
	if d.Message != "" {
		words += ": " + oneLine(d.Message)
	}
	return words
}

// barShow moves a bar for each NodePool.
type barShow struct {
	peopleShow

	width int
	// lines are how many the bars take above the cursor.
	lines int
}

func (s *barShow) say(words string) {
	s.end()
	fmt.Fprintln(s.err, redact.Visible(words))
}

// end leaves the bars where they stand.
func (s *barShow) end() { s.lines = 0 }

// barWidth is how many characters a bar has.
const barWidth = 20

// progress draws the bars again (ECMA-48: CPL, ED).
func (s *barShow) progress(all departures, message string) {
	if s.lines > 0 {
		fmt.Fprintf(s.err, "\x1b[%dF\x1b[J", s.lines)
	}
	rows := bars(all)
	if message != "" {
		rows = append(rows, oneLine(message))
	}
	for _, row := range rows {
		if runes := []rune(redact.Visible(row)); len(runes) >= s.width {
			row = string(runes[:max(s.width-2, 0)]) + "…"
		}
		fmt.Fprintln(s.err, redact.Visible(row))
	}
	s.lines = len(rows)
}

// bars are a row for each definition that is not gone, and for each pool, as far as a screen has room.
func bars(all departures) (rows []string) {
	longest, hidden := 0, 0
	for _, d := range all {
		longest = max(longest, len([]rune(d.ref())))
	}
	for _, d := range all {
		if d.Phase == phaseGone && (d.Kind != render.NodePool || len(all) > screenful) {
			continue
		}
		if len(rows) == screenful {
			hidden++
			continue
		}
		row := d.ref() + strings.Repeat(" ", longest-len([]rune(d.ref()))+between)
		if d.Kind == render.NodePool {
			row += d.bar() + "  "
		}
		if d.Phase != "" {
			row += d.Phase
		}
		if d.Stalled {
			row += ", stalled"
		}
		if d.Message != "" {
			row += ": " + oneLine(d.Message)
		}
		rows = append(rows, strings.TrimRight(row, " "))
	}
	if hidden > 0 {
		rows = append(rows, fmt.Sprintf("and %d more", hidden))
	}
	return rows
}

// bar is how much of a pool has ended.
func (d departure) bar() string {
	ended, full := d.Of-d.Left, barWidth
	if d.Of > 0 {
		full = barWidth * ended / d.Of
	}
	return strings.Repeat("█", full) + strings.Repeat("░", barWidth-full) + fmt.Sprintf("  %d of %d ended", ended, d.Of)
}
