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

// TestPipesAreNamed: a folder may have a named pipe where a file is looked for; render and plan
// say which, and do not wait for another process to write to it.
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
