package render_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/render"
)

// drawn changes some files of a fleet: definitions are added, changed, moved to another file or removed, one or several
// in a file.
func drawn(random *rand.Rand, files map[string]string) {
	for range 1 + random.IntN(3) {
		file := fmt.Sprintf("clusters/a/own/%c/pool-%d.yaml", 'a'+rune(random.IntN(3)), random.IntN(6))
		if random.IntN(3) == 0 {
			delete(files, file)
			continue
		}
		var documents []string
		for i := range 1 + random.IntN(3) {
			name := fmt.Sprintf("p-%d-%s-%d", random.IntN(3), strings.ReplaceAll(file[len("clusters/a/own/"):len(file)-len(".yaml")], "/", "-"), i)
			documents = append(documents, fmt.Sprintf("%s  weight: %d\n", pool(name), 1+random.IntN(4)))
		}
		files[file] = strings.Join(documents, "---\n")
	}
}

// TestAChangedSetIsAWholeOne: after any commits, a Set that is derived from the last one equals one that is rendered
// from scratch, order and inputs included, whether or not the file system knows identities. Unchanged objects are
// shared, by which plans recognise them.
func TestAChangedSetIsAWholeOne(t *testing.T) {
	for seed := range uint64(40) {
		random := rand.New(rand.NewPCG(seed, 7))
		files, validator := fleet(), &counting{}
		known, plain := &render.Cache{}, &render.Cache{}
		var last *render.Set
		for range 6 {
			drawn(random, files)
			snap, _ := withIdentities(maps.Clone(files))
			got := cached(t, snap, validator, known)
			if diff := cmp.Diff(cached(t, snap, validator, &render.Cache{}), got); diff != "" {
				t.Fatalf("seed %d: another Set than from nothing (-nothing +changed):\n%s", seed, diff)
			}
			if diff := cmp.Diff(cached(t, folder(maps.Clone(files)), validator, plain).Objects, got.Objects); diff != "" {
				t.Fatalf("seed %d: another Set without identities (-without +with):\n%s", seed, diff)
			}
			if last != nil {
				shared(t, last, got)
			}
			last = got
		}
	}
}

// shared checks that objects which are equal in two Sets, and from one file, are the same.
func shared(t *testing.T, last, now *render.Set) {
	t.Helper()
	for _, object := range now.Objects {
		i := slices.IndexFunc(last.Objects, func(o render.Object) bool { return o.Ref == object.Ref && o.Origin == object.Origin })
		if i < 0 || !cmp.Equal(last.Objects[i].Desired, object.Desired) {
			continue
		}
		if last.Objects[i].Defaulted != object.Defaulted {
			t.Errorf("%s has not changed, and is another object", object.Ref)
		}
	}
}
