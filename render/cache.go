package render

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// Cache keeps what the sources of one path rendered to, so that a source whose
// inputs have not changed is neither parsed nor validated again. It holds no
// more than the last render has made. The zero value is ready; one Cache is for
// one NodeSync.
type Cache struct {
	mu        sync.Mutex
	validator Validator
	variables string
	kept      map[source]kept
}

// kept is what came of a source, with everything it was made from.
type kept struct {
	inputs  Inputs
	objects []Object
}

// open returns what was kept for these variables and this validator, which is
// nothing if either is another one than last time.
func (c *Cache) open(variables map[string]string, validator Validator) map[source]kept {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.validator != validator || c.variables != fingerprint(variables) {
		return nil
	}
	return c.kept
}

// close keeps a render's work for the next one.
func (c *Cache) close(variables map[string]string, validator Validator, now map[source]kept) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.validator, c.variables, c.kept = validator, fingerprint(variables), now
}

func fingerprint(variables map[string]string) string {
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		fmt.Fprintf(&text, "%q=%q ", name, variables[name])
	}
	return text.String()
}

// copies returns the objects for a new Set: none shares a map with the Cache.
func copies(objects []Object) []Object {
	fresh := slices.Clone(objects)
	for i := range fresh {
		fresh[i].Desired = fresh[i].Desired.DeepCopy()
		fresh[i].Defaulted = fresh[i].Defaulted.DeepCopy()
	}
	return fresh
}
