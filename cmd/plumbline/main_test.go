package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/render"
)

// TestWhatCannotBePrintedIsAnError: this includes commands that print line by line.
func TestWhatCannotBePrintedIsAnError(t *testing.T) {
	full, err := os.Open(os.DevNull) // read-only: writing to it fails
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	for _, line := range []string{"--help", "plan --help", "version", "completion bash"} {
		root, out := newRootCommand(), &standardOutput{file: full}
		root.SetOut(out)
		root.SetArgs(strings.Fields(line))
		if err := out.outcome(root.ExecuteContext(t.Context())); !errors.Is(err, os.ErrPermission) && !strings.Contains(err.Error(), "bad file descriptor") {
			t.Errorf("%s ends with %v", line, err)
		}
	}
}

func TestOutcomeOfACommand(t *testing.T) {
	unwritten, failed, changes := errors.New("disk full"), errors.New("refused"), &exitError{code: exitChanges}
	for name, c := range map[string]struct{ printed, of, want error }{
		"done":                         {nil, nil, nil},
		"changes":                      {nil, changes, changes},
		"done and not printed":         {unwritten, nil, unwritten},
		"changes that are not printed": {unwritten, changes, unwritten},
		"failed":                       {unwritten, failed, failed},
	} {
		if got := (&standardOutput{err: c.printed}).outcome(c.of); !errors.Is(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// TestTheFirstErrorStays: if the disk has space again later, the output is still incomplete.
func TestTheFirstErrorStays(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	out := &standardOutput{file: file, err: os.ErrInvalid}
	if _, err := out.Write([]byte("text")); err != nil {
		t.Fatal(err)
	}
	if err := out.outcome(nil); !errors.Is(err, os.ErrInvalid) {
		t.Errorf("ends with %v", err)
	}
}

// TestMistakesAreSaidOnce: a message's summary is not printed together with what it summarizes.
func TestMistakesAreSaidOnce(t *testing.T) {
	long := "a rather long sentence about a field, its value and what it should be, which is longer than a commit status may have characters"
	for name, c := range map[string]struct {
		message string
		want    []string
	}{
		"one":         {"not allowed", []string{"not allowed"}},
		"a long one":  {render.Errors{{File: "a.yaml", Line: 1, Message: long}}.Error(), []string{"a.yaml:1: " + long}},
		"two":         {render.Errors{{File: "a.yaml", Line: 1, Message: "b"}, {File: "c.yaml", Line: 2, Message: "d"}}.Error(), []string{"a.yaml:1: b", "c.yaml:2: d"}},
		"other lines": {"helm says:\nno such thing", []string{"helm says:", "no such thing"}},
	} {
		if diff := cmp.Diff(c.want, mistakes(c.message)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
