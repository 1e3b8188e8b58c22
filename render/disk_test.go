package render_test

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/render"
)

// opened is a Cache of a new process, with what a folder has.
func opened(t *testing.T, d *render.Disk, schema string, snap render.Snapshot, v render.Validator) *render.Cache {
	t.Helper()
	k, err := render.ReadKarpenter(snap, "clusters/a")
	if err != nil {
		t.Fatal(err)
	}
	cache, values := &render.Cache{}, &render.Values{}
	d.Prefetch("plumbline-system/a", values)
	if err := d.Open("plumbline-system/a", cache, k, schema, v, values); err != nil {
		t.Fatal(err)
	}
	return cache
}

// TestWhatIsKeptOnDiskIsRenderedNoMore: a process that starts with what the one before has kept comes
// to the same Sets as one that starts with nothing, and validates what has changed meanwhile only.
func TestWhatIsKeptOnDiskIsRenderedNoMore(t *testing.T) {
	for seed := range uint64(8) {
		random, files, dir := rand.New(rand.NewPCG(seed, 11)), fleet(), t.TempDir()
		for life := range 4 {
			drawn(random, files)
			snap, _ := withIdentities(maps.Clone(files))
			disk, validator := &render.Disk{Dir: dir, Program: "v1"}, &counting{}
			cache := opened(t, disk, "schema", snap, validator)
			got := cached(t, snap, validator, cache)
			all := &counting{}
			if diff := cmp.Diff(cached(t, snap, all, &render.Cache{}), got); diff != "" {
				t.Fatalf("seed %d: another Set than from nothing (-nothing +kept):\n%s", seed, diff)
			}
			if life > 0 && len(validator.validated) >= len(all.validated) {
				t.Errorf("seed %d: all of %v was validated again", seed, validator.validated)
			}
			drawn(random, files)
			snap, _ = withIdentities(maps.Clone(files))
			cached(t, snap, validator, cache) // a Set that is made of the last one
			save(t, disk)
			again := &counting{}
			cached(t, snap, again, opened(t, &render.Disk{Dir: dir, Program: "v1"}, "schema", snap, again))
			if len(again.validated) > 0 {
				t.Errorf("seed %d: %v was validated again, and nothing has changed", seed, again.validated)
			}
		}
	}
}

// TestWhatCannotBeBelievedIsRendered: what another program or schema has kept, and a file that is not
// whole, count as none.
func TestWhatCannotBeBelievedIsRendered(t *testing.T) {
	snap, _ := withIdentities(fleet())
	for name, c := range map[string]struct {
		program, schema string
		change          func(text []byte) []byte
		refused         bool
	}{
		"another program":    {program: "v2", schema: "schema"},
		"another schema":     {program: "v1", schema: "other"},
		"cut at a line":      {program: "v1", schema: "schema", change: func(text []byte) []byte { return text[:bytes.LastIndexByte(bytes.TrimSpace(text), '\n')+1] }},
		"cut in a line":      {program: "v1", schema: "schema", change: func(text []byte) []byte { return text[:len(text)-40] }, refused: true},
		"empty":              {program: "v1", schema: "schema", change: func([]byte) []byte { return nil }},
		"no JSON":            {program: "v1", schema: "schema", change: func([]byte) []byte { return []byte("gibberish\nend\n") }},
		"an object of parts": {program: "v1", schema: "schema", change: func(text []byte) []byte { return bytes.ReplaceAll(text, []byte(`"Desired"`), []byte(`"Desire"`)) }, refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			before := &render.Disk{Dir: dir, Program: "v1"}
			first := &counting{}
			cached(t, snap, first, opened(t, before, "schema", snap, first))
			save(t, before)
			if c.change != nil {
				rewrite(t, dir, c.change)
			}
			k, err := render.ReadKarpenter(snap, "clusters/a")
			if err != nil {
				t.Fatal(err)
			}
			cache, validator := &render.Cache{}, &counting{}
			err = (&render.Disk{Dir: dir, Program: c.program}).Open("plumbline-system/a", cache, k, c.schema, validator, nil)
			if (err != nil) != c.refused {
				t.Errorf("error %v, want one: %t", err, c.refused)
			}
			cached(t, snap, validator, cache)
			slices.Sort(first.validated)
			slices.Sort(validator.validated)
			if diff := cmp.Diff(first.validated, validator.validated); diff != "" {
				t.Errorf("validated (-at first +now):\n%s", diff)
			}
		})
	}
}

// rewrite changes the one file of a folder.
func rewrite(t *testing.T, dir string, change func([]byte) []byte) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v; want one file", files, err)
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(files[0], change(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestWhatIsKeptIsWrittenOnce, and its file goes a week after the Cache.
func TestWhatIsKeptIsWrittenOnce(t *testing.T) {
	snap, _ := withIdentities(fleet())
	dir, validator := t.TempDir(), &counting{}
	disk := &render.Disk{Dir: dir, Program: "v1"}
	cache := opened(t, disk, "schema", snap, validator)
	cached(t, snap, validator, cache)
	save(t, disk)
	rewrite(t, dir, func([]byte) []byte { return []byte("kept") })
	save(t, disk)
	rewrite(t, dir, func(text []byte) []byte {
		if string(text) != "kept" {
			t.Errorf("it was written again: %s", text)
		}
		return text
	})
	left := func(age time.Duration) int {
		t.Helper()
		rewrite(t, dir, func(text []byte) []byte { return text })
		old := time.Now().Add(-age)
		files, _ := filepath.Glob(filepath.Join(dir, "*"))
		if err := os.Chtimes(files[0], old, old); err != nil {
			t.Fatal(err)
		}
		save(t, disk)
		files, _ = filepath.Glob(filepath.Join(dir, "*"))
		return len(files)
	}
	if left(30*24*time.Hour) != 1 {
		t.Error("the file of a Cache in use is removed")
	}
	runtime.KeepAlive(cache) // and no longer
	runtime.GC()
	if left(time.Hour) != 1 {
		t.Error("the file of a Cache that was in use an hour ago is removed")
	}
	if left(8*24*time.Hour) != 0 {
		t.Error("the file of a Cache that nobody uses is left")
	}
}

func save(t *testing.T, disk *render.Disk) {
	t.Helper()
	if err := disk.Save(); err != nil {
		t.Fatal(err)
	}
}

// TestTooMuchIsNotKept: a commit cannot fill the folder that Git's stores and charts are in, and what
// was kept before it stays.
func TestTooMuchIsNotKept(t *testing.T) {
	dir, validator, files := t.TempDir(), &counting{}, fleet()
	disk := &render.Disk{Dir: dir, Program: "v1", MaxBytes: 20_000}
	snap, _ := withIdentities(maps.Clone(files))
	cache := opened(t, disk, "schema", snap, validator)
	cached(t, snap, validator, cache)
	save(t, disk)
	for i := range 40 {
		name := fmt.Sprintf("large-%d", i)
		files["clusters/a/own/"+name+".yaml"] = pool(name)
	}
	snap, _ = withIdentities(files)
	cached(t, snap, validator, cache)
	save(t, disk)
	rewrite(t, dir, func(text []byte) []byte {
		if len(text) > 20_000 || bytes.Contains(text, []byte("large-")) || !bytes.HasSuffix(text, []byte("end\n")) {
			t.Errorf("%d bytes are kept: %s", len(text), text)
		}
		return text
	})
	runtime.KeepAlive(cache)
}
