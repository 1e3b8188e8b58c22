package source_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/source"
	"github.com/plumbline-dev/plumbline/render"
)

func snapshotOf(t *testing.T, f files, o source.Options) *render.Snapshot {
	t.Helper()
	h := newHost(t)
	h.commit(t, "main", f)
	return newClient(t, h.url, o).mustFetch(t, v1alpha1.GitRef{})
}

func TestSnapshotIsAFileSystem(t *testing.T) {
	s := snapshotOf(t, files{
		"a.yaml": "a", "a/b.yaml": "b", "a/c/d.yaml": strings.Repeat("d", 40_000), "a.d/e": "e",
		"empty.yaml\"": "x", "a/link": "-> c/d.yaml", "a/folder": "-> ../a.d", "up": "-> a/../a.yaml",
	}, source.Options{})
	if err := fstest.TestFS(s.FS, "a.yaml", "a/b.yaml", "a/c/d.yaml", "a.d/e", "a/link", "up"); err != nil {
		t.Error(err)
	}
	for name, want := range map[string]string{"a/folder/e": "e", "up": "a", "a/folder/../x": ""} {
		data, err := fs.ReadFile(s.FS, name)
		if string(data) != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v; want %q", name, data, err, want)
		}
	}
}

func TestSnapshotSymlinksStayInside(t *testing.T) {
	s := snapshotOf(t, files{
		"a/out": "-> ../../etc/passwd", "abs": "-> /etc/passwd", "up": "-> ..", "loop": "-> pool", "pool": "-> loop",
		"dir": "-> up", "dangling": "-> nothing", "through": "-> a/out", "a/x": "x",
	}, source.Options{})
	for _, name := range []string{"a/out", "abs", "up", "loop", "dir", "through", "up/x"} {
		_, err := fs.ReadFile(s.FS, name)
		var link *source.SymlinkError
		if !errors.As(err, &link) {
			t.Errorf("%s: error %v, want a SymlinkError", name, err)
		}
		if _, err := fs.Stat(s.FS, name); !errors.As(err, &link) || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("stat %s: error %v, want a SymlinkError", name, err)
		}
	}
	if _, err := fs.ReadFile(s.FS, "dangling"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a dangling symlink: %v", err)
	}
	var link *source.SymlinkError
	if _, err := fs.ReadFile(s.FS, "through"); !errors.As(err, &link) || link.Name != "a/out" || link.Target != "../../etc/passwd" {
		t.Errorf("the symlink that leaves is not named: %v", err)
	}
}

func TestSnapshotShowsSubmodulesAsEmptyFolders(t *testing.T) {
	s := snapshotOf(t, files{"a.yaml": "a", "vendor/sub": "submodule"}, source.Options{})
	if err := fstest.TestFS(s.FS, "a.yaml", "vendor/sub"); err != nil {
		t.Error(err)
	}
	entries, err := fs.ReadDir(s.FS, "vendor/sub")
	if err != nil || len(entries) != 0 {
		t.Errorf("the submodule lists %v, %v", entries, err)
	}
	for name, want := range map[string]bool{"vendor/sub": true, "vendor": false, "a.yaml": false} {
		info, err := fs.Stat(s.FS, name)
		if err != nil || info.(render.Submodule).Submodule() != want {
			t.Errorf("%s is a submodule: %v, want %t", name, err, want)
		}
	}
}

func TestSnapshotIdentity(t *testing.T) {
	h := newHost(t)
	c := newClient(t, h.url, source.Options{})
	identities := func() map[string]string {
		s := c.mustFetch(t, v1alpha1.GitRef{})
		all := map[string]string{}
		for _, name := range []string{".", "a.yaml", "link", "nodes", "nodes/b.yaml", "nodes/deep"} {
			id, err := s.FS.(render.Identified).Identity(name)
			if err != nil || id == "" {
				t.Fatalf("identity of %s: %q, %v", name, id, err)
			}
			all[name] = id
		}
		return all
	}
	h.commit(t, "main", files{"a.yaml": "a", "link": "-> nodes/b.yaml", "nodes/b.yaml": "b", "nodes/deep/c.yaml": "c"})
	last := identities()
	if last["link"] != last["nodes/b.yaml"] {
		t.Error("a symlink has not the identity of its target")
	}
	steps := []struct {
		change files
		moves  []string
	}{
		{files{"nodes/b.yaml": "bb"}, []string{"nodes/b.yaml", "link"}},
		{files{"nodes/deep/c.yaml": "cc"}, nil},
		{files{"nodes/deep/d.yaml": "d"}, []string{"nodes/deep"}},
		{files{"nodes/new.yaml": "new"}, []string{"nodes"}},
		{files{"top.yaml": "t"}, []string{"."}},
		{files{"link": "-> a.yaml"}, []string{"link"}},
	}
	for _, step := range steps {
		h.commit(t, "main", step.change)
		now := identities()
		for name := range now {
			moved, want := now[name] != last[name], false
			for _, m := range step.moves {
				want = want || m == name
			}
			if moved != want {
				t.Errorf("after %v the identity of %s moved: %v, want %v", step.change, name, moved, want)
			}
		}
		last = now
	}
	s := c.mustFetch(t, v1alpha1.GitRef{})
	if _, err := s.FS.(render.Identified).Identity("none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("identity of nothing: %v, want not exist", err)
	}
}

func TestSnapshotRefusesAFileThatIsTooLarge(t *testing.T) {
	s := snapshotOf(t, files{"nodes/big.yaml": strings.Repeat("a: b\n", 500), "small.yaml": "a"}, source.Options{MaxFileBytes: 2000})
	_, err := fs.ReadFile(s.FS, "nodes/big.yaml")
	var limit *source.LimitError
	if !errors.As(err, &limit) || !strings.Contains(err.Error(), "the file nodes/big.yaml is larger") {
		t.Errorf("error %v, want a LimitError with the file's name", err)
	}
	if _, err := s.FS.Open("nodes/big.yaml"); !errors.As(err, &limit) {
		t.Errorf("error %v, want a LimitError", err)
	}
	if _, err := fs.ReadFile(s.FS, "small.yaml"); err != nil {
		t.Error(err)
	}
}

func TestFolder(t *testing.T) {
	dir := t.TempDir()
	for name, data := range map[string]string{"in/nodes/a.yaml": "a", "secret": "s"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("../secret", filepath.Join(dir, "in", "out")); err != nil {
		t.Fatal(err)
	}
	s, err := source.Folder(filepath.Join(dir, "in"))
	if err != nil {
		t.Fatal(err)
	}
	if data, err := fs.ReadFile(s.FS, "nodes/a.yaml"); err != nil || string(data) != "a" {
		t.Errorf("%q, %v", data, err)
	}
	if data, err := fs.ReadFile(s.FS, "out"); err == nil {
		t.Errorf("a symlink leads out: %q", data)
	}
	if _, err := source.Folder(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v, want not exist", err)
	}
}
