package binaries

import (
	"bytes"
	"io"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestProgressOfALongBuild: the phases, on a terminal and elsewhere.
func TestProgressOfALongBuild(t *testing.T) {
	for name, c := range map[string]struct {
		terminal bool
		want     string
	}{
		"terminal": {true, "\r\x1b[Khelm  fetching modules: 2 modules, 1s\r\x1b[Khelm  compiling 1 of 3 packages, 21s\r\x1b[Khelm  linking, 22s"},
		"plain":    {false, "helm  compiling 1 of 3 packages, 21s\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			l := &Line{Progress: &Progress{Out: &out, Terminal: c.terminal}, name: "helm", began: began, last: began}
			say(t, l.fetching(), "go: downloading a v1\ngo: downloading b v1\n")
			l.print(began.Add(time.Second))
			compiling := l.compiling(3)
			say(t, compiling, "a\n")
			l.print(began.Add(21 * time.Second))
			say(t, compiling, "b\nc\nd\n")
			l.print(began.Add(22 * time.Second))
			if diff := cmp.Diff(c.want, out.String()); diff != "" {
				t.Errorf("progress (-want +got):\n%s", diff)
			}
		})
	}
}

// TestProgressOfOtherWork: the current step, and lines that are printed in between.
func TestProgressOfOtherWork(t *testing.T) {
	for name, c := range map[string]struct {
		terminal bool
		want     string
	}{
		"terminal": {true, "\r\x1b[Kchanges, 1s\r\x1b[K1 changed: 0.1 s\n\r\x1b[Kchanges  all changed, 22s"},
		"plain":    {false, "1 changed: 0.1 s\nchanges  all changed, 22s\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			l := &Line{Progress: &Progress{Out: &out, Terminal: c.terminal}, name: "changes", began: began, last: began}
			l.print(began.Add(time.Second))
			l.Print("1 changed: 0.1 s")
			l.Say("all changed")
			l.print(began.Add(22 * time.Second))
			if diff := cmp.Diff(c.want, out.String()); diff != "" {
				t.Errorf("progress (-want +got):\n%s", diff)
			}
		})
	}
}

func say(t *testing.T, to io.Writer, text string) {
	t.Helper()
	if _, err := to.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
}
