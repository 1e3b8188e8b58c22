package source_test

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/plumbline-dev/plumbline/reconcile/source"
	"github.com/plumbline-dev/plumbline/render"
)

// TestAFolderHasTheIdentitiesOfItsCommit shows that a plan of a checkout and a reconcile of its commit read the same.
func TestAFolderHasTheIdentitiesOfItsCommit(t *testing.T) {
	content := files{"prod/plumbline.yaml": "kind: Karpenter\n", "prod/nodes/a.yaml": "a", "prod/link.yaml": "-> nodes/a.yaml", "base/b.yaml": "b"}
	commit := snapshotOf(t, content, source.Options{})
	dir := t.TempDir()
	for name, text := range content {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if to, link := strings.CutPrefix(text, "-> "); link {
			if err := os.Symlink(to, path); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, ".git"), 0o700); err != nil {
		t.Fatal(err)
	}
	folder, err := source.Folder(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append(slices.Sorted(maps.Keys(content)), ".", "prod", "prod/nodes") {
		if want, got := identity(t, commit.FS, name), identity(t, folder.FS, name); want != got {
			t.Errorf("%s: %s in the commit, %s on disk", name, want, got)
		}
	}
	if identity(t, folder.FS, "prod/plumbline.yaml") == identity(t, folder.FS, "prod/nodes/a.yaml") {
		t.Error("two contents have one identity")
	}
}

// TestAFolderHasNothingOfGits: the .git of a checkout in CI contains credentials, and a pull request may have symlinks
// to it.
func TestAFolderHasNothingOfGits(t *testing.T) {
	dir := t.TempDir()
	for _, folder := range []string{".git", "nodes", "nodes/sub/.GIT"} {
		if err := os.MkdirAll(filepath.Join(dir, folder), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, folder, "config"), []byte("AUTHORIZATION: basic"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"nodes/file": "../.git/config", "nodes/folder": "../.git", "nodes/again": "folder/config", "nodes/round": "round", "nodes/right": "config"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	folder, err := source.Folder(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{".git", ".git/config", "nodes/file", "nodes/folder", "nodes/folder/config", "nodes/again", "nodes/round", "nodes/sub/.GIT/config"} {
		if data, err := fs.ReadFile(folder.FS, name); err == nil {
			t.Errorf("%s is read: %s", name, data)
		}
		if _, err := fs.Stat(folder.FS, name); err == nil {
			t.Errorf("%s is there", name)
		}
		if file, err := folder.FS.Open(name); err == nil {
			_ = file.Close()
			t.Errorf("%s opens", name)
		}
		if entries, err := fs.ReadDir(folder.FS, name); err == nil {
			t.Errorf("%s is listed: %v", name, entries)
		}
	}
	if data, err := fs.ReadFile(folder.FS, "nodes/right"); err != nil || string(data) != "AUTHORIZATION: basic" {
		t.Errorf("a symlink within the folder: %q, %v", data, err)
	}
	if entries, err := fs.ReadDir(folder.FS, "."); err != nil || len(entries) != 1 {
		t.Errorf("listed: %v, %v", entries, err)
	}
}

// TestAFolderHasRegularFilesOnly: opening a named pipe waits for another process to write to it.
func TestAFolderHasRegularFilesOnly(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("pipe", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	folder, err := source.Folder(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"pipe", "link"} {
		for op, read := range map[string]func() error{
			"open":     func() error { _, err := folder.FS.Open(name); return err },
			"read":     func() error { _, err := fs.ReadFile(folder.FS, name); return err },
			"identify": func() error { _, err := folder.FS.(render.Identified).Identity(name); return err },
		} {
			done := make(chan error, 1)
			go func() { done <- read() }()
			select {
			case err := <-done:
				if !errors.Is(err, render.ErrIrregular) || !strings.Contains(err.Error(), name) {
					t.Errorf("%s %s: %v", op, name, err)
				}
			case <-time.After(10 * time.Second):
				t.Fatalf("%s %s waits", op, name)
			}
		}
	}
}

// TestASymlinkOutOfAFolder shows that the error names the symlink and its target, as for a commit.
func TestASymlinkOutOfAFolder(t *testing.T) {
	dir := t.TempDir()
	for link, target := range map[string]string{"out.yaml": "/etc/hostname", "up": ".."} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	folder, err := source.Folder(dir)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"out.yaml": "symlink out.yaml -> /etc/hostname leads out of the repository", "up": "symlink up -> .. leads out of the repository",
		"up/x.yaml": "symlink up -> .. leads out of the repository",
	} {
		for op, read := range map[string]func() error{
			"stat": func() error { _, err := fs.Stat(folder.FS, name); return err },
			"open": func() error { _, err := folder.FS.Open(name); return err },
			"read": func() error { _, err := fs.ReadFile(folder.FS, name); return err },
			"list": func() error { _, err := fs.ReadDir(folder.FS, name); return err },
		} {
			var link *source.SymlinkError
			if err := read(); !errors.As(err, &link) || link.Error() != want {
				t.Errorf("%s %s: %v, want %s", op, name, err, want)
			}
		}
	}
}

func identity(t *testing.T, files fs.FS, name string) string {
	t.Helper()
	identified, ok := files.(render.Identified)
	if !ok {
		t.Fatalf("%T knows no identities", files)
	}
	found, err := identified.Identity(name)
	if err != nil {
		t.Fatal(err)
	}
	return found
}
