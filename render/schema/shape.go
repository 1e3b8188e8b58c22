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
func (s *shapes) get(shape []byte, build func() (*fieldpath.Set, error)) (*fieldpath.Set, error) {
	s.mu.Lock()
	known, ok := s.of[string(shape)] // without a copy
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
	s.of[string(shape)] = made
	return made, nil
}

// layout is what the set of fields hangs on in a schema, at one place: nil where nothing is known.
type layout struct {
	fields map[string]*layout
	// each is that of the items of a list, or of the fields of a map with any keys.
	each *layout
	// atomic says that no item of a list there is a field of its own.
	atomic bool
}

func newLayout(s *structural.Structural) *layout {
	if s == nil {
		return nil
	}
	l := &layout{fields: make(map[string]*layout, len(s.Properties)), each: newLayout(s.Items), atomic: s.XListType == nil || *s.XListType == "atomic"}
	for name, property := range s.Properties {
		l.fields[name] = newLayout(&property)
	}
	if s.AdditionalProperties != nil {
		l.each = newLayout(s.AdditionalProperties.Structural)
	}
	return l
}

// appendShape appends what the set of fields of a value hangs on: the keys of maps, the
// types of all else, and of lists whose items are fields of their own, sets and maps, what
// is in them. Of a list of which nothing is known it is taken to be such a one.
func (l *layout) appendShape(shape []byte, value any) []byte {
	switch value := value.(type) {
	case map[string]any:
		shape = append(shape, '{')
		keys := slices.AppendSeq(make([]string, 0, len(value)), maps.Keys(value))
		slices.Sort(keys)
		for _, key := range keys {
			shape = strconv.AppendQuote(shape, key)
			shape = l.below(key).appendShape(shape, value[key])
		}
		return append(shape, '}')
	case []any:
		return l.appendList(shape, value)
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

func (l *layout) appendList(shape []byte, list []any) []byte {
	if l == nil || !l.atomic {
		return appendJSON(shape, list)
	}
	shape = append(shape, '[')
	last := len(shape)
	for i, item := range list {
		now := len(shape)
		shape = l.each.appendShape(shape, item)
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

// below is the layout of a field; nil where it has none.
func (l *layout) below(key string) *layout {
	if l == nil {
		return nil
	}
	if field, ok := l.fields[key]; ok {
		return field
	}
	return l.each
}
