package schema

import (
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// Cache keeps the compiled schemas in use, by the identity of their CRDs:
// compiling one takes longer than a whole pass. The zero value is empty.
type Cache struct {
	mu sync.Mutex
	of map[string]*compiled
}

// compiled is the schema of one identity. Who compiles it holds up nobody who wants
// another: a chart can take its time.
type compiled struct {
	mu        sync.Mutex
	validator *Validator
}

// maxSchemas bounds how many are kept. A daemon sees two at a time, during an
// upgrade.
const maxSchemas = 4

// Get returns the schema of an identity, compiled from the CRDs the first time.
func (s *Cache) Get(identity string, crds func() ([]*apiextensionsv1.CustomResourceDefinition, error)) (*Validator, error) {
	c := s.entry(identity)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.validator != nil {
		return c.validator, nil
	}
	definitions, err := crds()
	if err != nil {
		return nil, err
	}
	c.validator, err = New(definitions)
	return c.validator, err
}

func (s *Cache) entry(identity string) *compiled {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known, ok := s.of[identity]; ok {
		return known
	}
	if s.of == nil || len(s.of) >= maxSchemas {
		s.of = map[string]*compiled{}
	}
	c := &compiled{}
	s.of[identity] = c
	return c
}
