package soak

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// remembers is how many lines an error contains.
const remembers = 40

// journal records what was done, with the time since the start.
type journal struct {
	mu    sync.Mutex
	out   io.Writer
	began time.Time
	lines []string
	count map[string]int
}

func newJournal(out io.Writer) *journal {
	return &journal{out: out, began: time.Now(), count: map[string]int{}}
}

func (j *journal) say(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	line := fmt.Sprintf("%7.1fs  ", time.Since(j.began).Seconds()) + fmt.Sprintf(format, args...)
	j.lines = append(j.lines, line)
	fmt.Fprintln(j.out, line)
}

// did records an action, to be counted.
func (j *journal) did(action, what string) {
	j.say("%-14s %s", action, what)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.count[action]++
}

func (j *journal) tail() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Join(j.lines[max(0, len(j.lines)-remembers):], "\n")
}

// counts returns "add-pool 12, kill 3".
func (j *journal) counts() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	var counts []string
	for _, action := range slices.Sorted(maps.Keys(j.count)) {
		counts = append(counts, fmt.Sprintf("%s %d", action, j.count[action]))
	}
	return strings.Join(counts, ", ")
}
