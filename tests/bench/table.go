package bench

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// Table is the result of a run.
type Table struct {
	Objects int
	// Flags are the daemon's flags.
	Flags []string
	// Load is the machine's load average before and after the run.
	Load  [2]string
	Rows  []*Row
	Peers []*Peer
	// Idle is nil if it was not measured.
	Idle *Idle
	// Plans and WhatIf are measured without a cluster; empty if they were not.
	Plans  []Planned
	WhatIf *WhatIf
	// Paced is nil if it was not measured.
	Paced *Paced
	// Memory is the daemon's after the changes, when idle; zero if it was not measured.
	Memory memory
	// RawFirst and RawAll are all measurements of the raw apply of all objects.
	RawFirst, RawAll []time.Duration
}

func (t *Table) add(row Row) *Row {
	t.Rows = append(t.Rows, &row)
	return &row
}

// columns are the table's.
var columns = []struct {
	head string
	cell func(*Row) string
}{
	{"work", func(r *Row) string { return r.Work }},
	{"wall", func(r *Row) string { return within(r.Wall, r.Limit, seconds) }},
	{"reported", func(r *Row) string { return some(r.Told) }},
	{"after Ready", (*Row).late},
	{"CPU", func(r *Row) string { return within(r.CPU, r.CPULimit, seconds) }},
	{"children", (*Row).children},
	{"writes", func(r *Row) string { return fmt.Sprint(r.Writes) }},
	{"patches", func(r *Row) string { return fmt.Sprint(r.Patches) }},
	{"events", func(r *Row) string { return fmt.Sprint(r.Events) }},
	{"LIST", func(r *Row) string { return fmt.Sprint(r.Lists) }},
	{"GET", func(r *Row) string { return fmt.Sprint(r.Gets) }},
	{"queue", func(r *Row) string { return fmt.Sprint(r.ConfigMaps) }},
	{"posts", func(r *Row) string { return fmt.Sprint(r.Statuses) }},
	{"patches in a second", func(r *Row) string { return within(r.Busiest, r.BusiestLimit, strconv.Itoa) }},
	{"fetches", func(r *Row) string { return within(r.Fetches, r.FetchLimit, strconv.Itoa) }},
	{"raw fetch", func(r *Row) string { return some(r.Fetch) }},
	{"raw apply", func(r *Row) string { return some(r.Apply) }},
	{"krusty", func(r *Row) string { return some(r.Build) }},
	{"÷ raw", (*Row).ratio},
}

// legend explains the columns.
const legend = `CPU: that of children, too; children: child processes, and the most memory of one; wall: from the branch's move on the server to the answer to the last object write; reported: to the answer to the last write of the NodeSync;
after Ready: how long that is after the last object write and after Karpenter's last status of an object; patches: writes of the NodeSync; queue: writes of ConfigMaps
(the queue of commit statuses, records of removals), counted apart; posts: commit statuses; fetches: packs asked of the Git host; raw fetch: git fetch
of the same push; raw apply: server-side apply of the same objects over 8 connections; ÷ raw: wall ÷ (raw fetch + krusty + raw apply)
`

// late returns the delay of the status after Ready, with its bar; empty if nothing became Ready.
func (r *Row) late() string {
	if r.Late == 0 {
		return ""
	}
	return within(r.Late, lateLimit, seconds)
}

// children returns the number of child processes, and the maximum memory of one.
func (r *Row) children() string {
	if r.Children == 0 {
		return "0"
	}
	return fmt.Sprintf("%d, %d MB", r.Children, r.ChildPeak>>20)
}

// ratio returns the time relative to only fetch, build and apply.
func (r *Row) ratio() string {
	raw := r.Fetch + r.Apply + r.Build
	if raw == 0 {
		return ""
	}
	return fmt.Sprintf("%.1f", r.Wall.Seconds()/raw.Seconds())
}

func some(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return seconds(d)
}

// Print writes the table as text.
func (t *Table) Print(out io.Writer) error {
	if len(t.Rows)+len(t.Peers) == 0 {
		_, err := io.WriteString(out, strings.Join(t.lines(), "\n")+"\n")
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, c := range columns {
		fmt.Fprint(w, c.head, "\t")
	}
	fmt.Fprintln(w)
	for _, r := range t.Rows {
		for _, c := range columns {
			fmt.Fprint(w, c.cell(r), "\t")
		}
		fmt.Fprintln(w)
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("print the table: %w", err)
	}
	if _, err := io.WriteString(out, legend); err != nil {
		return fmt.Errorf("print the table: %w", err)
	}
	if err := t.printPeers(out); err != nil {
		return err
	}
	_, err := io.WriteString(out, strings.Join(t.lines(), "\n")+"\n")
	return err
}

// lines returns the lines about the run as a whole.
func (t *Table) lines() []string {
	var lines []string
	for _, p := range t.Plans {
		lines = append(lines, p.line())
	}
	if t.WhatIf != nil {
		lines = append(lines, t.WhatIf.line())
	}
	if t.Paced != nil {
		lines = append(lines, t.Paced.line())
	}
	if m := t.Memory; m.Resident > 0 {
		lines = append(lines, fmt.Sprintf("the daemon's memory after the changes, at rest: %d MB, %d MB of it not mapped from the program; %d MB at its peak",
			m.Resident>>20, m.Anonymous>>20, m.Peak>>20))
	}
	if t.Idle != nil {
		lines = append(lines, t.Idle.lines()...)
	}
	for _, p := range t.Peers {
		if p.Skipped != "" {
			lines = append(lines, p.Name+" was not measured: "+p.Skipped)
			continue
		}
		lines = append(lines, p.line())
	}
	if len(t.RawFirst) > 0 {
		lines = append(lines, fmt.Sprintf("raw apply of all objects, before and after: first %v, again %v", rounded(t.RawFirst), rounded(t.RawAll)))
	}
	if len(t.Flags) > 0 {
		lines = append(lines, "the daemon's flags: "+strings.Join(t.Flags, " "))
	}
	return append(lines, "the machine's load before and after the run: "+strings.Join(t.Load[:], ", "))
}

func rounded(times []time.Duration) []time.Duration {
	var all []time.Duration
	for _, d := range times {
		all = append(all, d.Round(time.Millisecond))
	}
	return all
}
