package render

import (
	"maps"
	"reflect"
	"unique"
)

// more is what a map has more than another one: the entries that it adds, and those that are another
// value, of maps in both the same. only is false where it lacks an entry.
func more(than, of map[string]any) (added map[string]any, only bool) {
	for key := range than {
		if _, has := of[key]; !has {
			return nil, false
		}
	}
	for key, value := range of {
		was, had := than[key]
		inner, isMap := value.(map[string]any)
		before, wasMap := was.(map[string]any)
		switch {
		case isMap && wasMap:
			below, only := more(before, inner)
			if !only {
				return nil, false
			}
			if below == nil {
				continue
			}
			value = below
		case had && reflect.DeepEqual(was, value):
			continue
		}
		if added == nil {
			added = map[string]any{}
		}
		added[key] = value
	}
	return added, true
}

// with is a map with more in it. It shares with the map what that does not change.
func (v *Values) with(was, added map[string]any) map[string]any {
	if len(added) == 0 {
		return was
	}
	made := maps.Clone(was)
	for key, value := range added {
		inner, isMap := value.(map[string]any)
		before, wasMap := was[key].(map[string]any)
		if isMap && wasMap {
			made[unique.Make(key).Value()] = v.with(before, inner)
		} else {
			made[unique.Make(key).Value()] = v.Once(value)
		}
	}
	return made
}
