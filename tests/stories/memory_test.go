package stories_test

import (
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

// memoryCommand is `memory watch`, and `memory < MIB`: the most that the daemon and its
// children had in memory at one time since.
func (s *story) memoryCommand(ts *testscript.TestScript, args []string) error {
	switch {
	case len(args) == 1 && args[0] == "watch":
		s.peak = &atomic.Int64{}
		go watchMemory(s.ctx, s.daemon.PID(), s.peak)
		return nil
	case len(args) == 2 && args[0] == "<" && s.peak != nil:
		limit, err := strconv.ParseInt(args[1], 10, 64)
		if err != nil {
			return err
		}
		peak := s.peak.Load() >> 20
		ts.Logf("the daemon and its children had %d MiB at most", peak)
		if peak >= limit || peak == 0 {
			return fmt.Errorf("the daemon and its children had %d MiB in memory, want less than %d", peak, limit)
		}
		return nil
	}
	return errors.New("usage: memory watch | memory < MIB")
}

// watchMemory looks ten times a second, until the story ends.
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

// residentOf is what a process and its children have in memory, in bytes.
func residentOf(parent int) int64 {
	all, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return 0
	}
	total := int64(0)
	for _, dir := range all {
		stat, err := os.ReadFile(filepath.Join(dir, "stat"))
		if err != nil {
			continue // it has ended
		}
		// The name, in parentheses, may have blanks in it; after it are the state and the
		// parent, and 21 fields on the resident pages.
		_, after, _ := bytes.Cut(stat[bytes.LastIndexByte(stat, ')'):], []byte(" "))
		fields := strings.Fields(string(after))
		if len(fields) < 22 || filepath.Base(dir) != strconv.Itoa(parent) && fields[1] != strconv.Itoa(parent) {
			continue
		}
		pages, err := strconv.ParseInt(fields[21], 10, 64)
		if err == nil {
			total += pages * int64(os.Getpagesize())
		}
	}
	return total
}
