package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/render"
)

var update = flag.Bool("update", false, "rewrite the goldens")

// said is the output and the exit code of a command.
type said struct {
	out, err string
	code     int
}

// plumbline runs a command in this process, as main does.
func plumbline(t *testing.T, args ...string) said {
	t.Helper()
	return plumblineIn(t.Context(), args...)
}

func plumblineIn(ctx context.Context, args ...string) said {
	var out, errs bytes.Buffer
	root := newRootCommand()
	root.SetArgs(args)
	root.SetOut(&out)
	root.SetErr(&errs)
	code := exitCode(root.ExecuteContext(ctx), &errs)
	return said{out: out.String(), err: errs.String(), code: code}
}

// golden compares with a file in testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-update rewrites it):\n%s", file, diff)
	}
}

func TestExitCode(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		code int
		says string
	}{
		"done":                {nil, 0, ""},
		"an error":            {errors.New("no route"), 1, "plumbline: no route\n"},
		"changes":             {&exitError{code: exitChanges}, 2, ""},
		"held":                {&exitError{code: exitHeld}, 3, ""},
		"over the time":       {&exitError{code: exitStalled, message: "not done"}, 4, "not done\n"},
		"interrupted":         {fmt.Errorf("read: %w", context.Canceled), 1, "plumbline: stopped\n"},
		"a mistake":           {render.Errors{{File: "a.yaml", Line: 1, Message: "b"}}, 1, "plumbline: a.yaml:1: b\n"},
		"mistakes of a file":  {render.Errors{{File: "a.yaml", Line: 1, Message: "b"}, {File: "a.yaml", Line: 2, Message: "c"}}, 1, "a.yaml:1: b\na.yaml:2: c\nplumbline: 2 errors in 1 file\n"},
		"mistakes":            {render.Errors{{File: "a.yaml", Line: 1, Message: "b"}, {File: "a.yaml", Line: 2, Message: "c"}, {File: "d.yaml", Message: "e"}}, 1, "a.yaml:1: b\na.yaml:2: c\nd.yaml: e\nplumbline: 3 errors in 2 files\n"},
		"mistakes, and where": {fmt.Errorf("plan: %w", render.Errors{{File: "a.yaml", Line: 1, Message: "b"}}), 1, "plumbline: plan: a.yaml:1: b\n"},
		"wrapped, changes":    {errors.Join(&exitError{code: exitChanges}), 2, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var errs bytes.Buffer
			if code := exitCode(c.err, &errs); code != c.code || errs.String() != c.says {
				t.Errorf("code %d, says %q", code, errs.String())
			}
		})
	}
}
