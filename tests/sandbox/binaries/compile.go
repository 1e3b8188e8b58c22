package binaries

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
)

// Target is a Go package to build into a file.
type Target struct {
	// Name is its name in the progress.
	Name string
	// Dir is a folder of the module to build in.
	Dir string
	// ModFile is the path of a go.mod, with a go.sum next to it, to use instead of the module's own. Optional.
	ModFile string
	// Package is its import path, or a path relative to Dir.
	Package string
	// Output is the absolute path of the file.
	Output  string
	Tags    string
	LDFlags string
	// CGO is for the few programs that need a C compiler. All others are built without it, so that they share compiled
	// packages.
	CGO bool
}

// downloads is the number of modules that the go command fetches in parallel: by default as many as processors, which
// does not saturate a network.
const downloads = 24

// collected is the compiler's GOGC: it allocates much and is short-lived, so fewer collections save an eighth to a
// third of its time, for some hundred megabytes.
const collected = "400"

// Compile builds a target atomically: an existing file is complete. progress may be nil.
func Compile(ctx context.Context, t Target, progress *Progress) error {
	line := progress.Begin(t.Name)
	defer line.End()
	stale, err := t.stale(ctx, line.fetching())
	if err != nil {
		return err
	}
	partial := t.Output + ".partial"
	build := append(append([]string{"-n", "10", "go", "build", "-v"}, t.flags()...), "-ldflags", t.LDFlags, "-o", partial, t.Package)
	if _, err := t.run(ctx, line.compiling(stale), "nice", build...); err != nil {
		return err
	}
	if err := os.Rename(partial, t.Output); err != nil {
		return fmt.Errorf("move the built file to its place: %w", err)
	}
	return nil
}

// stale returns how many packages have to be compiled. It fetches missing modules.
func (t Target) stale(ctx context.Context, log io.Writer) (int, error) {
	list := append(append([]string{"list", "-deps", "-f", "{{if .Stale}}.{{end}}"}, t.flags()...), t.Package)
	out, err := t.run(ctx, log, "go", list...)
	return bytes.Count(out, []byte(".")), err
}

func (t Target) flags() []string {
	flags := []string{"-trimpath"} // the same for all, so that they share compiled packages
	if t.Tags != "" {
		flags = append(flags, "-tags", t.Tags)
	}
	if t.ModFile != "" {
		flags = append(flags, "-modfile", t.ModFile)
	}
	return flags
}

// run runs a command in the target's folder. Its standard error is written to log, and is part of the error if it
// fails.
func (t Target) run(ctx context.Context, log io.Writer, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = t.Dir
	cmd.Env = append(cmd.Environ(), "GOWORK=off", "CGO_ENABLED=0", "GOGC="+collected)
	if t.CGO {
		cmd.Env = append(cmd.Env, "CGO_ENABLED=1")
	}
	if name == "go" {
		cmd.Env = append(cmd.Env, "GOMAXPROCS="+strconv.Itoa(downloads))
	}
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, io.MultiWriter(&said, log)
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s in %s: %w\n%s", strings.Join(cmd.Args, " "), cmd.Dir, errors.Join(err, ctx.Err()), complaints(said.Bytes()))
	}
	return out.Bytes(), nil
}

// complaints returns the lines of the go command that do not only name a package or module in progress.
func complaints(said []byte) string {
	var kept []string
	lines := bufio.NewScanner(bytes.NewReader(said))
	for lines.Scan() {
		if line := lines.Text(); strings.Contains(line, " ") && !strings.HasPrefix(line, "go: downloading ") {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "\n")
}
