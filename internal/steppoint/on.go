//go:build steppoints

package steppoint

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
)

// Options define what happens at points.
type Options struct {
	// Trace is a file that gets a line for each point when it is reached: NAME#N, its name and how often it has been
	// reached. A process continues the count of an earlier one that wrote into the same file and was killed.
	Trace string
	// Kill are the points, as NAME#N, at which the process sends itself SIGKILL; Term is one at which it sends itself
	// SIGTERM.
	Kill []string
	Term string
}

// Killed is the end of the line for a point at which the process was killed. This line does not count, because the next
// process reaches the point again.
const Killed = " killed"

// BindFlags adds the flags of this build.
func (o *Options) BindFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.Trace, "step-trace", "", "file that gets a line for each step point reached")
	flags.StringArrayVar(&o.Kill, "step-kill", nil, "step point, as the trace names it, at which the process kills itself; may be repeated")
	flags.StringVar(&o.Term, "step-term", "", "step point at which the process sends itself SIGTERM")
}

// Points are reached one at a time. The zero value does nothing.
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
	if o.Trace == "" {
		return Points{p}, nil
	}
	var err error
	if p.trace, err = os.OpenFile(o.Trace, os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600); err != nil {
		return Points{}, fmt.Errorf("open --step-trace: %w", err)
	}
	lines := bufio.NewScanner(p.trace)
	for lines.Scan() {
		name, n, _ := strings.Cut(lines.Text(), "#")
		if !strings.HasSuffix(n, Killed) {
			p.reached[name]++
		}
	}
	if err := lines.Err(); err != nil {
		return Points{}, fmt.Errorf("read --step-trace: %w", err)
	}
	return Points{p}, nil
}

// Step is called before a step of a reconcile runs.
func (p Points) Step(name string) { p.reach("step " + name) }

// Phase is called when a removal enters a phase, before this is recorded.
func (p Points) Phase(kind, phase string) { p.reach("phase " + kind + " " + phase) }

// Request is called before something outside of the cluster is changed, and after the response.
func (p Points) Request(name string) { p.reach(name) }

// Watch adds a point before and after each request of the config's clients that changes something.
func (p Points) Watch(config *rest.Config) { config.Wrap(p.transport) }

// reach blocks every other goroutine that reaches a point until the process is dead, if it is killed here.
func (p Points) reach(name string) {
	if p.points == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reached[name]++
	point := fmt.Sprintf("%s#%d", name, p.reached[name])
	if slices.Contains(p.options.Kill, point) {
		p.write(point + Killed)
		_ = syscall.Kill(syscall.Getpid(), syscall.SIGKILL)
		select {} // the signal is on its way
	}
	p.write(point)
	if point == p.options.Term {
		_ = syscall.Kill(syscall.Getpid(), syscall.SIGTERM)
	}
}

func (p Points) write(line string) {
	if p.trace != nil {
		fmt.Fprintln(p.trace, line)
	}
}
