package main

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// The colours of a terminal.
const (
	bold  = "\x1b[1m"
	green = "\x1b[32m"
	amber = "\x1b[33m"
	red   = "\x1b[31m"
	faint = "\x1b[2m"
	plain = "\x1b[0m"
)

// teller prints the progress. It is safe for concurrent use.
type teller struct {
	out    io.Writer
	colour bool
	began  time.Time

	mu  sync.Mutex
	act time.Time // when the act started
}

func (t *teller) paint(colour, text string) string {
	if !t.colour {
		return text
	}
	return colour + text + plain
}

// begin starts an act.
func (t *teller) begin(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.act = time.Now()
	fmt.Fprintf(t.out, "\n%s\n", t.paint(bold, fmt.Sprintf(format, args...)))
}

// done prints what has happened, with the time since the act started.
func (t *teller) done(format string, args ...any) { t.line(green, "✓", format, args...) }

// going prints what is in progress.
func (t *teller) going(format string, args ...any) { t.line(amber, "…", format, args...) }

// failed prints what has failed.
func (t *teller) failed(format string, args ...any) { t.line(red, "✗", format, args...) }

func (t *teller) line(colour, sign, format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	since := t.paint(faint, fmt.Sprintf("%6.1fs", time.Since(t.act).Seconds()))
	fmt.Fprintf(t.out, "  %s %s  %s\n", t.paint(colour, sign), since, fmt.Sprintf(format, args...))
}

// write prints a text unchanged.
func (t *teller) write(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	fmt.Fprint(t.out, text)
}

// say prints lines unchanged, indented.
func (t *teller) say(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for line := range strings.Lines(text) {
		fmt.Fprint(t.out, "    ", line)
	}
}
