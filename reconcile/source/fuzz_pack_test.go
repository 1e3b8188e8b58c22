package source

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"github.com/go-git/go-git/v5/storage/memory"
)

// packOf is a pack of blobs and an empty tree.
func packOf(f testing.TB, texts ...string) []byte {
	f.Helper()
	objects := memory.NewStorage()
	var hashes []plumbing.Hash
	add := func(kind plumbing.ObjectType, text string) {
		o := objects.NewEncodedObject()
		o.SetType(kind)
		w, err := o.Writer()
		if err == nil {
			_, err = w.Write([]byte(text))
		}
		if err != nil {
			f.Fatal(err)
		}
		hash, err := objects.SetEncodedObject(o)
		if err != nil {
			f.Fatal(err)
		}
		hashes = append(hashes, hash)
	}
	for _, text := range texts {
		add(plumbing.BlobObject, text)
	}
	add(plumbing.TreeObject, "")
	var out bytes.Buffer
	if _, err := packfile.NewEncoder(&out, objects, false).Encode(hashes, 10); err != nil {
		f.Fatal(err)
	}
	return out.Bytes()
}

// FuzzIngest shows that any pack is either refused with an error and leaves nothing on disk, or each of its objects can
// be read.
func FuzzIngest(f *testing.F) {
	f.Add(packOf(f, "a", "aa", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab"))
	f.Add(packOf(f))
	f.Add([]byte("PACK\x00\x00\x00\x02\xff\xff\xff\xff"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, pack []byte) {
		s, err := newStore(t.TempDir(), newRoom(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = s.remove() }()
		most := limits{pack: 1 << 20, object: 64 << 10, content: 1 << 20, objects: 100, memory: DefaultMaxMemory}
		if err := s.ingest(t.Context(), bytes.NewReader(pack), most); err != nil {
			left, err := os.ReadDir(s.packDir())
			if err != nil || len(left) > 0 {
				t.Fatalf("%d files are left, %v", len(left), err)
			}
			return
		}
		for _, index := range s.indexes {
			entries, err := index.Entries()
			if err != nil {
				t.Fatal(err)
			}
			for e, err := entries.Next(); err == nil; e, err = entries.Next() {
				var limit *LimitError
				if _, err := s.folder(e.Hash); err != nil && errors.As(err, &limit) {
					t.Fatalf("a listing within the limit of an object: %v", err)
				}
			}
		}
		if found, err := filepath.Glob(filepath.Join(s.packDir(), "incoming-*")); err != nil || len(found) > 0 {
			t.Fatalf("%v is left, %v", found, err)
		}
	})
}
