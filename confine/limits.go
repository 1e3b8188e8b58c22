package confine

import (
	"fmt"
	"time"
)

// Limits bound one child.
type Limits struct {
	// Memory is what it may map for data, in bytes: its heap, and what the program
	// has of variables.
	Memory int64
	// CPU is its processor time, in whole seconds; Wall its time by the clock, that of
	// waiting for its turn left out.
	CPU, Wall time.Duration
	// Output is what it may answer, in bytes.
	Output int64
}

// DefaultLimits are for a Deployment with 768 MiB, in which two children at their limit
// fit beside the daemon. An overlay of 2,000 definitions takes 195 MiB, and fails at 192.
func DefaultLimits() Limits {
	return Limits{Memory: 256 << 20, CPU: 30 * time.Second, Wall: 5 * time.Minute, Output: 32 << 20}
}

// LimitError says that a child took more than it may.
type LimitError struct {
	// What was done: "the kustomization of ./nodes".
	What string
	// Limit in words: "20 s of processor time".
	Limit string
	// Again says that another try may end otherwise: it was stopped by the clock, on a
	// machine that may have been busy, or others have used up its share.
	Again bool
}

// Error names the work and the limit.
func (e *LimitError) Error() string {
	return fmt.Sprintf("%s took more than %s, and was stopped: make it smaller, or split it", e.What, e.Limit)
}

func seconds(cpu time.Duration) string {
	return fmt.Sprintf("%d s of processor time", cpu/time.Second)
}

func (l Limits) wall() string   { return fmt.Sprintf("%d s", l.Wall/time.Second) }
func (l Limits) memory() string { return fmt.Sprintf("%d MiB of memory", l.Memory>>20) }
func (l Limits) output() string { return fmt.Sprintf("%d MiB of output", l.Output>>20) }

// ChildError says that a child failed by itself.
type ChildError struct {
	// What was done.
	What string
	Err  error
}

// Error names the work.
func (e *ChildError) Error() string { return fmt.Sprintf("%s: %v", e.What, e.Err) }

// Unwrap returns the cause.
func (e *ChildError) Unwrap() error { return e.Err }
