package schema

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"sync"

	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// shapes are the sets of fields of objects, by what the sets hang on. A fleet has
// thousands of objects of a few shapes. The zero value is empty.
type shapes struct {
	mu sync.Mutex
	of map[string]*fieldpath.Set
}

// mostShapes bounds how many are kept; beyond it all are dropped.
const mostShapes = 256

// get returns the set of a shape, made the first time. It is read only.
func (s *shapes) get(shape string, build func() (*fieldpath.Set, error)) (*fieldpath.Set, error) {
	s.mu.Lock()
	known, ok := s.of[shape]
	s.mu.Unlock()
	if ok {
		return known, nil
	}
	made, err := build()
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of == nil || len(s.of) >= mostShapes {
		s.of = map[string]*fieldpath.Set{}
	}
	s.of[shape] = made
	return made, nil
}

// appendShape appends what the set of fields of a value hangs on: the keys of maps, the
// types of all else, and of lists whose items are fields of their own, sets and maps, what
// is in them. Of a list of which nothing is known it is taken to be such a one.
func appendShape(shape []byte, value any, s *structural.Structural) []byte {
	switch value := value.(type) {
	case map[string]any:
		shape = append(shape, '{')
		for _, key := range slices.Sorted(maps.Keys(value)) {
			shape = strconv.AppendQuote(shape, key)
			shape = appendShape(shape, value[key], below(s, key))
		}
		return append(shape, '}')
	case []any:
		return appendList(shape, value, s)
	case string:
		return append(shape, 's')
	case bool:
		return append(shape, 'b')
	case int64:
		return append(shape, 'i')
	default:
		return appendJSON(shape, value)
	}
}

func appendList(shape []byte, list []any, s *structural.Structural) []byte {
	if s == nil || s.XListType != nil && *s.XListType != "atomic" {
		return appendJSON(shape, list)
	}
	shape = append(shape, '[')
	last := len(shape)
	for i, item := range list {
		now := len(shape)
		shape = appendShape(shape, item, s.Items)
		if i > 0 && string(shape[last:now]) == string(shape[now:]) {
			shape = shape[:now] // as the item before
		} else {
			last = now
		}
	}
	return append(shape, ']')
}

// appendJSON appends a value as it is.
func appendJSON(shape []byte, value any) []byte {
	text, err := json.Marshal(value)
	if err != nil {
		return append(shape, '?') // what came out of JSON always is JSON
	}
	return append(shape, text...)
}

// below is the schema of a field; nil where it has none.
func below(s *structural.Structural, key string) *structural.Structural {
	if s == nil {
		return nil
	}
	if property, ok := s.Properties[key]; ok {
		return &property
	}
	if s.AdditionalProperties != nil {
		return s.AdditionalProperties.Structural
	}
	return nil
}
