package bench

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Row is what one kind of commit costs.
type Row struct {
	Work string
	// Wall is from the branch's move on the server, or from the NodeSync's
	// creation, to the answer to the daemon's last write of an object; where it
	// writes none, of the NodeSync's status.
	Wall time.Duration
	// CPU is the daemon's processor time until the NodeSync was Ready, in steps of
	// 10 ms.
	CPU time.Duration
	// Writes are objects written and Refused writes that the API server refused;
	// Patches are writes of the NodeSync, Statuses commit statuses posted.
	Writes, Refused, Patches, Statuses int
	// Fetch is a raw git fetch of the same push, Apply a raw server-side apply of
	// the same objects over eight connections.
	Fetch, Apply time.Duration
	// Bar is what Wall is meant to stay below.
	Bar time.Duration
}

// Ratio is how many times as long as fetch and apply alone it takes.
func (r Row) Ratio() float64 { return r.Wall.Seconds() / (r.Fetch + r.Apply).Seconds() }

// Table is one run.
type Table struct {
	Objects int
	// Flags are the daemon's.
	Flags []string
	// Load is the machine's load average before the run.
	Load string
	Rows []Row
	// Resident and Peak are the daemon's memory at the end, in bytes.
	Resident, Peak int64
}

// peers are figures of other tools. They stand for what people use today and are
// not of this run.
const peers = `# Not measured in this run: published for such a machine (2 cores; push → applied, with an immediate request; wall · CPU)
#   400 objects, 1 changed      Flux  4.5–4.8 s · 1.2–1.4 s    Argo CD  2.5–3.0 s · 2.6–2.9 s
#   400 objects, all changed    Flux  5.3–5.6 s · 1.3–1.5 s    Argo CD  4.2 s · 4.3 s
#   2000 objects, 1 changed     Flux  19.3–20 s · 9.8–10 s     Argo CD  14.6–14.8 s · 15–15.6 s
#   2000 objects, all changed   Flux  25.9 s                   Argo CD  24.1 s · 23.6 s
#   first apply                 Flux  4.8 s (400), 32.3 s (2000)   Argo CD  3.8 s (400), 24 s (2000)
`

// Print writes the table for people.
func (t *Table) Print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "work\twall\tCPU\tobject writes\tstatus patches\tcommit statuses\traw git fetch\traw apply ×8\twall ÷ raw\tbar\t")
	for _, r := range t.Rows {
		met := "met"
		if r.Wall > r.Bar {
			met = "missed"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%d\t%s\t%s\t%.1f\t%s %s\t\n", r.Work, seconds(r.Wall), seconds(r.CPU),
			r.Writes, r.Patches, r.Statuses, seconds(r.Fetch), seconds(r.Apply), r.Ratio(), seconds(r.Bar), met)
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("print the table: %w", err)
	}
	_, err := fmt.Fprintf(out, "the daemon's memory: %d MB at the end, %d MB at its peak; its flags: %s; the machine's load before the run: %s\n%s",
		t.Resident>>20, t.Peak>>20, strings.Join(t.Flags, " "), t.Load, peers)
	return err
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.3f s", d.Seconds()) }

// median is the middle one of some times.
func median(times []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(times))
	return sorted[len(sorted)/2]
}

// middle takes each time of a row at its median. The counts are the largest, so
// that none is hidden.
func middle(rows []Row) Row {
	of := func(get func(Row) time.Duration) time.Duration {
		var all []time.Duration
		for _, r := range rows {
			all = append(all, get(r))
		}
		return median(all)
	}
	m := Row{
		Wall:  of(func(r Row) time.Duration { return r.Wall }),
		CPU:   of(func(r Row) time.Duration { return r.CPU }),
		Fetch: of(func(r Row) time.Duration { return r.Fetch }),
	}
	for _, r := range rows {
		m.Writes, m.Refused = max(m.Writes, r.Writes), max(m.Refused, r.Refused)
		m.Patches, m.Statuses = max(m.Patches, r.Patches), max(m.Statuses, r.Statuses)
	}
	return m
}
