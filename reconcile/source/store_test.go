package source_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/source"
	"github.com/plumbline-dev/plumbline/render"
)

// restarted is the client of the next process, with the same folder.
func (c *client) restarted(o source.Options) *client {
	o.Dir = c.dir
	return &client{git: source.NewGit(o), dir: c.dir, request: c.request}
}

func (c *client) mustSave(t *testing.T) {
	t.Helper()
	if err := c.git.Save(); err != nil {
		t.Fatal(err)
	}
}

// TestAStoreOutlivesItsProcess shows that the next process uses a saved store and fetches only what is new.
func TestAStoreOutlivesItsProcess(t *testing.T) {
	h := newHost(t)
	want := map[string]string{"nodes/a.yaml": "a", "nodes/b.yaml": "b"}
	first := h.commit(t, "main", want)
	c := newClient(t, h.url, source.Options{})
	c.mustFetch(t, v1alpha1.GitRef{})
	c.mustSave(t)

	packs := h.packs.Load()
	c = c.restarted(source.Options{})
	wantContent(t, c.mustFetch(t, v1alpha1.GitRef{}), first, want)
	if asked := h.packs.Load() - packs; asked != 0 {
		t.Errorf("%d packs were asked for, and nothing is new", asked)
	}

	want["nodes/c.yaml"] = "c"
	second := h.commit(t, "main", want)
	c = c.restarted(source.Options{})
	wantContent(t, c.mustFetch(t, v1alpha1.GitRef{}), second, want)
	wantOneStore(t, c)
	if since, known := c.git.Since(t.Context(), c.request.Key, first, render.Read{}, 10); !known || len(since) > 1 {
		t.Errorf("since the first commit: %v, known %v", since, known)
	}

	// What was fetched after the last Save was not saved.
	c = c.restarted(source.Options{})
	wantContent(t, c.mustFetch(t, v1alpha1.GitRef{}), second, want)
	wantOneStore(t, c)
	c.mustSave(t)
	packs = h.packs.Load()
	c = c.restarted(source.Options{})
	wantContent(t, c.mustFetch(t, v1alpha1.GitRef{}), second, want)
	if asked := h.packs.Load() - packs; asked != 0 {
		t.Errorf("%d packs were asked for after the second Save", asked)
	}
}

// TestWhatCannotBeBelievedIsCloned shows that a folder that was modified or is of something else is removed, and that
// the repository is cloned.
func TestWhatCannotBeBelievedIsCloned(t *testing.T) {
	h := newHost(t)
	want := map[string]string{"nodes/a.yaml": "a", "nodes/b.yaml": noise(newNoise(), 4000)} // in the middle of the pack
	commit := h.commit(t, "main", want)
	pack := func(ending string) func(*testing.T, string) string {
		return func(t *testing.T, dir string) string {
			t.Helper()
			found, err := filepath.Glob(filepath.Join(dir, "objects", "pack", "*"+ending))
			if err != nil || len(found) != 1 {
				t.Fatalf("%v, %v: want one", found, err)
			}
			return found[0]
		}
	}
	recorded := func(_ *testing.T, dir string) string { return filepath.Join(dir, "store.json") }
	change := func(find func(*testing.T, string) string, by func([]byte) []byte) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			t.Helper()
			name := find(t, dir)
			text, err := os.ReadFile(name)
			if err == nil {
				_ = os.Chmod(name, 0o600)
				err = os.WriteFile(name, by(text), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	half := func(text []byte) []byte { return text[:len(text)/2] }
	flip := func(text []byte) []byte { text[len(text)/2] ^= 1; return text }
	nothing := func([]byte) []byte { return nil }
	remove := func(find func(*testing.T, string) string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			t.Helper()
			if err := os.Remove(find(t, dir)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, spoil := range map[string]func(*testing.T, string){
		"half a pack":                        change(pack(".pack"), half),
		"another byte in the pack":           change(pack(".pack"), flip),
		"an empty pack":                      change(pack(".pack"), nothing),
		"no pack":                            remove(pack(".pack")),
		"half an index":                      change(pack(".idx"), half),
		"another byte in the index":          change(pack(".idx"), flip),
		"no index":                           remove(pack(".idx")),
		"half a record":                      change(recorded, half),
		"no record":                          remove(recorded),
		"an empty record":                    change(recorded, func([]byte) []byte { return []byte("{}") }),
		"a record of another repository":     change(recorded, func(text []byte) []byte { return []byte(strings.Replace(string(text), `"of":"`, `"of":"0`, 1)) }),
		"a record of a pack that is outside": change(recorded, func(text []byte) []byte { return []byte(strings.Replace(string(text), `"pack-`, `"../pack-`, 1)) }),
	} {
		t.Run(name, func(t *testing.T) {
			c := newClient(t, h.url, source.Options{})
			c.mustFetch(t, v1alpha1.GitRef{})
			c.mustSave(t)
			stores, err := filepath.Glob(filepath.Join(c.dir, "stores", "*"))
			if err != nil || len(stores) != 1 {
				t.Fatalf("stores %v, %v: want one", stores, err)
			}
			spoil(t, stores[0])
			packs := h.packs.Load()
			later := time.Now()
			c = c.restarted(source.Options{Now: func() time.Time { return later }})
			wantContent(t, c.mustFetch(t, v1alpha1.GitRef{}), commit, want)
			if h.packs.Load() == packs {
				t.Error("nothing was cloned")
			}
			later = later.Add(time.Hour)
			c.mustSave(t)
			wantOneStore(t, c)
		})
	}
}

// TestAStoreIsForTheSame: a store of an earlier process is used for the same reference of the same URL within the same
// limits, for any caller with access, and is removed if nothing requests it.
func TestAStoreIsForTheSame(t *testing.T) {
	h := newHost(t)
	h.commit(t, "main", files{"a.yaml": "a"})
	h.commit(t, "other", files{"a.yaml": "other"})
	before := newClient(t, h.url, source.Options{})
	before.mustFetch(t, v1alpha1.GitRef{})
	before.mustSave(t)

	c := before.restarted(source.Options{})
	c.request.Credentials.Password = "wrong"
	var refused *source.AuthError
	if _, err := c.fetch(t, v1alpha1.GitRef{}); !errors.As(err, &refused) {
		t.Fatalf("with a wrong password: %v", err)
	}
	for name, other := range map[string]struct {
		options source.Options
		ref     v1alpha1.GitRef
		clones  bool
	}{
		"another branch":              {ref: v1alpha1.GitRef{Branch: "other"}, clones: true},
		"another limit":               {options: source.Options{MaxBytes: 1 << 20}, clones: true},
		"the default branch, named":   {ref: v1alpha1.GitRef{Branch: v1alpha1.DefaultBranch}},
		"credentials of another kind": {},
	} {
		t.Run(name, func(t *testing.T) {
			before := newClient(t, h.url, source.Options{})
			before.mustFetch(t, v1alpha1.GitRef{})
			before.mustSave(t)
			later := time.Now()
			other.options.Now = func() time.Time { return later }
			c := before.restarted(other.options)
			if name == "credentials of another kind" {
				c.request.Credentials = source.Credentials{BearerToken: password}
			}
			packs := h.packs.Load()
			c.mustFetch(t, other.ref)
			if got := h.packs.Load() != packs; got != other.clones {
				t.Errorf("cloned: %v, want %v", got, other.clones)
			}
			want := 1
			if other.clones {
				want = 2
			}
			c.mustSave(t)
			if left := c.stores(t); len(left) != want {
				t.Errorf("soon after the start: %v, want %d", left, want)
			}
			later = later.Add(time.Hour)
			c.mustSave(t)
			wantOneStore(t, c)
		})
	}
}

// TestTheCacheFolderIsEmptied while the process runs: with a new commit, and without one.
func TestTheCacheFolderIsEmptied(t *testing.T) {
	h := newHost(t)
	first := h.commit(t, "main", files{"a.yaml": "first"})
	c := newClient(t, h.url, source.Options{})
	wantContent(t, c.mustFetch(t, v1alpha1.GitRef{}), first, map[string]string{"a.yaml": "first"})
	for _, content := range []string{"first", "second"} {
		if content != "first" {
			first = h.commit(t, "main", files{"a.yaml": content})
		}
		if err := os.RemoveAll(c.dir); err != nil {
			t.Fatal(err)
		}
		wantContent(t, c.mustFetch(t, v1alpha1.GitRef{}), first, map[string]string{"a.yaml": content})
	}
}
