package render_test

import (
	"context"
	"errors"
	"io/fs"
	"testing"
	"testing/fstest"
	"time"

	"github.com/plumbline-dev/plumbline/render"
)

// named knows identities.
type named struct{ fstest.MapFS }

func (named) Identity(name string) (string, error) { return "of " + name, nil }

// reads are the ways to read a Snapshot.
func reads(snap render.Snapshot) map[string]func() error {
	return map[string]func() error{
		"open":    func() error { _, err := snap.FS.Open("a.yaml"); return err },
		"read":    func() error { _, err := fs.ReadFile(snap.FS, "a.yaml"); return err },
		"list":    func() error { _, err := fs.ReadDir(snap.FS, "."); return err },
		"look":    func() error { _, err := fs.Stat(snap.FS, "a.yaml"); return err },
		"compare": func() error { _, err := render.Inputs{"a.yaml": "of a.yaml"}.Unchanged(snap); return err },
	}
}

// TestReadingEnds with the context of the pass, and once it has taken too long: a commit
// decides how long each read takes.
func TestReadingEnds(t *testing.T) {
	plain := render.Snapshot{FS: fstest.MapFS{"a.yaml": {Data: []byte("a")}}}
	known := render.Snapshot{FS: named{plain.FS.(fstest.MapFS)}}
	for name, snap := range map[string]render.Snapshot{"by content": plain, "by identity": known} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			within := snap.Within(ctx, "./prod", time.Hour)
			if _, is := within.FS.(render.Identified); is != (name == "by identity") {
				t.Errorf("it knows identities: %t", is)
			}
			for how, read := range reads(within) {
				if err := read(); err != nil {
					t.Errorf("%s: %v", how, err)
				}
			}
			cancel()
			for how, read := range reads(within) {
				if err := read(); !errors.Is(err, context.Canceled) {
					t.Errorf("%s after the context's end: %v", how, err)
				}
			}
			over := snap.Within(t.Context(), "./prod", -1)
			for how, read := range reads(over) {
				var slow *render.SlowError
				if err := read(); !errors.As(err, &slow) || slow.Path != "./prod" {
					t.Errorf("%s after the time is over: %v", how, err)
				}
			}
		})
	}
}

// TestASlowReadEndsTheRender as what it is, and is no error of a file.
func TestASlowReadEndsTheRender(t *testing.T) {
	for name, files := range map[string]map[string]string{
		"files":           {"plumbline.yaml": plumblineYAML, "a.yaml": pool("a")},
		"a kustomization": {"plumbline.yaml": plumblineYAML, "k/kustomization.yaml": "namePrefix: my-\nresources: [a.yaml]\n", "k/a.yaml": pool("a")},
	} {
		t.Run(name, func(t *testing.T) {
			snap := folder(files)
			k, err := render.ReadKarpenter(snap, ".")
			if err != nil {
				t.Fatal(err)
			}
			for left := range 40 {
				few := render.Snapshot{FS: &fewReads{FS: snap.FS, left: left}}
				_, err := render.Render(t.Context(), few, ".", k, nil)
				if err == nil {
					return
				}
				if !errors.As(err, new(*render.SlowError)) {
					t.Fatalf("after %d reads: %v", left, err)
				}
			}
			t.Error("it reads on and on")
		})
	}
}

// fewReads has time for so many reads.
type fewReads struct {
	fs.FS
	left int
}

func (f *fewReads) Open(name string) (fs.File, error) {
	if f.left--; f.left < 0 {
		return nil, &fs.PathError{Op: "open", Path: name, Err: &render.SlowError{Path: ".", Reading: true}}
	}
	return f.FS.Open(name)
}
