package render

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// Cache keeps what the sources of one path rendered to, so that a source whose
// inputs have not changed is neither parsed nor validated again, nor an object
// that has not changed in a source that has. It holds no more than the last
// render has made, and shares that with its Set. The zero value is ready; one
// Cache is for one NodeSync.
type Cache struct {
	mu        sync.Mutex
	validator Validator
	// karpenter stands for what of plumbline.yaml objects hang on.
	karpenter string
	kept      map[source]kept
	listings  map[string]listing
	failed    failures
	// last is the last Set, where the next may be made of it and what differs.
	last *rendition
	// changes counts how often what is kept has changed.
	changes int
}

// kept is what came of a source, with everything it was made from.
type kept struct {
	remarks

	inputs  Inputs
	objects []keptObject
}

// keptObject is an object with what it was made of.
type keptObject struct {
	Object

	content content
}

// content stands for what a draft holds. The zero value stands for nothing.
type content [sha256.Size]byte

// content is equal for two drafts that become the same object.
func (d draft) content() content {
	text, err := json.Marshal(d.value)
	if err != nil {
		return content{}
	}
	return sha256.Sum256(text)
}

// byContent are the objects by what they were made of.
func (k kept) byContent() map[content]Object {
	objects := make(map[content]Object, len(k.objects))
	for _, known := range k.objects {
		if known.content != (content{}) {
			objects[known.content] = known.Object
		}
	}
	return objects
}

// open returns what was kept: of the sources nothing, if what plumbline.yaml says of
// objects or the validator are others than last time.
func (c *Cache) open(karpenter string, validator Validator) (map[source]kept, map[string]listing) {
	if c == nil {
		return nil, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.validator != validator || c.karpenter != karpenter {
		return nil, c.listings
	}
	return c.kept, c.listings
}

// close keeps a render's work for the next one. same says that its sources are all of them as they were.
func (c *Cache) close(karpenter string, validator Validator, sources map[source]kept, listings map[string]listing, same bool) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !same {
		c.changes++
	}
	c.validator, c.karpenter, c.kept, c.listings, c.last = validator, karpenter, sources, listings, nil
}

// keep keeps the Set that a render has come to, with those of its sources that it has taken
// again.
func (c *Cache) keep(last *rendition, again map[source]kept) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.Copy(c.kept, again)
	c.last = last
	if len(again) > 0 {
		c.changes++
	}
}

// restore takes what an earlier process kept, and returns the changes that it is of.
func (c *Cache) restore(karpenter string, validator Validator, sources map[source]kept) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.kept == nil {
		c.validator, c.karpenter, c.kept = validator, karpenter, sources
		return c.changes
	}
	return -1 // it has more of its own
}

// known returns what is kept for a validator, and the changes that it is of.
func (c *Cache) known(validator Validator) (karpenter string, sources map[source]kept, changes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.validator != validator {
		return "", nil, 0
	}
	return c.karpenter, maps.Clone(c.kept), c.changes
}

// lastOf is the last Set of a path, where what was kept of it may be used.
func (c *Cache) lastOf(path wanted, known map[source]kept) *rendition {
	if c == nil || known == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last == nil || !c.last.of.equal(path) {
		return nil
	}
	return c.last
}

// Unchanged says whether what a Set was made of is in a Snapshot as it was. Of the last Set that
// was rendered only what differs since is looked at.
func (c *Cache) Unchanged(set *Set, snap Snapshot) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	in, last, moves := set.Inputs, c.last, false
	if last != nil && last.made(set) {
		if difference, known := snap.differs(last.files); known {
			in = difference.Among(in, last.linked)
			moves = len(difference.Below) == 0
		}
	}
	unchanged, err := in.Unchanged(snap)
	if unchanged && err == nil && moves {
		last.files = untimed(snap.FS)
	}
	return unchanged, err
}

// fingerprint is equal where objects come to the same by what plumbline.yaml says.
func (k *Karpenter) fingerprint() string {
	variables := k.variables()
	var text strings.Builder
	fmt.Fprintf(&text, "%q ", k.IgnoreKinds)
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		fmt.Fprintf(&text, "%q=%q ", name, variables[name])
	}
	return text.String()
}
