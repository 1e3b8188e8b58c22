package process

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"
)

// ErrClosed reports that a program was to be started in a group that has ended.
var ErrClosed = errors.New("the group of processes is closed")

// stopGrace is how long a program made by Command may take to end after its
// context has.
const stopGrace = 5 * time.Second

// Group starts programs and ends them. It is safe for concurrent use.
type Group struct {
	starts chan start
	closed chan struct{}
	once   sync.Once
	// canRename reports whether a program can have a host name of its own.
	canRename func() bool

	mu      sync.Mutex
	running map[*Process]struct{}
}

type start struct {
	cmd  *exec.Cmd
	done chan error
}

// NewGroup returns a group without programs. Close ends it.
func NewGroup() *Group {
	g := &Group{starts: make(chan start), closed: make(chan struct{}), running: map[*Process]struct{}{}}
	g.canRename = sync.OnceValue(g.tryRename)
	go g.serve()
	return g
}

// serve starts every program from one thread. A parent-death signal follows
// the thread that forked, not the process (prctl(2), PR_SET_PDEATHSIG), so
// the thread is locked and lives as long as the group. It is unlocked at the
// end: a thread that a goroutine returns with locked ends, and the programs
// that other groups' Command had started from it before would die with it.
func (g *Group) serve() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for {
		select {
		case s := <-g.starts:
			s.done <- s.cmd.Start()
		case <-g.closed:
			return
		}
	}
}

// Start starts a program. The returned Process is waited for by the group.
func (g *Group) Start(spec Spec) (*Process, error) {
	log, err := os.OpenFile(spec.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the log of %s: %w", spec.Name, err)
	}
	defer func() { _ = log.Close() }() // the child has its own
	cmd := g.command(spec)
	cmd.Env, cmd.Dir = spec.Env, spec.Dir
	cmd.Stdout, cmd.Stderr = log, log
	if err := g.start(cmd); err != nil {
		return nil, fmt.Errorf("start %s (%s): %w", spec.Name, spec.Path, err)
	}
	p := &Process{name: spec.Name, log: spec.Log, cmd: cmd, done: make(chan struct{})}
	g.watch(p)
	select {
	case <-g.closed: // while it was being started
		p.Stop(0)
		return nil, ErrClosed
	default:
		return p, nil
	}
}

// watch waits for the process and remembers it until it has ended.
func (g *Group) watch(p *Process) {
	g.mu.Lock()
	g.running[p] = struct{}{}
	g.mu.Unlock()
	go func() {
		p.wait()
		g.mu.Lock()
		delete(g.running, p)
		g.mu.Unlock()
	}()
}

func (g *Group) command(spec Spec) *exec.Cmd {
	if spec.Hostname != "" && g.canRename() {
		return renamed(spec)
	}
	cmd := exec.Command(spec.Path, spec.Args...)
	cmd.SysProcAttr = attributes()
	return cmd
}

// start runs cmd.Start on the group's thread.
func (g *Group) start(cmd *exec.Cmd) error {
	s := start{cmd: cmd, done: make(chan error, 1)}
	select {
	case g.starts <- s:
		return <-s.done
	case <-g.closed:
		return ErrClosed
	}
}

// Command returns a command that its caller starts and waits for. It gets a
// polite signal when ctx ends, and dies with the sandbox.
//
// It is not started on the group's thread. That is good enough for a thread
// of the Go runtime, which ends only if a goroutine locked to it returns; none
// does here.
func (g *Group) Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.SysProcAttr = attributes()
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = stopGrace
	return cmd
}

// Close kills every program that Start started and that is still running, and
// returns when they have ended.
func (g *Group) Close() {
	g.once.Do(func() { close(g.closed) })
	g.mu.Lock()
	left := slices.Collect(maps.Keys(g.running))
	g.mu.Unlock()
	for _, p := range left {
		p.Stop(0)
	}
}

// attributes keep a terminal's Ctrl-C from the program (its own process
// group), so that the sandbox ends its programs in order.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
