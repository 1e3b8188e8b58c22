package bench

import (
	"fmt"
	"slices"
	"time"
)

// lateLimit is the maximum delay of the status after the last object became Ready.
const lateLimit = 2 * time.Second

// Row is the cost of one kind of commit.
type Row struct {
	Work string
	// Wall is from the branch's move on the server, or from whatever else starts the work, to the response to the last
	// write of an object; without one, and for a removal, of the status. Told is until the status.
	Wall, Told time.Duration
	// Late is the delay of that status after the last write, and after Karpenter set the last object Ready; 0 if none
	// became Ready.
	Late time.Duration
	// CPU is the CPU time until everything was quiet, including child processes, in steps of 10 ms.
	CPU time.Duration
	// Children is the number of plumbline's child processes, ChildPeak the maximum memory of one, in bytes.
	Children  int
	ChildPeak int64
	// Writes are objects written, Refused writes that the API server rejected and DryRuns dry runs; Reads are GETs of
	// objects, Gets all GETs, including Secrets; Patches are writes of the NodeSync, ConfigMaps writes of the commit
	// statuses' queue and of removals' records; Statuses are commit statuses posted, Fetches packs requested from the
	// Git host.
	Writes, Refused, DryRuns, Patches, Events, Lists, Gets, Reads, ConfigMaps, Statuses, Fetches int
	// Listed are the URIs of the LISTs.
	Listed []string
	// Busiest is the maximum number of Patches in one second.
	Busiest int
	// Fetch is a raw git fetch of the same push, Apply a raw server-side apply of
	// the same objects over eight connections, Build krusty's of the same files.
	Fetch, Apply, Build time.Duration
	// Limit, CPULimit, FetchLimit and BusiestLimit are limits for Wall, CPU, Fetches and Busiest; 0 is no limit. Late
	// has lateLimit.
	Limit, CPULimit          time.Duration
	FetchLimit, BusiestLimit int
}

// within returns a figure and, if it has a limit, the limit and whether it is met.
func within[T time.Duration | int](figure, limit T, print func(T) string) string {
	if limit == 0 {
		return print(figure)
	}
	return fmt.Sprintf("%s ≤ %s %s", print(figure), print(limit), verdict(figure <= limit))
}

func verdict(met bool) string {
	if met {
		return "met"
	}
	return "MISSED"
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.3f s", d.Seconds()) }

// median returns the median of some times.
func median(times []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(times))
	return sorted[len(sorted)/2]
}

// middle returns a row with the median of each time. The counts are the largest, so that none is hidden.
func middle(rows []Row) Row {
	of := func(get func(*Row) *time.Duration) time.Duration {
		var all []time.Duration
		for i := range rows {
			all = append(all, *get(&rows[i]))
		}
		return median(all)
	}
	var m Row
	for _, get := range []func(*Row) *time.Duration{
		func(r *Row) *time.Duration { return &r.Wall },
		func(r *Row) *time.Duration { return &r.Told },
		func(r *Row) *time.Duration { return &r.CPU },
		func(r *Row) *time.Duration { return &r.Fetch },
		func(r *Row) *time.Duration { return &r.Build },
	} {
		*get(&m) = of(get)
	}
	for _, get := range []func(*Row) *int{
		func(r *Row) *int { return &r.Writes },
		func(r *Row) *int { return &r.Refused },
		func(r *Row) *int { return &r.DryRuns },
		func(r *Row) *int { return &r.Patches },
		func(r *Row) *int { return &r.Busiest },
		func(r *Row) *int { return &r.Events },
		func(r *Row) *int { return &r.Lists },
		func(r *Row) *int { return &r.Gets },
		func(r *Row) *int { return &r.Reads },
		func(r *Row) *int { return &r.ConfigMaps },
		func(r *Row) *int { return &r.Statuses },
		func(r *Row) *int { return &r.Fetches },
		func(r *Row) *int { return &r.Children },
	} {
		for i := range rows {
			*get(&m) = max(*get(&m), *get(&rows[i]))
		}
	}
	for _, row := range rows {
		m.Listed = append(m.Listed, row.Listed...)
		m.ChildPeak = max(m.ChildPeak, row.ChildPeak)
	}
	return m
}
