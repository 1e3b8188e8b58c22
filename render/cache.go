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
	variables string
	kept      map[source]kept
	listings  map[string]listing
	failed    failures
}

// kept is what came of a source, with everything it was made from.
type kept struct {
	inputs   Inputs
	objects  []keptObject
	warnings []string
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

// open returns what was kept: of the sources nothing, if the variables or the
// validator are others than last time.
func (c *Cache) open(variables map[string]string, validator Validator) (map[source]kept, map[string]listing) {
	if c == nil {
		return nil, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.validator != validator || c.variables != fingerprint(variables) {
		return nil, c.listings
	}
	return c.kept, c.listings
}

// close keeps a render's work for the next one.
func (c *Cache) close(variables map[string]string, validator Validator, sources map[source]kept, listings map[string]listing) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.validator, c.variables, c.kept, c.listings = validator, fingerprint(variables), sources, listings
}

func fingerprint(variables map[string]string) string {
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		fmt.Fprintf(&text, "%q=%q ", name, variables[name])
	}
	return text.String()
}
