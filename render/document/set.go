package document

import (
	"bytes"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Set sets one field of the one document of a YAML text to a string or a bool, and
// leaves every other byte as it is. The field is named by its keys from the top. An *Error says where the text is of a form that this cannot be done in.
func Set[V string | bool](data []byte, value V, keys ...string) ([]byte, error) {
	root, before, err := only(data)
	if err != nil {
		return nil, err
	}
	e := edit{data: data, path: strings.Join(keys, "."), value: fmt.Sprint(value), yaml: fmt.Sprint(value)}
	if text, ok := any(value).(string); ok {
		e.yaml = plain(text)
	}
	edited, err := e.field(root, keys)
	if err != nil {
		return nil, err
	}
	// Whatever the text was like: nothing but the field may have changed.
	_, after, err := only(edited)
	if err != nil || !reflect.DeepEqual(after, with(before, value, keys)) {
		return nil, &Error{Line: root.Line, Message: fmt.Sprintf("%s cannot be set in a text of this form: set it by hand to %s", e.path, e.yaml)}
	}
	return edited, nil
}

// only is the one document of a text, which has to be a map.
func only(data []byte) (*yaml.Node, map[string]any, error) {
	documents, err := Parse(data)
	if err != nil {
		return nil, nil, err
	}
	if len(documents) != 1 {
		return nil, nil, &Error{Message: fmt.Sprintf("it holds %d documents, and has to hold one", len(documents))}
	}
	value, ok := documents[0].Value.(map[string]any)
	if !ok {
		return nil, nil, &Error{Line: documents[0].Line, Message: "it is not a map"}
	}
	return documents[0].node, value, nil
}

// with returns a map with a field set.
func with(fields map[string]any, value any, keys []string) map[string]any {
	if len(keys) == 1 {
		fields[keys[0]] = value
		return fields
	}
	inner, _ := fields[keys[0]].(map[string]any)
	if inner == nil {
		inner = map[string]any{}
	}
	fields[keys[0]] = with(inner, value, keys[1:])
	return fields
}

// edit is one change of a text.
type edit struct {
	data []byte
	path string
	// value is the bare text, for where a field has quotes already; yaml is as a new
	// field has it.
	value, yaml string
}

// field replaces what a map has under keys, or adds it.
func (e edit) field(node *yaml.Node, keys []string) ([]byte, error) {
	if node.Kind != yaml.MappingNode {
		return nil, &Error{Line: node.Line, Message: fmt.Sprintf("what %s stands in is not a map", keys[0])}
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		if node.Content[i].Value != keys[0] {
			continue
		}
		if len(keys) > 1 {
			return e.field(node.Content[i+1], keys[1:])
		}
		return Replace(e.data, e.path, e.value)
	}
	if node.Style&yaml.FlowStyle != 0 {
		return e.addInline(node, keys)
	}
	return e.addLine(node, keys)
}

// addInline adds to a map in braces.
func (e edit) addInline(node *yaml.Node, keys []string) ([]byte, error) {
	text := keys[len(keys)-1] + ": " + e.yaml
	for i := len(keys) - 2; i >= 0; i-- {
		text = keys[i] + ": {" + text + "}"
	}
	if len(node.Content) > 0 {
		text += ", "
	}
	_, at, ok := place(e.data, node, "{")
	if !ok {
		return nil, e.noPlace(node)
	}
	return e.insert(at, text), nil
}

// addLine adds to a map of lines, after the last of its fields that is one line
// for sure.
func (e edit) addLine(node *yaml.Node, keys []string) ([]byte, error) {
	var before *yaml.Node
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		if value.Kind == yaml.ScalarNode && value.Line == key.Line && value.Style&(yaml.LiteralStyle|yaml.FoldedStyle) == 0 {
			before = key
		}
	}
	if before == nil {
		return nil, e.noPlace(node)
	}
	start, _, ok := place(e.data, before, "")
	if !ok {
		return nil, e.noPlace(node)
	}
	indent, newline := strings.Repeat(" ", before.Column-1), "\n"
	at := len(e.data)
	text := ""
	if end := bytes.IndexByte(e.data[start:], '\n'); end >= 0 {
		at = start + end + 1
		if bytes.HasSuffix(e.data[:at], []byte("\r\n")) {
			newline = "\r\n"
		}
	} else {
		text = newline
	}
	for depth, key := range keys {
		text += indent + strings.Repeat("  ", depth) + key + ":"
		if depth < len(keys)-1 {
			text += newline
		}
	}
	return e.insert(at, text+" "+e.yaml+newline), nil
}

func (e edit) insert(at int, text string) []byte {
	return bytes.Join([][]byte{e.data[:at], []byte(text), e.data[at:]}, nil)
}

func (e edit) noPlace(node *yaml.Node) *Error {
	return &Error{Line: node.Line, Message: fmt.Sprintf("there is no place for %s: add it by hand: %s", e.path, e.value)}
}

// plain is a text as YAML, without quotes where it needs none.
func plain(text string) string {
	var read any
	if err := yaml.Unmarshal([]byte("["+text+"]"), &read); err == nil && reflect.DeepEqual(read, []any{text}) {
		return text
	}
	return strconv.Quote(text)
}
