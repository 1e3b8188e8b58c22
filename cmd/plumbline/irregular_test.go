package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestPipesAreNamed: if a folder contains a named pipe in place of a file, render and plan name it, and do not wait for
// another process to write to it.
func TestPipesAreNamed(t *testing.T) {
	for name, c := range map[string]struct{ pipe, kustomization string }{
		"a definition":           {"nodes/general.yaml", ""},
		"plumbline.yaml":         {"plumbline.yaml", ""},
		"a patch":                {"nodes/p.yaml", "resources: [general.yaml]\npatches: [{path: p.yaml}]\n"},
		"a resource of a build":  {"nodes/more.yaml", "namePrefix: a-\nresources: [general.yaml, more.yaml]\n"},
		"a kustomization itself": {"nodes/kustomization.yaml", ""},
	} {
		t.Run(name, func(t *testing.T) {
			basic := examples(t)["basic"]
			if c.kustomization != "" {
				if err := os.WriteFile(filepath.Join(basic, "nodes", "kustomization.yaml"), []byte(c.kustomization), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			pipe := filepath.Join(basic, filepath.FromSlash(c.pipe))
			if err := os.Remove(pipe); err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
			if err := syscall.Mkfifo(pipe, 0o600); err != nil {
				t.Fatal(err)
			}
			for _, command := range []string{"render", "plan"} {
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				done := make(chan said, 1)
				go func() { done <- plumblineIn(ctx, command, basic) }()
				select {
				case got := <-done:
					if got.code == exitDone || !strings.Contains(got.err, c.pipe+": it is not a regular file") {
						t.Errorf("%s: code %d, %s", command, got.code, got.err)
					}
				case <-ctx.Done():
					t.Errorf("%s waits for the pipe", command)
				}
				cancel()
			}
		})
	}
}

// TestPipesOfGitAreNamed: the same applies to the folder with Git's own files.
func TestPipesOfGitAreNamed(t *testing.T) {
	for name, pipe := range map[string]string{"the index": ".git/index", "the folder": ".git", "the folder of a work tree": "linked/index"} {
		t.Run(name, func(t *testing.T) {
			basic := examples(t)["basic"]
			root := filepath.Dir(filepath.Dir(basic))
			git := filepath.Join(root, ".git")
			for _, folder := range []string{git, filepath.Join(root, "linked")} {
				if err := os.MkdirAll(folder, 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(folder, "HEAD"), []byte("ref: refs/heads/main\n"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if pipe != ".git/index" {
				if err := os.RemoveAll(git); err != nil {
					t.Fatal(err)
				}
			}
			if pipe == "linked/index" {
				if err := os.WriteFile(git, []byte("gitdir: linked\n"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if err := syscall.Mkfifo(filepath.Join(root, filepath.FromSlash(pipe)), 0o600); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			done := make(chan said, 1)
			go func() { done <- plumblineIn(ctx, "render", basic) }()
			select {
			case got := <-done:
				if !strings.Contains(got.err, pipe+": it is not a regular file") {
					t.Errorf("code %d, %s", got.code, got.err)
				}
			case <-ctx.Done():
				t.Error("it waits for the pipe")
			}
		})
	}
}
