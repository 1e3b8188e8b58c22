package binaries

import (
	"bytes"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// How often progress is printed: on a terminal, in a line that is overwritten, and elsewhere, in separate lines.
const (
	terminalEvery = time.Second
	plainEvery    = 20 * time.Second
)

// Progress prints the progress of builds.
type Progress struct {
	// Out gets the lines.
	Out io.Writer
	// Terminal reports whether a line can be overwritten.
	Terminal bool
	// Of is the total number of builds; 0 if unknown.
	Of int

	begun atomic.Int32
}

// Line is the progress of one build, or of other work. A nil Line prints nothing.
type Line struct {
	*Progress
	name    string
	began   time.Time
	stop    chan struct{}
	stopped sync.WaitGroup

	mu          sync.Mutex
	what        string
	done, total int
	last        time.Time
}

// Begin starts some work, which End ends. Nothing is printed until it has lasted for a while.
func (p *Progress) Begin(name string) *Line {
	if p == nil || p.Out == nil {
		return nil
	}
	if begun := p.begun.Add(1); p.Of > 1 {
		name = fmt.Sprintf("[%d/%d] %s", begun, p.Of, name)
	}
	l := &Line{Progress: p, name: name, began: time.Now(), last: time.Now(), stop: make(chan struct{})}
	l.stopped.Go(func() {
		tick := time.NewTicker(terminalEvery)
		defer tick.Stop()
		for {
			select {
			case <-l.stop:
				return
			case now := <-tick.C:
				l.print(now)
			}
		}
	})
	return l
}

// Say sets the current step of the work.
func (l *Line) Say(what string) {
	if l != nil {
		l.phase(what, 0)
	}
}

// Print prints a line that is not overwritten.
func (l *Line) Print(text string) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.Terminal {
		text = "\r\x1b[K" + text
	}
	fmt.Fprintln(l.Out, text)
}

// End prints how long the work took, unless it was short.
func (l *Line) End() {
	if l == nil {
		return
	}
	close(l.stop)
	l.stopped.Wait()
	took := time.Since(l.began)
	switch {
	case l.Terminal:
		fmt.Fprintf(l.Out, "\r\x1b[K%s  done in %s\n", l.name, took.Round(time.Second))
	case took >= terminalEvery:
		fmt.Fprintf(l.Out, "%s  done in %s\n", l.name, took.Round(time.Second))
	}
}

// print prints the progress, if that is due.
func (l *Line) print(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.Terminal && now.Sub(l.last) < plainEvery {
		return
	}
	l.last = now
	state := l.name
	if l.what != "" {
		state += "  " + l.what
	}
	switch {
	case l.total > 0 && l.done >= l.total-1:
		state = l.name + "  linking"
	case l.total > 0:
		state += fmt.Sprintf(" %d of %d packages", min(l.done, l.total), l.total)
	case l.done > 0:
		state += fmt.Sprintf(": %d modules", l.done)
	}
	state += fmt.Sprintf(", %s", now.Sub(l.began).Round(time.Second))
	if l.Terminal {
		fmt.Fprintf(l.Out, "\r\x1b[K%s", state)
		return
	}
	fmt.Fprintln(l.Out, state)
}

// fetching counts the modules in the output of the go command.
func (l *Line) fetching() io.Writer { return l.phase("fetching modules", 0) }

// compiling counts the packages in the output of the go command.
func (l *Line) compiling(total int) io.Writer { return l.phase("compiling", total) }

func (l *Line) phase(what string, total int) io.Writer {
	if l == nil {
		return io.Discard
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.what, l.done, l.total = what, 0, total
	return counter{l}
}

// counter counts lines.
type counter struct{ line *Line }

func (c counter) Write(data []byte) (int, error) {
	c.line.mu.Lock()
	defer c.line.mu.Unlock()
	c.line.done += bytes.Count(data, []byte("\n"))
	return len(data), nil
}
