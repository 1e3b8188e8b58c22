package stories_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// memoryCommand is `memory watch` and `memory within`: it compares the peak memory of the daemon and its children since
// then with their Deployment's limit.
func (s *story) memoryCommand(ts *testscript.TestScript, args []string) error {
	switch {
	case len(args) == 1 && args[0] == "watch":
		s.peak = &atomic.Int64{}
		go watchMemory(s.ctx, s.daemon.PID(), s.peak)
		return nil
	case len(args) == 1 && args[0] == "within" && s.peak != nil:
		limit, err := s.daemon.Memory(s.ctx)
		if err != nil {
			return err
		}
		peak := s.peak.Load()
		ts.Logf("the daemon and its children had %d of %d MiB at most", peak>>20, limit>>20)
		if peak >= limit || peak == 0 {
			return fmt.Errorf("the daemon and its children had %d MiB in memory, want some and less than %d", peak>>20, limit>>20)
		}
		return nil
	}
	return errors.New("usage: memory watch | memory within")
}

// watchMemory measures ten times a second, until the story ends.
func watchMemory(ctx context.Context, daemon int, peak *atomic.Int64) {
	every := time.NewTicker(100 * time.Millisecond)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
			peak.Store(max(peak.Load(), residentOf(daemon)))
		}
	}
}

// residentOf returns the memory of a process and its children in bytes, as a kubelet counts it: each one's private
// memory, and the program, which all share, once.
func residentOf(parent int) int64 {
	all, err := filepath.Glob("/proc/[0-9]*/status")
	if err != nil {
		return 0
	}
	own, program := int64(0), int64(0)
	for _, name := range all {
		status, err := os.ReadFile(name)
		if err != nil {
			continue // it has exited
		}
		numbers := numbersOf(status)
		if numbers["Pid"] != int64(parent) && numbers["PPid"] != int64(parent) {
			continue
		}
		own += numbers["RssAnon"] + numbers["RssShmem"]
		program = max(program, numbers["RssFile"])
	}
	return (own + program) << 10
}

// numbersOf returns the numbers of a status in /proc, in their original units.
func numbersOf(status []byte) map[string]int64 {
	numbers := map[string]int64{}
	lines := bufio.NewScanner(bytes.NewReader(status))
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ":")
		if fields := strings.Fields(value); len(fields) > 0 {
			if n, err := strconv.ParseInt(fields[0], 10, 64); err == nil {
				numbers[name] = n
			}
		}
	}
	return numbers
}
