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

// Options say what happens at points.
type Options struct {
	// Trace is a file that gets a line for each point, as it is reached: its name
	// and how often it has been reached by then, NAME#N. A process goes on counting
	// where the one before it, that wrote into the same file, was killed.
	Trace string
	// Kill are such NAME#N at which the process sends itself SIGKILL, Term is one at
	// which it sends itself SIGTERM.
	Kill []string
	Term string
}

// Killed ends the line of a point at which the process was killed. It does not
// count: the next process reaches it again.
const Killed = " killed"

// BindFlags adds the flags of this build.
func (o *Options) BindFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.Trace, "step-trace", "", "file that gets a line for each step point reached")
	flags.StringArrayVar(&o.Kill, "step-kill", nil, "step point, as the trace names it, at which the process kills itself; may be repeated")
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

// Step is reached before a step of a reconcile is taken.
func (p Points) Step(name string) { p.reach("step " + name) }

// Phase is reached when a removal enters a phase, which nothing has written
// down yet.
func (p Points) Phase(kind, phase string) { p.reach("phase " + kind + " " + phase) }

// Request is reached before something outside of the cluster is changed, and after that was answered.
func (p Points) Request(name string) { p.reach(name) }

// Watch has each request of the config's clients that changes something reach a
// point before and after.
func (p Points) Watch(config *rest.Config) { config.Wrap(p.transport) }

// reach holds up every other goroutine that reaches a point until the process is dead, if it
// is to die here.
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
