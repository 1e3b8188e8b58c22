package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestUntrackedFilesAreWarnedOf: CI may leave uncommitted files in a checkout.
func TestUntrackedFilesAreWarnedOf(t *testing.T) {
	basic := examples(t)["basic"]
	root := filepath.Dir(filepath.Dir(basic))
	git := func(args ...string) {
		t.Helper()
		args = append([]string{"-C", root, "-c", "user.name=a", "-c", "user.email=a@example.com"}, args...)
		if out, err := exec.CommandContext(t.Context(), "git", args...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	git("init", "--quiet")
	write(filepath.Join(root, ".gitignore"), "ignored.*\n")
	git("add", ".")
	git("commit", "--quiet", "--message", "a")
	linked := filepath.Join(t.TempDir(), "linked")
	git("worktree", "add", "--quiet", "--detach", linked)
	for name, folder := range map[string]string{"a clone": basic, "a linked work tree": filepath.Join(linked, "examples", "basic")} {
		t.Run(name, func(t *testing.T) {
			if got := plumbline(t, "render", folder); got.code != exitDone || got.err != "" {
				t.Fatalf("code %d, says %s", got.code, got.err)
			}
			write(filepath.Join(folder, "..", "beside.txt"), "")
			write(filepath.Join(folder, "ignored.txt"), "")
			want := "the daemon sees only files that Git tracks; untracked here: examples/basic/ignored.txt"
			if got := plumbline(t, "render", folder); got.code != exitDone || got.err != "warning: "+want+"\n" {
				t.Errorf("code %d, says %s", got.code, got.err)
			}
			for i := range maxNamed {
				write(filepath.Join(folder, fmt.Sprintf("left-%d.txt", i)), "")
			}
			want += ", examples/basic/left-0.txt, examples/basic/left-1.txt, examples/basic/left-2.txt, examples/basic/left-3.txt and 1 more"
			var report struct{ Warnings []string }
			got := plumbline(t, "plan", folder, "-o", "json")
			if err := json.Unmarshal([]byte(got.out), &report); err != nil || !slices.Contains(report.Warnings, want) {
				t.Errorf("%v: warnings %s, says %s", err, strings.Join(report.Warnings, "\n"), got.err)
			}
		})
	}
}
