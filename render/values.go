package render

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unique"
)

// Values hold once what many objects have: the same requirement stands in hundreds
// of NodePools, in Git and in the cluster. What they hand out is shared, and read
// only. The zero value is ready, and nil shares nothing but keys.
type Values struct {
	mu   sync.Mutex
	held map[string]any
}

const (
	// longestHeld is how long the JSON of a value is at most that is held once.
	// Longer ones have a name in them, as a rule.
	longestHeld = 256
	// mostHeld bounds what is held, whether it is used any more or not: then all of
	// it is let go, and what is shared already stays so.
	mostHeld = 4096
)

// Once returns a value of JSON that equals the given one and takes the least
// memory: parts that were seen before are held once, and so are all keys.
func (v *Values) Once(value any) any {
	made, _ := v.once(value)
	return made
}

// once returns the JSON of a value, too, where it is short enough to be held.
func (v *Values) once(value any) (made any, text string) {
	switch was := value.(type) {
	case map[string]any:
		return v.object(was)
	case []any:
		return v.list(was)
	case string:
		return was, strconv.Quote(was[:min(len(was), longestHeld)])
	case int64:
		return was, strconv.FormatInt(was, 10)
	case bool:
		return was, strconv.FormatBool(was)
	}
	// Fractions and nulls are too rare to have a text that no other value has.
	return value, strings.Repeat(" ", longestHeld)
}

func (v *Values) object(was map[string]any) (made any, text string) {
	fields := make(map[string]any, len(was))
	var all strings.Builder
	all.WriteByte('{')
	for _, key := range slices.Sorted(maps.Keys(was)) {
		field, text := v.once(was[key])
		fields[unique.Make(key).Value()] = field
		all.WriteString(strconv.Quote(key) + ":" + text + ",")
	}
	all.WriteByte('}')
	return v.hold(all.String(), fields), all.String()
}

func (v *Values) list(was []any) (made any, text string) {
	items := make([]any, len(was))
	var all strings.Builder
	all.WriteByte('[')
	for i := range was {
		item, text := v.once(was[i])
		items[i] = item
		all.WriteString(text + ",")
	}
	all.WriteByte(']')
	return v.hold(all.String(), items), all.String()
}

// hold returns the value of a text that is held, which from now on is this one
// where there was none.
func (v *Values) hold(text string, value any) any {
	if v == nil || len(text) > longestHeld {
		return value
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if known, ok := v.held[text]; ok {
		return known
	}
	if v.held == nil || len(v.held) >= mostHeld {
		v.held = map[string]any{}
	}
	v.held[text] = value
	return value
}
