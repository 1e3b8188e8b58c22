package source

import (
	"bytes"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"github.com/go-git/go-git/v5/storage/memory"
)

// FuzzTree shows that any Git tree is either refused, or its entries are sorted and their names lead nowhere else.
func FuzzTree(f *testing.F) {
	line := func(mode, name string) string { return mode + " " + name + "\x00" + strings.Repeat("\x01", 20) }
	for _, text := range []string{
		"", line("100644", "pool.yaml"), line("100644", "a.yaml") + line("40000", "a"), line("120000", "link") + line("160000", "module"),
		line("100644", ".."), line("100644", "a/b"), line("100644", ""), line("9", "odd"), "100644 cut",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		objects := memory.NewStorage()
		o := objects.NewEncodedObject()
		o.SetType(plumbing.TreeObject)
		w, err := o.Writer()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(text); err != nil {
			t.Fatal(err)
		}
		hash, err := objects.SetEncodedObject(o)
		if err != nil {
			t.Fatal(err)
		}
		var pack bytes.Buffer
		if _, err := packfile.NewEncoder(&pack, objects, false).Encode([]plumbing.Hash{hash}, 10); err != nil {
			t.Fatal(err)
		}
		s, err := newStore(t.TempDir(), newRoom(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = s.remove() }()
		if err := s.ingest(t.Context(), &pack, limits{pack: 1 << 20, object: 64 << 10, content: 1 << 20, objects: 100, memory: DefaultMaxMemory}); err != nil {
			return
		}
		read := &tree{store: s, listings: newListings()}
		entries, err := read.folder("open", ".", entry{mode: filemode.Dir, hash: hash})
		if err != nil {
			return
		}
		for _, e := range entries {
			if !fs.ValidPath(e.name) || e.name == "." || strings.Contains(e.name, "/") {
				t.Errorf("an entry with the name %q", e.name)
			}
		}
		if !slices.IsSortedFunc(entries, func(a, b entry) int { return strings.Compare(a.name, b.name) }) {
			t.Errorf("entries without order: %v", entries)
		}
	})
}
