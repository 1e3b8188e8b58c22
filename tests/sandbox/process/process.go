package process

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// tail is how much of a log an error contains.
const tail = 2000

// signalled is added to the number of the signal that killed a program.
const signalled = 128

// Spec specifies what to start.
type Spec struct {
	// Name is the program's name in messages.
	Name string
	// Path is the file to run; Args are its arguments, without its own name.
	Path string
	Args []string
	// Env is the whole environment: if not nil, nothing is inherited.
	Env []string
	// Dir is the working directory.
	Dir string
	// Log is the file that standard output and standard error are appended to.
	Log string
	// Hostname is the host name that the program sees, if the kernel allows it its own; otherwise it sees the
	// machine's.
	Hostname string
}

// Process is a started program.
type Process struct {
	name string
	log  string
	cmd  *exec.Cmd
	done chan struct{}
	err  error
}

func (p *Process) wait() {
	p.err = p.cmd.Wait()
	close(p.done)
}

// PID returns the process ID.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the program has exited.
func (p *Process) Done() <-chan struct{} { return p.done }

// ExitCode returns the program's exit code like a container runtime: 128 plus the signal's number if a signal killed
// it. It is -1 while it runs.
func (p *Process) ExitCode() int {
	select {
	case <-p.done:
	default:
		return -1
	}
	if status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return signalled + int(status.Signal())
	}
	return p.cmd.ProcessState.ExitCode()
}

// Err returns, once Done is closed, how the program exited, with the end of its log.
func (p *Process) Err() error {
	how := "exit status 0"
	if p.err != nil {
		how = p.err.Error()
	}
	return fmt.Errorf("%s ended (%s); the end of %s:\n%s", p.name, how, p.log, p.logTail())
}

func (p *Process) logTail() []byte {
	data, err := os.ReadFile(p.log)
	if err != nil {
		return []byte(err.Error())
	}
	return bytes.TrimSpace(data[max(0, len(data)-tail):])
}

// Stop asks the program to exit, kills it after grace, and returns when it has exited. A grace of zero kills it
// immediately.
func (p *Process) Stop(grace time.Duration) {
	if grace > 0 {
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
		timer := time.NewTimer(grace)
		defer timer.Stop()
		select {
		case <-p.done:
			return
		case <-timer.C:
		}
	}
	_ = p.cmd.Process.Kill()
	<-p.done
}
