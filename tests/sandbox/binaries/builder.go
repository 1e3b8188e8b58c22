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
	// Progress prints how far builds are. Optional.
	Progress *Progress
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

// Missing are those of the programs that are not in the cache.
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

// Fetch fetches the modules that targets and programs are built of, in their order. It
// only saves time: what it could not fetch is fetched, or reported, by the build.
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

// place is how a program is built, and where it goes.
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

// compile builds the program into its place.
func (b *Builder) compile(ctx context.Context, name Name, r recipe, path string) error {
	return Compile(ctx, b.target(name, r, path), b.Progress)
}

func (b *Builder) target(name Name, r recipe, path string) Target {
	return Target{
		Name: string(name), Dir: filepath.Join(b.Source, r.folder(name)), Package: r.pkg, Output: path,
		Tags: r.tags, LDFlags: strings.Join(r.ldflags, " "), CGO: r.cgo,
	}
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
	return &Builder{Source: source, Cache: cache, Progress: &Progress{Out: progress}}, nil
}
