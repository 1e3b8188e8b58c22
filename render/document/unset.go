package document

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Unset takes one field out of the one document of a YAML text, with the maps that have nothing else,
// and leaves every other byte as it is. The field is named by its keys from the top; one that is not
// there is none. An *Error says where the text is of a form that this cannot be done in.
func Unset(data []byte, keys ...string) ([]byte, error) {
	root, before, err := only(data)
	if err != nil {
		return nil, err
	}
	found := way(root, keys)
	if found == nil {
		return data, nil
	}
	last := len(found) - 1
	for last > 0 && len(found[last].in.Content) == 2 {
		last-- // nothing else is in this map
	}
	edited, ok := found[last].cut(data)
	if ok {
		var after map[string]any
		_, after, err = only(edited)
		ok = err == nil && reflect.DeepEqual(after, less(before, keys[:last+1]))
	}
	if !ok {
		return nil, &Error{Line: found[last].key.Line, Message: fmt.Sprintf("%s cannot be taken out of a text of this form: take it out by hand", strings.Join(keys, "."))}
	}
	return edited, nil
}

// member is a key of a map, and what it has.
type member struct{ in, key, value *yaml.Node }

// way are the members by which a field is reached; nil where it is not there.
func way(node *yaml.Node, keys []string) (found []member) {
	for _, key := range keys {
		next := member{}
		for i := 0; node.Kind == yaml.MappingNode && i+1 < len(node.Content); i += 2 {
			if node.Content[i].Value == key {
				next = member{node, node.Content[i], node.Content[i+1]}
			}
		}
		if next.key == nil {
			return nil
		}
		found, node = append(found, next), next.value
	}
	return found
}

// less is a map without a field.
func less(fields map[string]any, keys []string) map[string]any {
	if inner, ok := fields[keys[0]].(map[string]any); ok && len(keys) > 1 {
		fields[keys[0]] = less(inner, keys[1:])
	} else {
		delete(fields, keys[0])
	}
	return fields
}

// cut takes a member out of a text: of braces with its comma, else with its lines.
func (m member) cut(data []byte) ([]byte, bool) {
	from, _, ok := place(data, m.key, "")
	to, ends := end(data, m.value)
	if !ok || !ends {
		return nil, false
	}
	if m.in.Style&yaml.FlowStyle == 0 {
		from -= len(data[:from]) - 1 - bytes.LastIndexByte(data[:from], '\n')
		if line := bytes.IndexByte(data[to:], '\n'); line >= 0 {
			to += line + 1
		} else {
			to = len(data)
		}
		return bytes.Join([][]byte{data[:from], data[to:]}, nil), true
	}
	after := bytes.TrimLeft(data[to:], " ")
	before := bytes.TrimRight(data[:from], " ")
	switch {
	case bytes.HasPrefix(after, []byte(",")):
		return bytes.Join([][]byte{data[:from], bytes.TrimLeft(after[1:], " ")}, nil), true
	case bytes.HasSuffix(before, []byte(",")):
		return bytes.Join([][]byte{before[:len(before)-1], data[to:]}, nil), true
	}
	return bytes.Join([][]byte{data[:from], data[to:]}, nil), true
}

// end is where the text of a value ends: one on one line, or a map of such.
func end(data []byte, node *yaml.Node) (at int, ok bool) {
	if node.Kind == yaml.MappingNode && len(node.Content) > 0 {
		at, ok = end(data, node.Content[len(node.Content)-1])
		if !ok || node.Style&yaml.FlowStyle == 0 {
			return at, ok
		}
		rest := bytes.TrimLeft(data[at:], " \r\n")
		return len(data) - len(rest) + 1, bytes.HasPrefix(rest, []byte("}"))
	}
	text, _, ok := written(node)
	if !ok {
		return 0, false
	}
	_, at, ok = place(data, node, text)
	return at, ok
}
