package bench

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of a process's times in /proc on every Linux that Go runs on
// (proc_pid_stat(5), sysconf(_SC_CLK_TCK)).
const tick = 10 * time.Millisecond

// watched is a process in /proc, by its ID.
type watched int

func (w watched) file(name string) string { return filepath.Join("/proc", strconv.Itoa(int(w)), name) }

// cpu returns the CPU time of the process and of its children that have exited.
func (w watched) cpu() (time.Duration, error) {
	stat, err := os.ReadFile(w.file("stat"))
	if err != nil {
		return 0, fmt.Errorf("read a process's processor time: %w", err)
	}
	// The name, in brackets, may contain blanks. After it, user time is the 12th field and system time the 13th; then
	// the same for the children.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	var sum time.Duration
	for _, field := range fields[11:15] {
		ticks, err := strconv.Atoi(field)
		if err != nil {
			return 0, fmt.Errorf("read a process's processor time: %w", err)
		}
		sum += time.Duration(ticks) * tick
	}
	return sum, nil
}

// memory is the memory of a process, in bytes: what is resident, what of that is not mapped from a file such as the
// program itself, and the maximum that was resident.
type memory struct{ Resident, Anonymous, Peak int64 }

func (w watched) memory() (memory, error) {
	var m memory
	status, err := os.ReadFile(w.file("status"))
	if err != nil {
		return m, fmt.Errorf("read a process's memory: %w", err)
	}
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		into := map[string]*int64{"VmRSS": &m.Resident, "RssAnon": &m.Anonymous, "VmHWM": &m.Peak}[name]
		if into == nil {
			continue
		}
		kilobytes, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		if err != nil {
			return m, fmt.Errorf("read a process's memory: %w", err)
		}
		*into = kilobytes << 10
	}
	return m, nil
}

// load returns the machine's load average, which other processes contribute to.
func load() string {
	data, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	first, _, _ := strings.Cut(string(data), " ")
	return first
}
