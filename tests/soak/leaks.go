package soak

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
)

// The allowed growth after the first quiet state, in which each Karpenter CRD is watched and each cache filled.
const (
	moreGoroutines = 40
	moreWatches    = 2
	moreMemory     = 120 << 20
)

// sample is the daemon's resource usage when all is quiet.
type sample struct {
	goroutines, watches int
	memory              int64 // bytes, resident
}

func (s sample) String() string {
	return fmt.Sprintf("%d goroutines, %d watches, %d MiB", s.goroutines, s.watches, s.memory>>20)
}

// The roles that a daemon can have.
const (
	leads   = "leads"
	follows = "follows"
)

// leaks are the samples of a run, by the daemon's role.
type leaks map[string]*samples

// samples are those of one role.
type samples struct{ first, last, most sample }

// add checks that a sample is no larger than the first one of its role, with some tolerance.
func (l leaks) add(place string, s sample) error {
	of, taken := l[place]
	if !taken {
		of = &samples{first: s}
		l[place] = of
	}
	of.last = s
	of.most = sample{goroutines: max(of.most.goroutines, s.goroutines), watches: max(of.most.watches, s.watches), memory: max(of.most.memory, s.memory)}
	if s.goroutines > of.first.goroutines+moreGoroutines || s.watches > of.first.watches+moreWatches || s.memory > of.first.memory+moreMemory {
		return fmt.Errorf("%w: the daemon that %s leaks: it had %s, and has %s", errViolation, place, of.first, s)
	}
	return nil
}

// String returns the first, the last and the maximum sample.
func (l leaks) String() string {
	var places []string
	for _, place := range slices.Sorted(maps.Keys(l)) {
		of := l[place]
		places = append(places, fmt.Sprintf("the one that %s: first %s; last %s; most %s", place, of.first, of.last, of.most))
	}
	return strings.Join(places, "; ")
}

// sample queries the daemon and the kernel.
func (r *replica) sample(ctx context.Context) (sample, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.profiles+"/debug/pprof/goroutine?debug=1", nil)
	if err != nil {
		return sample{}, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return sample{}, fmt.Errorf("ask daemon %s for its goroutines: %w", r.name, err)
	}
	defer func() { _ = res.Body.Close() }()
	taken, err := readGoroutines(res.Body)
	if err != nil {
		return sample{}, err
	}
	taken.memory, err = resident(r.PID())
	return taken, err
}

// watching is the function of a goroutine that receives a watch's events.
const watching = "watch.(*StreamWatcher).receive"

// readGoroutines reads a profile in text format: groups of equal goroutines, each with a line "N @ …" and its stack.
func readGoroutines(profile io.Reader) (sample, error) {
	var s sample
	group := 0
	lines := bufio.NewScanner(profile)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if count, _, found := strings.Cut(lines.Text(), " @ "); found {
			n, err := strconv.Atoi(count)
			if err != nil {
				return s, fmt.Errorf("read a profile of goroutines: %w", err)
			}
			group = n
			s.goroutines += n
		}
		if strings.Contains(lines.Text(), watching) {
			s.watches += group
		}
	}
	return s, lines.Err()
}

// resident returns the resident memory of a process.
func resident(pid int) (int64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == "VmRSS:" {
			kib, err := strconv.ParseInt(fields[1], 10, 64)
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("process %d has no memory", pid)
}
