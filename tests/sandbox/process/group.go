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

// ErrClosed means that a program cannot be started because the group is closed.
var ErrClosed = errors.New("the group of processes is closed")

// stopGrace is how long a program made by Command may take to exit after its context is done.
const stopGrace = 5 * time.Second

// Group starts and stops programs. It is safe for concurrent use.
type Group struct {
	starts chan start
	closed chan struct{}
	once   sync.Once
	// canRename reports whether a program can have its own host name.
	canRename func() bool

	mu      sync.Mutex
	running map[*Process]struct{}
}

type start struct {
	cmd  *exec.Cmd
	done chan error
}

// NewGroup returns a group without programs. Close closes it.
func NewGroup() *Group {
	g := &Group{starts: make(chan start), closed: make(chan struct{}), running: map[*Process]struct{}{}}
	g.canRename = sync.OnceValue(g.tryRename)
	go g.serve()
	return g
}

// serve starts every program from one thread. A parent-death signal follows the thread that forked, not the process
// (prctl(2), PR_SET_PDEATHSIG), so the thread is locked and lives as long as the group. It is unlocked at the end: if a
// goroutine returns with a locked thread, the thread exits, and the programs that other groups' Command had started
// from it would be killed with it.
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

// Start starts a program. The group waits for the returned Process.
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
	case <-g.closed: // the group was closed during the start
		p.Stop(0)
		return nil, ErrClosed
	default:
		return p, nil
	}
}

// watch waits for the process and tracks it until it has exited.
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

// Command returns a command that its caller starts and waits for. It gets SIGTERM when ctx is done, and is killed with
// the sandbox.
//
// It is not started on the group's thread. That is good enough for a thread of the Go runtime, which exits only if a
// goroutine locked to it returns; none does here.
func (g *Group) Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.SysProcAttr = attributes()
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = stopGrace
	return cmd
}

// Close kills every program that Start started and that still runs, and returns when they have exited.
func (g *Group) Close() {
	g.once.Do(func() { close(g.closed) })
	g.mu.Lock()
	left := slices.Collect(maps.Keys(g.running))
	g.mu.Unlock()
	for _, p := range left {
		p.Stop(0)
	}
}

// attributes put the program into its own process group, so that a terminal's Ctrl-C does not reach it and the sandbox
// stops its programs in order.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
