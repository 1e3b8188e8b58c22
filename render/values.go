package render

import (
	"maps"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unique"
)

// Values hold once what many objects have: the same requirement stands in hundreds
// of NodePools, and a definition in Git and in the cluster. What they hand out is shared,
// and read only. The zero value is ready, and nil shares nothing but keys.
type Values struct {
	mu    sync.Mutex
	held  map[string]any
	named named
}

const (
	// longestHeld is how long the text of a value is at most that is held once.
	// Longer ones have a name in them, as a rule.
	longestHeld = 256
	// mostHeld bounds what is held, whether it is used any more or not: then all of
	// it is released, and what is shared already stays so.
	mostHeld = 4096
	// few is how many parts a value has, as a rule: a walk keeps so many without memory of the
	// heap, as most of what it walks is known.
	few = 16
)

// Once returns a value of JSON that equals the given one and takes the least
// memory: parts that were seen before are held once, and so are all keys.
func (v *Values) Once(value any) any {
	made, _, _ := v.once(value, models{}, make([]byte, 0, 2*longestHeld))
	return made
}

// models are values whose parts are taken where a value has the same in the same place.
type models [2]any

// matches says which of some models equal a value, a bit for each.
type matches uint

// once appends a text to text, too, that no other value has, about as long as its JSON: at least so
// much of it that it is too long to be held where it is.
func (v *Values) once(value any, like models, text []byte) (made any, _ []byte, equal matches) {
	switch was := value.(type) {
	case map[string]any:
		return v.object(was, like, text)
	case []any:
		return v.list(was, like, text)
	case string:
		text = appendText(text, was)
	case int64:
		text = strconv.AppendInt(text, was, 10)
	case bool:
		text = strconv.AppendBool(text, was)
	default:
		// Fractions and nulls are too rare to have a text that no other value has.
		return value, append(text, tooLong...), 0
	}
	for i := range like {
		if like[i] == value {
			value, equal = like[i], equal|1<<i
		}
	}
	return value, text, equal
}

// appendText appends a string behind its length: nothing that follows is taken for a part of it.
// Of one that is too long to be held no more is kept than says so.
func appendText(text []byte, s string) []byte {
	s = s[:min(len(s), longestHeld)]
	return append(append(text, '"', byte(min(len(s), math.MaxUint8))), s...)
}

// tooLong is a text with which nothing is held.
var tooLong = strings.Repeat(" ", longestHeld+1)

func (v *Values) object(was map[string]any, like models, text []byte) (made any, _ []byte, equal matches) {
	var of [len(models{})]map[string]any
	for i := range like {
		of[i], _ = like[i].(map[string]any)
		if of[i] != nil && len(of[i]) == len(was) {
			equal |= 1 << i
		}
	}
	var names [few]string
	keys := slices.AppendSeq(names[:0], maps.Keys(was))
	slices.Sort(keys)
	var parts [few]any
	fields, all := parts[:0], written{text, len(text)}
	all.append('{')
	for _, key := range keys {
		var below models
		for i := range of {
			below[i] = of[i][key]
		}
		all.text = appendText(all.text, key)
		var same matches
		var field any
		field, all.text, same = v.once(was[key], below, all.text)
		fields, equal = append(fields, field), equal&same
		all.append(',')
	}
	all.append('}')
	if equal != 0 {
		return equal.first(like), all.text, equal
	}
	if known, found := v.known(all.own()); found {
		return known, all.text, 0
	}
	object := make(map[string]any, len(keys))
	for n, key := range keys {
		object[unique.Make(key).Value()] = fields[n]
	}
	return v.hold(all.own(), object), all.text, 0
}

func (v *Values) list(was []any, like models, text []byte) (made any, _ []byte, equal matches) {
	var of [len(models{})][]any
	for i := range like {
		of[i], _ = like[i].([]any)
		if of[i] != nil && len(of[i]) == len(was) {
			equal |= 1 << i
		}
	}
	var parts [few]any
	items, all := parts[:0], written{text, len(text)}
	all.append('[')
	for n := range was {
		var below models
		for i := range of {
			if n < len(of[i]) {
				below[i] = of[i][n]
			}
		}
		var same matches
		var item any
		item, all.text, same = v.once(was[n], below, all.text)
		items, equal = append(items, item), equal&same
		all.append(',')
	}
	all.append(']')
	if equal != 0 {
		return equal.first(like), all.text, equal
	}
	if known, found := v.known(all.own()); found {
		return known, all.text, 0
	}
	return v.hold(all.own(), append(make([]any, 0, len(items)), items...)), all.text, 0
}

// written is the text of a value behind that of what it is part of.
type written struct {
	text []byte
	from int
}

func (w *written) own() []byte { return w.text[w.from:] }

// append appends a character. Of a text that is too long to be held no more is kept than says so.
func (w *written) append(mark byte) {
	w.text = append(w.text, mark)
	w.text = w.text[:min(len(w.text), w.from+len(tooLong))]
}

// first is the first of the models that are equal.
func (m matches) first(like models) any { return like[bits.TrailingZeros(uint(m))] }

// known returns the value of a text, where one is held.
func (v *Values) known(text []byte) (value any, found bool) {
	if v == nil || len(text) > longestHeld {
		return nil, false
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	value, found = v.held[string(text)] // without a copy
	return value, found
}

// hold holds a value of a text, and returns it, or the one that another goroutine has held by now.
func (v *Values) hold(text []byte, value any) any {
	if v == nil || len(text) > longestHeld {
		return value
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if known, ok := v.held[string(text)]; ok {
		return known
	}
	if v.held == nil || len(v.held) >= mostHeld {
		v.held = map[string]any{}
	}
	v.held[string(text)] = value
	return value
}
