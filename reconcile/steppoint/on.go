//go:build steppoints

package steppoint

import (
	"fmt"
	"os"
	"sync"
	"syscall"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
)

// Options say what happens at points.
type Options struct {
	// Trace is a file that gets a line for each point, as it is reached: its name
	// and how often it has been reached by then, NAME#N.
	Trace string
	// Kill and Term are such a NAME#N at which the process sends itself SIGKILL or
	// SIGTERM.
	Kill, Term string
}

// BindFlags adds the flags of this build.
func (o *Options) BindFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.Trace, "step-trace", "", "file that gets a line for each step point reached")
	flags.StringVar(&o.Kill, "step-kill", "", "step point, as the trace names it, at which the process kills itself")
	flags.StringVar(&o.Term, "step-term", "", "step point at which the process sends itself SIGTERM")
}

// Points are reached one at a time. The zero value has nobody notice.
type Points struct{ *points }

type points struct {
	options Options
	trace   *os.File

	mu      sync.Mutex
	reached map[string]int
}

// New opens the trace.
func New(o Options) (Points, error) {
	p := &points{options: o, reached: map[string]int{}}
	if o.Trace != "" {
		var err error
		if p.trace, err = os.OpenFile(o.Trace, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err != nil {
			return Points{}, fmt.Errorf("open --step-trace: %w", err)
		}
	}
	return Points{p}, nil
}

// Step is reached before a step of a pass is taken.
func (p Points) Step(name string) { p.reach("step " + name) }

// Phase is reached when a removal comes to a phase, which nothing has written
// down yet.
func (p Points) Phase(kind, phase string) { p.reach("phase " + kind + " " + phase) }

// Watch has each request of the config's clients that changes something reach a
// point before and after.
func (p Points) Watch(config *rest.Config) { config.Wrap(p.transport) }

// reach holds up whoever else comes to a point until the process is dead, if it
// is to die here.
func (p Points) reach(name string) {
	if p.points == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reached[name]++
	point := fmt.Sprintf("%s#%d", name, p.reached[name])
	if p.trace != nil {
		fmt.Fprintln(p.trace, point)
	}
	switch point {
	case p.options.Kill:
		_ = syscall.Kill(syscall.Getpid(), syscall.SIGKILL)
		select {} // the signal is on its way
	case p.options.Term:
		_ = syscall.Kill(syscall.Getpid(), syscall.SIGTERM)
	}
}
