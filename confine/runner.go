package confine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"time"
)

// Job is work that a child does. It talks to the parent, and reaches nothing else. Its
// error ends the child; what the parent is to know is sent.
type Job func(*Talk) error

// Options of a Runner.
type Options struct {
	// Jobs by name. Parent and child are the same program, and so have the same.
	Jobs map[string]Job
	// Limits of each child. Default: DefaultLimits.
	Limits Limits
	// AtOnce is how many children may run at a time. Default: 2. An owner (For) has one of
	// them at most.
	AtOnce int
	// Unconfined is called once with what the kernel refuses of the confinement.
	Unconfined func(what string)
	// Ended is called for each child that was started, with what it did and the processor
	// time that it took.
	Ended func(what string, cpu time.Duration)
}

// Runner starts children. Its methods may be called at the same time. A nil Runner
// cannot be used; what takes one may take nil for doing the work itself.
type Runner struct {
	options Options
	places  *places
	told    *sync.Once
	failed  *failures
	// left is the processor time of all children together; nil where each has only its own limit.
	left *budget
}

// marker is the first argument of a child; its job is the second.
const marker = "confined-child"

// Serve returns the Runner of a program with these arguments, of which the first is its
// name. Where the program is a child it does its job, and ends the process.
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
	return &Runner{options: options, places: newPlaces(options.AtOnce, time.Now), told: &sync.Once{}, failed: &failures{}}
}

// Heavy says whether the children of an owner (For) have taken long lately. All such owners
// together leave one of the places to the others. A nil Runner knows none.
func (r *Runner) Heavy(owner string) bool { return r != nil && r.places.heavy(owner) }

// Within returns the same Runner for work that may take so much processor time
// altogether.
func (r *Runner) Within(total time.Duration) *Runner {
	bounded := *r
	bounded.left = &budget{total: total}
	return &bounded
}

// Telling returns the same Runner, that tells what the kernel refuses, and of each child.
func (r *Runner) Telling(unconfined func(what string), ended func(what string, cpu time.Duration)) *Runner {
	if r == nil {
		return nil
	}
	telling := *r
	telling.options.Unconfined, telling.options.Ended, telling.told = unconfined, ended, &sync.Once{}
	return &telling
}

// Run starts a child for a job and talks to it. what names the work in errors: "the
// kustomization of ./nodes". Errors: *LimitError, *ChildError, the context's, or that of
// talk where the child has done nothing wrong.
func (r *Runner) Run(ctx context.Context, what, job string, talk func(*Talk) error) error {
	back, err := r.places.take(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	defer back()
	if r.left.spent() { // perhaps while it waited
		return &LimitError{What: what + " and what was built before it", Limit: seconds(r.left.total), Again: true}
	}
	bounded, cancel := context.WithTimeout(ctx, r.options.Limits.Wall)
	defer cancel()
	c, err := r.start(bounded, job)
	if err != nil {
		return &ChildError{What: what, Err: fmt.Errorf("start a child process: %w", err)}
	}
	talked := c.talk(talk, r.hello)
	late := bounded.Err() != nil
	if talked != nil {
		cancel() // it may be in a loop that never ends
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

// Ask starts a child for a job with one question and one answer. A question that has
// taken more than a child may is not asked again.
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

// hello reads the child's first message: what the kernel has refused.
func (r *Runner) hello(t *Talk) error {
	first, err := t.Receive()
	if err != nil {
		return err
	}
	if refused, _ := first.(string); refused != "" && r.options.Unconfined != nil {
		r.told.Do(func() { r.options.Unconfined(refused) })
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
	_ = c.in.Close() // there is nothing more to say
	return c.command.Wait()
}

// used is the processor time that the child has taken. The kernel stops it by a count
// of ticks, which may be ahead of that.
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

// killed says that something has killed the child: the kernel, or this Runner.
func (c *child) killed() bool {
	state := c.command.ProcessState
	return state != nil && !state.Exited()
}

// exceeded says which limit a child that failed has come to; empty for none.
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

// errOutput says that a child has said too much.
var errOutput = errors.New("too much output")

// capped reads so many bytes and no more.
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

// head keeps the beginning of what a child says on its way out. It is never repeated:
// it may have words of the input in it.
type head struct {
	text bytes.Buffer
}

const longestHead = 16 << 10

func (h *head) Write(p []byte) (int, error) {
	h.text.Write(p[:min(len(p), longestHead-h.text.Len())])
	return len(p), nil
}

// outOfMemory recognises the Go runtime's words for an allocation that failed, and for
// a stack that has outgrown its bound.
func (h *head) outOfMemory() bool {
	for _, words := range []string{"out of memory", "cannot allocate memory", "stack exceeds", "stack overflow"} {
		if bytes.Contains(h.text.Bytes(), []byte(words)) {
			return true
		}
	}
	return false
}
