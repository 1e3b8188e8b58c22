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
)

// Builder builds programs into a cache.
type Builder struct {
	// Source is the folder tests/sandbox/bin of a checkout.
	Source string
	// Cache is the folder of built programs.
	Cache string
	// Progress prints the progress of builds. Optional.
	Progress *Progress
}

// Build returns the paths of the programs. It builds those that are not in the cache yet, one after another.
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

// Missing returns those of the programs that are not in the cache.
func (b *Builder) Missing(ctx context.Context, names ...Name) ([]Name, error) {
	var missing []Name
	for _, name := range names {
		_, path, err := b.place(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("look for %s: %w", name, err)
		}
		if !executable(path) {
			missing = append(missing, name)
		}
	}
	return missing, nil
}

// Fetch fetches the modules of targets and programs, in their order. It only saves time: the build fetches, or reports,
// what it could not fetch.
func (b *Builder) Fetch(ctx context.Context, targets []Target, names []Name) {
	for _, name := range names {
		if r, err := recipeOf(name); err == nil {
			targets = append(targets, b.target(name, r, ""))
		}
	}
	for _, t := range targets {
		_, _ = t.stale(ctx, io.Discard)
	}
}

// place returns how a program is built, and its path.
func (b *Builder) place(ctx context.Context, name Name) (recipe, string, error) {
	r, err := recipeOf(name)
	if err != nil {
		return recipe{}, "", err
	}
	key, err := b.key(ctx, name, r)
	return r, filepath.Join(b.Cache, string(name)+"-"+key), err
}

func (b *Builder) build(ctx context.Context, name Name) (string, error) {
	r, path, err := b.place(ctx, name)
	if err != nil {
		return "", err
	}
	if executable(path) {
		return path, Use(path)
	}
	unlock, err := Lock(ctx, b.Cache, "build") // one at a time: each uses the whole machine
	if err != nil {
		return "", err
	}
	defer unlock()
	if executable(path) { // the previous holder of the lock has built it
		return path, Use(path)
	}
	if err := b.compile(ctx, name, r, path); err != nil {
		return "", err
	}
	// The pattern must match karpenter-KEY, not karpenter-1.8.6-KEY.
	return path, Prune(b.Cache, string(name)+"-"+strings.Repeat("?", keyLength), path)
}

// compile builds the program into its place.
func (b *Builder) compile(ctx context.Context, name Name, r recipe, path string) error {
	return Compile(ctx, b.target(name, r, path), b.Progress)
}

func (b *Builder) target(name Name, r recipe, path string) Target {
	t := Target{
		Name: string(name), Dir: filepath.Join(b.Source, r.folder(name)), Package: r.pkg, Output: path,
		Tags: r.tags, LDFlags: strings.Join(r.ldflags, " "), CGO: r.cgo,
	}
	if r.sources != "" {
		t.ModFile, t.Dir = filepath.Join(t.Dir, "go.mod"), filepath.Join(b.Source, r.sources)
	}
	return t
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

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o100 != 0
}

// Here returns a Builder for the checkout that contains the working directory, with the default cache.
func Here(progress io.Writer) (*Builder, error) {
	source, err := FindSource(".")
	if err != nil {
		return nil, err
	}
	cache, err := DefaultCache()
	if err != nil {
		return nil, err
	}
	return &Builder{Source: source, Cache: cache, Progress: &Progress{Out: progress}}, nil
}
