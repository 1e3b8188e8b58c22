package document

import (
	"bytes"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Set sets one field in a YAML text with one document to a string or a bool, and changes no other byte. keys lead to
// the field from the top; an item of a list has its index. It returns an *Error if the form of the text does not allow it.
func Set[V string | bool](data []byte, value V, keys ...string) ([]byte, error) {
	root, before, err := only(data)
	if err != nil {
		return nil, err
	}
	e := edit{data: data, path: pathOf(keys), value: fmt.Sprint(value), yaml: fmt.Sprint(value)}
	if text, ok := any(value).(string); ok {
		e.yaml = plain(text)
	}
	edited, err := e.field(root, keys)
	if err != nil {
		return nil, err
	}
	// Verify for any form of text that nothing but the field has changed.
	_, after, err := only(edited)
	if err != nil || !reflect.DeepEqual(after, setField(before, value, keys)) {
		return nil, &Error{Line: root.Line, Message: fmt.Sprintf("%s cannot be set in a text of this form: set it by hand to %s", e.path, e.yaml)}
	}
	return edited, nil
}

// only returns the only document of a text, which must be a map.
func only(data []byte) (*yaml.Node, map[string]any, error) {
	documents, err := Parse(data)
	if err != nil {
		return nil, nil, err
	}
	if len(documents) != 1 {
		return nil, nil, &Error{Message: fmt.Sprintf("it holds %d documents, but must hold one", len(documents))}
	}
	value, ok := documents[0].Value.(map[string]any)
	if !ok {
		return nil, nil, &Error{Line: documents[0].Line, Message: "it is not a map"}
	}
	return documents[0].node, value, nil
}

// setField returns a map with a field set.
func setField(fields map[string]any, value any, keys []string) map[string]any {
	if len(keys) == 1 {
		fields[keys[0]] = value
		return fields
	}
	if item, rest := itemOf(fields, keys); item != nil {
		setField(item, value, rest)
		return fields
	}
	inner, _ := fields[keys[0]].(map[string]any)
	if inner == nil {
		inner = map[string]any{}
	}
	fields[keys[0]] = setField(inner, value, keys[1:])
	return fields
}

// itemOf returns the item of a list that the first two keys lead to, if it is a map, and the keys below it.
func itemOf(fields map[string]any, keys []string) (item map[string]any, rest []string) {
	list, _ := fields[keys[0]].([]any)
	if len(keys) < 3 {
		return nil, nil
	}
	if i, err := strconv.Atoi(keys[1]); err == nil && i >= 0 && i < len(list) {
		item, _ = list[i].(map[string]any)
	}
	return item, keys[2:]
}

// pathOf returns the path of a field, with the indexes of lists in brackets.
func pathOf(keys []string) string {
	path := ""
	for _, key := range keys {
		switch _, err := strconv.Atoi(key); {
		case err == nil && path != "":
			path += "[" + key + "]"
		case path == "":
			path = key
		default:
			path += "." + key
		}
	}
	return path
}

// edit is one change to a text.
type edit struct {
	data []byte
	path string
	// value is the bare text, for a field that already has quotes; yaml is the form for a new field.
	value, yaml string
}

// field replaces the value at keys in a map, or adds it.
func (e edit) field(node *yaml.Node, keys []string) ([]byte, error) {
	if item := itemAt(node, keys[0]); item != nil && len(keys) > 1 {
		return e.field(item, keys[1:])
	}
	if node.Kind != yaml.MappingNode {
		return nil, &Error{Line: node.Line, Message: fmt.Sprintf("the parent of %s is not a map", keys[0])}
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

// itemAt returns an item of a list by its index; nil if there is none.
func itemAt(node *yaml.Node, key string) *yaml.Node {
	i, err := strconv.Atoi(key)
	if err != nil || node.Kind != yaml.SequenceNode || i < 0 || i >= len(node.Content) {
		return nil
	}
	return node.Content[i]
}

// addInline adds the field to a map in braces.
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

// addLine adds the field to a block map, after the last field that is certainly on one line.
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

// plain returns a text as a YAML scalar, without quotes if it needs none.
func plain(text string) string {
	var read any
	if err := yaml.Unmarshal([]byte("["+text+"]"), &read); err == nil && reflect.DeepEqual(read, []any{text}) {
		return text
	}
	return strconv.Quote(text)
}

// Unset removes one field from a YAML text with one document, together with maps that become empty, and changes no
// other byte. keys lead to the field from the top; a field that does not exist is not an error. It returns an *Error if
// the form of the text does not allow it.
func Unset(data []byte, keys ...string) ([]byte, error) {
	root, before, err := only(data)
	if err != nil {
		return nil, err
	}
	found := membersTo(root, keys)
	if found == nil {
		return data, nil
	}
	last := len(found) - 1
	for last > 0 && len(found[last].in.Content) == 2 {
		last-- // this map contains nothing else
	}
	edited, ok := found[last].cut(data)
	if ok {
		var after map[string]any
		_, after, err = only(edited)
		ok = err == nil && reflect.DeepEqual(after, removeField(before, keys[:found[last].depth]))
	}
	if !ok {
		return nil, &Error{
			Line:    found[last].key.Line,
			Message: fmt.Sprintf("%s cannot be removed from a text of this form: remove it by hand", pathOf(keys)),
		}
	}
	return edited, nil
}

// member is an entry of a map, depth keys below the top.
type member struct {
	in, key, value *yaml.Node
	depth          int
}

// membersTo returns the members that lead to a field; nil if it does not exist.
func membersTo(node *yaml.Node, keys []string) (found []member) {
	for depth, key := range keys {
		if item := itemAt(node, key); item != nil {
			node = item
			continue
		}
		next := member{}
		for i := 0; node.Kind == yaml.MappingNode && i+1 < len(node.Content); i += 2 {
			if node.Content[i].Value == key {
				next = member{node, node.Content[i], node.Content[i+1], depth + 1}
			}
		}
		if next.key == nil {
			return nil
		}
		found, node = append(found, next), next.value
	}
	return found
}

// removeField removes a field from a map.
func removeField(fields map[string]any, keys []string) map[string]any {
	if item, rest := itemOf(fields, keys); item != nil {
		removeField(item, rest)
	} else if inner, ok := fields[keys[0]].(map[string]any); ok && len(keys) > 1 {
		fields[keys[0]] = removeField(inner, keys[1:])
	} else {
		delete(fields, keys[0])
	}
	return fields
}

// cut removes a member from a text: from a map in braces with its comma, otherwise with its lines.
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

// end returns where the text of a value ends: a value on one line, or a map of such values.
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

// Replace sets the value of an existing field in a file with one document. Comments, order, white space, line endings
// and the field's quotes are preserved. The field must be a string on one line, without an anchor, alias or tag;
// otherwise it returns an *Error, because the node's position is not that of the text.
func Replace(data []byte, path, value string) ([]byte, error) {
	documents, err := Parse(data)
	if err != nil {
		return nil, err
	}
	if len(documents) != 1 {
		return nil, &Error{Message: fmt.Sprintf("it holds %d documents, but must hold one", len(documents))}
	}
	node := documents[0].field(path)
	if node == nil {
		return nil, &Error{Line: documents[0].Line, Message: path + " is not there"}
	}
	was, quote, ok := written(node)
	from, to, there := place(data, node, was)
	if !ok || !there {
		return nil, &Error{Line: node.Line, Message: path + " is not written as plain text on one line: change it by hand"}
	}
	return bytes.Join([][]byte{data[:from], []byte(quote + value + quote), data[to:]}, nil), nil
}

// field returns the node of a field; nil if it does not exist.
func (d Document) field(path string) *yaml.Node {
	node := d.node
	for path != "" {
		if node, _, path = step(node, path); node == nil {
			return nil
		}
	}
	return node
}

// written returns how a string is written in its file, quotes included.
func written(node *yaml.Node) (text, quote string, ok bool) {
	if node.Kind != yaml.ScalarNode {
		return "", "", false
	}
	switch node.Style {
	case 0:
	case yaml.SingleQuotedStyle:
		quote = "'"
	case yaml.DoubleQuotedStyle:
		quote = `"`
	default:
		return "", "", false
	}
	return quote + node.Value + quote, quote, true
}

// place returns where the text of a node starts and ends. The library counts columns in characters.
func place(data []byte, node *yaml.Node, text string) (from, to int, ok bool) {
	lines := bytes.SplitAfter(data, []byte("\n"))
	if node.Line > len(lines) {
		return 0, 0, false
	}
	for _, line := range lines[:node.Line-1] {
		from += len(line)
	}
	left := node.Column - 1
	for at := range string(lines[node.Line-1]) {
		if left == 0 {
			from += at
			to = from + len(text)
			return from, to, strings.HasPrefix(string(data[from:]), text)
		}
		left--
	}
	return 0, 0, false
}
