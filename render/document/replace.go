package document

import (
	"bytes"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Replace gives one field of a file with one document another value. Comments,
// order, blanks, line ends and the field's quotes stay as they are. The field is a
// text on one line, without an anchor, alias or tag; anything else is an *Error:
// it is not found where the node begins.
func Replace(data []byte, path, value string) ([]byte, error) {
	documents, err := Parse(data)
	if err != nil {
		return nil, err
	}
	if len(documents) != 1 {
		return nil, &Error{Message: fmt.Sprintf("it holds %d documents, and has to hold one", len(documents))}
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

// field is the node of a field; nil where it is not there.
func (d Document) field(path string) *yaml.Node {
	node := d.node
	for path != "" {
		if node, _, path = step(node, path); node == nil {
			return nil
		}
	}
	return node
}

// written is how a text stands in its file, quotes included.
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

// place finds where a text of a node begins and ends. The library counts columns
// in characters.
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
