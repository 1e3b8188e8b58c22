package confine

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"time"
)

// Job is the work of a child. It exchanges messages with the parent, and has access to nothing else. Its error
// terminates the child; send what the parent must know.
type Job func(*Talk) error

// Options of a Runner.
type Options struct {
	// Jobs by name. Parent and child are the same program, so they have the same jobs.
	Jobs map[string]Job
	// Limits of each child. Default: DefaultLimits.
	Limits Limits
	// AtOnce is how many children may run at a time. Default: 2. An owner (For) has at most one of them.
	AtOnce int
	// Unconfined is called once with the parts of the confinement that the kernel refuses.
	Unconfined func(what string)
	// Ended is called for each child that was started, with what it did and the processor time that it used.
	Ended func(what string, cpu time.Duration)
}

// Runner starts children. Its methods may be called concurrently. A nil Runner cannot be used; functions that accept
// nil instead of one do the work in their own process.
type Runner struct {
	options  Options
	places   *places
	reported *sync.Once
	failed   *failures
	// left is the processor time of all children together; if nil, each has only its own limit.
	left *budget
}

// marker is the first argument of a child; its job is the second.
const marker = "confined-child"

// Serve returns the Runner of a program with these arguments; the first is the program's name. In a child it runs the
// job and exits the process.
func Serve(arguments []string, options Options) *Runner {
	if options.Limits == (Limits{}) {
		options.Limits = DefaultLimits()
	}
	if options.AtOnce == 0 {
		options.AtOnce = 2
	}
	if len(arguments) == 3 && arguments[1] == marker {
		serve(options.Jobs[arguments[2]], options.Limits)
	}
	return &Runner{options: options, places: newPlaces(options.AtOnce, time.Now), reported: &sync.Once{}, failed: &failures{}}
}

// Heavy reports whether the children of an owner (For) have taken long recently. All such owners together leave one of
// the places to the others. It is false for a nil Runner.
func (r *Runner) Heavy(owner string) bool { return r != nil && r.places.heavy(owner) }

// Within returns the same Runner with a limit on the processor time of all its work together.
func (r *Runner) Within(total time.Duration) *Runner {
	bounded := *r
	bounded.left = &budget{total: total}
	return &bounded
}

// WithCallbacks returns the same Runner with other callbacks for what the kernel refuses, and for each child.
func (r *Runner) WithCallbacks(unconfined func(what string), ended func(what string, cpu time.Duration)) *Runner {
	if r == nil {
		return nil
	}
	telling := *r
	telling.options.Unconfined, telling.options.Ended, telling.reported = unconfined, ended, &sync.Once{}
	return &telling
}

// Run starts a child for a job and exchanges messages with it. what names the work in errors: "the kustomization of
// ./nodes". Errors: *LimitError, *ChildError, the context's, or that of talk if the child has not failed.
func (r *Runner) Run(ctx context.Context, what, job string, talk func(*Talk) error) error {
	back, err := r.places.acquire(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	defer back()
	if r.left.spent() { // possibly used up while it waited
		return &LimitError{What: what + " and what was built before it", Limit: seconds(r.left.total), Again: true}
	}
	bounded, cancel := context.WithTimeout(ctx, r.options.Limits.Wall)
	defer cancel()
	c, err := r.start(bounded, job)
	if err != nil {
		return &ChildError{What: what, Err: fmt.Errorf("start a child process: %w", err)}
	}
	talked := c.talk(talk, r.readRefused)
	late := bounded.Err() != nil
	if talked != nil {
		cancel() // it may be in an infinite loop
	}
	ended := c.wait()
	used := c.used(r.options.Limits)
	r.left.spend(used)
	if r.options.Ended != nil {
		r.options.Ended(what, used)
	}
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%s: %w", what, ctx.Err())
	case talked == nil && ended == nil:
		return nil
	case talked != nil && c.spoke.broken == nil:
		return talked
	}
	if late {
		return &LimitError{What: what, Limit: r.options.Limits.wall(), Again: true}
	}
	if limit := c.exceeded(r.options.Limits); limit != "" {
		return &LimitError{What: what, Limit: limit}
	}
	return &ChildError{What: what, Err: fmt.Errorf("the child process ended early: %w", errors.Join(ended, talked))}
}

// Ask starts a child for a job with one request and one reply. A request that exceeded a limit is not sent again.
func (r *Runner) Ask(ctx context.Context, what, job string, question any) (answer any, err error) {
	asked, err := sum(job, question)
	if err != nil {
		return nil, &ChildError{What: what, Err: err}
	}
	if known := r.failed.find(asked); known != nil {
		return nil, known
	}
	err = r.Run(ctx, what, job, func(t *Talk) error {
		if err := t.Send(question); err != nil {
			return err
		}
		answer, err = t.Receive()
		return err
	})
	var limit *LimitError
	if errors.As(err, &limit) && !limit.Again {
		r.failed.note(asked, limit)
	}
	return answer, err
}

// readRefused reads the child's first message: what the kernel has refused.
func (r *Runner) readRefused(t *Talk) error {
	first, err := t.Receive()
	if err != nil {
		return err
	}
	if refused, _ := first.(string); refused != "" && r.options.Unconfined != nil {
		r.reported.Do(func() { r.options.Unconfined(refused) })
	}
	return nil
}

// child is a process that was started.
type child struct {
	command *exec.Cmd
	in      io.WriteCloser
	out     *capped
	stderr  *head
	spoke   *Talk
}

func (r *Runner) start(ctx context.Context, job string) (*child, error) {
	program, err := executable()
	if err != nil {
		return nil, err
	}
	command := exec.CommandContext(ctx, program, marker, job)
	command.Args[0] = "plumbline"
	command.Env, command.Dir = []string{}, "/"
	command.WaitDelay = time.Second
	c := &child{command: command, stderr: &head{}}
	command.Stderr = c.stderr
	if c.in, err = command.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.out = &capped{from: out, left: r.options.Limits.Output}
	return c, command.Start()
}

func (c *child) talk(talk, hello func(*Talk) error) error {
	c.spoke = newTalk(c.out, c.in)
	if err := hello(c.spoke); err != nil {
		return err
	}
	return talk(c.spoke)
}

func (c *child) wait() error {
	_ = c.in.Close() // nothing more is sent
	return c.command.Wait()
}

// used returns the processor time that the child has used. The kernel stops it by counting ticks, which may be ahead of
// that time.
func (c *child) used(limits Limits) time.Duration {
	state := c.command.ProcessState
	if state == nil {
		return 0
	}
	used := state.UserTime() + state.SystemTime()
	if c.killed() && used >= limits.CPU/2 {
		return max(used, limits.CPU)
	}
	return used
}

// killed reports whether the child was killed: by the kernel, or by this Runner.
func (c *child) killed() bool {
	state := c.command.ProcessState
	return state != nil && !state.Exited()
}

// exceeded names the limit that a failed child has exceeded; empty if none.
func (c *child) exceeded(limits Limits) string {
	switch {
	case c.out.over:
		return limits.output()
	case c.stderr.outOfMemory():
		return limits.memory()
	case c.used(limits) >= limits.CPU:
		return seconds(limits.CPU)
	}
	return ""
}

// errOutput reports that a child has sent too much.
var errOutput = errors.New("too much output")

// capped limits how many bytes are read.
type capped struct {
	from io.Reader
	left int64
	over bool
}

func (c *capped) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	if c.left -= int64(n); c.left < 0 {
		c.over = true
		return 0, errOutput
	}
	return n, err
}

// head keeps the start of a child's standard error. It is never printed: it may contain text of the input.
type head struct {
	text bytes.Buffer
}

const longestHead = 16 << 10

func (h *head) Write(p []byte) (int, error) {
	h.text.Write(p[:min(len(p), longestHead-h.text.Len())])
	return len(p), nil
}

// outOfMemory detects the Go runtime's messages for a failed allocation, and for a stack that exceeds its limit.
func (h *head) outOfMemory() bool {
	for _, words := range []string{"out of memory", "cannot allocate memory", "stack exceeds", "stack overflow"} {
		if bytes.Contains(h.text.Bytes(), []byte(words)) {
			return true
		}
	}
	return false
}

// budget is processor time that several children share. A nil budget is unlimited.
type budget struct {
	total time.Duration

	mu   sync.Mutex
	used time.Duration
}

func (b *budget) spent() bool {
	if b == nil {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used >= b.total
}

func (b *budget) spend(cpu time.Duration) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used += cpu
}

// maxFailures limits what is remembered; beyond it everything is dropped.
const maxFailures = 256

// failures are the requests that exceeded a limit, so that the same commit does not cost as much on each reconcile.
type failures struct {
	mu    sync.Mutex
	known map[[sha256.Size]byte]*LimitError
}

func (f *failures) find(asked [sha256.Size]byte) *LimitError {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.known[asked]
}

func (f *failures) note(asked [sha256.Size]byte, err *LimitError) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.known == nil || len(f.known) >= maxFailures {
		f.known = map[[sha256.Size]byte]*LimitError{}
	}
	f.known[asked] = err
}

// sum is equal for equal requests.
func sum(job string, question any) (asked [sha256.Size]byte, err error) {
	hash := sha256.New()
	out := bufio.NewWriter(hash)
	if err := write(out, []any{job, question}); err != nil {
		return asked, err
	}
	if err := out.Flush(); err != nil {
		return asked, err
	}
	return [sha256.Size]byte(hash.Sum(nil)), nil
}

const (
	// heavyFrom is from when on an owner is heavy: a kustomization of 2,000 definitions takes three seconds, a child at
	// its limit thirty.
	heavyFrom = 10 * time.Second
	// decayRate is the rate at which passing time reduces what was held: one tenth.
	decayRate = 10
	// maxHeld limits what is counted, so that it is gone after twenty minutes.
	maxHeld = 2 * time.Minute
)

// recentUsage is for how long an owner has held a place recently.
type recentUsage struct {
	held time.Duration
	// at is when held was computed.
	at time.Time
}

// now returns what remains of it now.
func (l recentUsage) now(now time.Time) time.Duration {
	return max(0, l.held-max(0, now.Sub(l.at))/decayRate)
}

// and returns it after a place was held for a time.
func (l recentUsage) and(held time.Duration, now time.Time) recentUsage {
	return recentUsage{held: min(maxHeld, l.now(now)+max(0, held)), at: now}
}

// Limits of one child.
type Limits struct {
	// Memory is how much it may map for data, in bytes: its heap, and the program's variables.
	Memory int64
	// CPU is its processor time, in whole seconds; Wall is its wall time, without waiting for a place.
	CPU, Wall time.Duration
	// Output is how much it may send, in bytes.
	Output int64
}

// DefaultLimits are for a Deployment with 768 MiB, in which two children at their limit fit next to the daemon. An
// overlay of 2,000 definitions takes 195 MiB, and fails at 192.
func DefaultLimits() Limits {
	return Limits{Memory: 256 << 20, CPU: 30 * time.Second, Wall: 5 * time.Minute, Output: 32 << 20}
}

// LimitError reports that a child exceeded a limit.
type LimitError struct {
	// What was done: "the kustomization of ./nodes".
	What string
	// Limit in words: "20 s of processor time".
	Limit string
	// Again reports whether another attempt may succeed: the child was stopped by the clock, on a machine that may have
	// been busy, or others have used up its share.
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

// ChildError reports that a child failed by itself.
type ChildError struct {
	// What was done.
	What string
	Err  error
}

// Error names the work.
func (e *ChildError) Error() string { return fmt.Sprintf("%s: %v", e.What, e.Err) }

// Unwrap returns the cause.
func (e *ChildError) Unwrap() error { return e.Err }
