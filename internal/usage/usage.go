// Package usage is what this process has used of the machine, for benchmarks: processor time, which
// other work on the machine does not change much, and the most memory that it had.
package usage

import (
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"syscall"
	"time"
)

// CPU is the processor time of the process until now, of all threads.
func CPU() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// Peak begins to count, and returns what says the most resident memory in bytes that the process had
// since then: 0 where the kernel does not say (VmHWM in proc_pid_status(5), and clear_refs there).
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
