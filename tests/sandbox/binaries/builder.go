package binaries

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Builder builds programs into a cache.
type Builder struct {
	// Source is the folder tests/sandbox/bin of a checkout.
	Source string
	// Cache is the folder of built programs.
	Cache string
	// Progress gets a line when a build starts and ends. Optional.
	Progress io.Writer
}

// Build returns the paths of the programs, building those that are not in the
// cache yet, one after another.
func (b *Builder) Build(ctx context.Context, names ...Name) (map[Name]string, error) {
	paths := make(map[Name]string, len(names))
	for _, name := range names {
		path, err := b.build(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("build %s: %w", name, err)
		}
		paths[name] = path
	}
	return paths, nil
}

func (b *Builder) build(ctx context.Context, name Name) (string, error) {
	r, err := recipeOf(name)
	if err != nil {
		return "", err
	}
	key, err := b.key(ctx, name, r)
	if err != nil {
		return "", err
	}
	path := filepath.Join(b.Cache, string(name)+"-"+key)
	if executable(path) {
		return path, Use(path)
	}
	unlock, err := Lock(ctx, b.Cache, "build") // one at a time: each takes all of the machine
	if err != nil {
		return "", err
	}
	defer unlock()
	if executable(path) { // built by whoever held the lock
		return path, Use(path)
	}
	if err := b.compile(ctx, name, r, path); err != nil {
		return "", err
	}
	// Not karpenter-1.8.6-KEY where karpenter-KEY is meant.
	return path, Prune(b.Cache, string(name)+"-"+strings.Repeat("?", keyLength), path)
}

// compile runs go build and moves the result to its place in one step.
func (b *Builder) compile(ctx context.Context, name Name, r recipe, path string) error {
	began := time.Now()
	b.say("building %s (once)\n", name)
	partial := path + ".partial"
	args := []string{"-n", "10", "go", "build", "-p", "2", "-ldflags", strings.Join(r.ldflags, " "), "-o", partial}
	if r.tags != "" {
		args = append(args, "-tags", r.tags)
	}
	cmd := exec.CommandContext(ctx, "nice", append(args, r.pkg)...)
	cmd.Dir = filepath.Join(b.Source, string(name))
	cmd.Env = append(cmd.Environ(), "GOWORK=off")
	if r.cgo {
		cmd.Env = append(cmd.Env, "CGO_ENABLED=1")
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s in %s: %w\n%s", strings.Join(cmd.Args, " "), cmd.Dir, err, bytes.TrimSpace(out))
	}
	if err := os.Rename(partial, path); err != nil {
		return fmt.Errorf("move the built file to its place: %w", err)
	}
	b.say("built %s in %s\n", name, time.Since(began).Round(time.Second))
	return nil
}

func (b *Builder) goVersion(ctx context.Context) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "env", "GOVERSION", "GOOS", "GOARCH")
	cmd.Dir = b.Source
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("ask go for its version: %w", err)
	}
	return string(bytes.TrimSpace(out)), nil
}

func (b *Builder) say(format string, args ...any) {
	if b.Progress != nil {
		fmt.Fprintf(b.Progress, format, args...)
	}
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o100 != 0
}

// Here is the Builder of the checkout that the working directory lies in, with
// the default cache.
func Here(progress io.Writer) (*Builder, error) {
	source, err := FindSource(".")
	if err != nil {
		return nil, err
	}
	cache, err := DefaultCache()
	if err != nil {
		return nil, err
	}
	return &Builder{Source: source, Cache: cache, Progress: progress}, nil
}
