// Package usage measures what this process has used, for benchmarks: processor time, which other work on the machine
// hardly changes, and peak memory.
package usage

import (
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"syscall"
	"time"
)

// CPU returns the processor time of all threads of the process so far.
func CPU() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// Peak starts a measurement, and returns a function that returns the peak resident memory since then, in bytes: 0 if
// the kernel does not report it (VmHWM in proc_pid_status(5), and clear_refs there).
func Peak() func() int64 {
	debug.FreeOSMemory()
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
		return func() int64 { return 0 }
	}
	return func() int64 {
		text, err := os.ReadFile("/proc/self/status")
		if err != nil {
			return 0
		}
		var kib int64
		_, after, _ := strings.Cut(string(text), "VmHWM:")
		if _, err := fmt.Sscanf(after, "%d kB", &kib); err != nil {
			return 0
		}
		return kib << 10
	}
}
