package reconcile

import (
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/plumbline-dev/plumbline/render/schema"
)

// schemas keeps the compiled schemas in use, by the identity of their CRDs:
// compiling one takes longer than a whole pass.
type schemas struct {
	mu sync.Mutex
	of map[string]*schema.Validator
}

// maxSchemas bounds how many are kept. A daemon sees two at a time, during an
// upgrade.
const maxSchemas = 4

// get returns the schema of an identity, compiled from the CRDs the first time.
func (s *schemas) get(identity string, crds func() ([]*apiextensionsv1.CustomResourceDefinition, error)) (*schema.Validator, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known, ok := s.of[identity]; ok {
		return known, nil
	}
	definitions, err := crds()
	if err != nil {
		return nil, err
	}
	compiled, err := schema.New(definitions)
	if err != nil {
		return nil, err
	}
	if s.of == nil || len(s.of) >= maxSchemas {
		s.of = map[string]*schema.Validator{}
	}
	s.of[identity] = compiled
	return compiled, nil
}
