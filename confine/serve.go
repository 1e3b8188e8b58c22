package confine

import (
	"os"
	"runtime"
	"runtime/debug"
	"strings"
)

// The codes that a child ends with.
const (
	childDone   = 0
	childFailed = 3
)

// serve does a job in a child, and ends the process.
func serve(job Job, limits Limits) {
	// The collector works harder before the limit; one processor more lets it run beside
	// the work.
	debug.SetMemoryLimit(limits.Memory * 7 / 10)
	debug.SetMaxStack(int(limits.Memory / 4))
	runtime.GOMAXPROCS(2)
	refused := harden(limits)
	t := newTalk(os.Stdin, os.Stdout)
	if job == nil || t.Send(strings.Join(refused, "; ")) != nil || job(t) != nil {
		os.Exit(childFailed)
	}
	os.Exit(childDone)
}
