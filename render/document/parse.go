package document

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"sort"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/plumbline-dev/plumbline/confine/weigh"
)

// Document is one document of a file.
type Document struct {
	// Value is the content of the document. Null entries of maps are dropped: the API server treats them as absent.
	Value any
	// Line of its first value in the file, from 1.
	Line int
	// Values is the number of values in it.
	Values int

	node *yaml.Node
}

// Error reports text that cannot be parsed.
type Error struct {
	// Line from 1; 0 if unknown.
	Line    int
	Message string
}

// Error returns the message without the line.
func (e *Error) Error() string { return e.Message }

// MaxDocuments is how many documents one file may hold.
const MaxDocuments = 1000

// Repeated lists the duplicate keys of a text that is otherwise valid.
type Repeated []*Error

// Error returns the message of the first one.
func (r Repeated) Error() string { return r[0].Error() }

// Unwrap returns them one by one, for errors.As.
func (r Repeated) Unwrap() []error {
	all := make([]error, 0, len(r))
	for _, one := range r {
		all = append(all, one)
	}
	return all
}

// Parse returns all documents of a YAML file except empty ones. If the error is a Repeated, the documents are returned
// as well, with the first value of each key.
func Parse(data []byte) ([]Document, error) { return parse(data, isEmpty) }

// ParseWithNulls is Parse, but keeps documents that contain an explicit null; their Value is nil.
func ParseWithNulls(data []byte) ([]Document, error) { return parse(data, isBlank) }

// parse returns all documents for which leavesOut is false.
func parse(data []byte, leavesOut func(*yaml.Node) bool) ([]Document, error) {
	if err := weigh.Breaks(data); err != nil {
		return nil, fromWeighError(err)
	}
	if err := weigh.Dense(data); err != nil {
		return nil, fromWeighError(err)
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	budget := newBudget(len(data))
	var documents []Document
	for {
		node, err := next(decoder)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, placed(err, data)
		}
		if leavesOut(node) {
			continue
		}
		if len(documents) == MaxDocuments {
			return nil, &Error{Line: node.Content[0].Line, Message: fmt.Sprintf("more than %d documents in one file: split it", MaxDocuments)}
		}
		// This check comes first: another parser may accept what the later checks refuse.
		if err := weigh.Node(node, len(data)); err != nil {
			return nil, fromWeighError(err)
		}
		content, left := node.Content[0], budget.left
		value, err := budget.value(content, 0)
		if err != nil {
			return nil, err
		}
		documents = append(documents, Document{Value: value, Line: content.Line, Values: left - budget.left, node: content})
	}
	if len(budget.repeated) > 0 {
		return documents, budget.repeated
	}
	return documents, nil
}

// ofParser matches the messages of the library's parser, which counts lines from 0; its scanner counts them from 1.
var ofParser = regexp.MustCompile(`did not find expected (',' or '|'-' indicator|key$|node content|<)|found (undefined tag|duplicate %|incompatible)`)

// ofBlock matches the messages about a line that does not belong to the block around it. The library reports the line
// in which that block starts, which may be the first of the document.
var ofBlock = regexp.MustCompile(`did not find expected ('-' indicator|key$)`)

// placed corrects the line in an error of the library: it becomes the line that does not belong to its block, or the
// line in which an unclosed flow collection starts, and is never beyond the last line.
func placed(err error, data []byte) error {
	var found *Error
	if !errors.As(err, &found) || !ofParser.MatchString(found.Message) {
		return err
	}
	lines := bytes.SplitAfter(bytes.TrimRight(data, "\n"), []byte("\n"))
	found.Line = min(found.Line+1, len(lines))
	if ofBlock.MatchString(found.Message) {
		found.Line = found.Line + sort.Search(len(lines)-found.Line, func(more int) bool {
			return failsWith(bytes.Join(lines[:found.Line+more], nil), found.Message)
		})
	}
	return err
}

// failsWith reports whether parsing a text fails with the same message.
func failsWith(data []byte, message string) bool {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	for {
		_, err := next(decoder)
		var found *Error
		switch {
		case err == nil:
		case errors.As(err, &found):
			return found.Message == message
		default:
			return false // end of file
		}
	}
}

// ParseJSON parses the one document of a JSON file as ParseWithNulls does. JSON is a subset of YAML except for tabs
// between values, which YAML does not accept as white space.
func ParseJSON(data []byte) ([]Document, error) {
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, nil
	}
	var raw json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			return nil, &Error{Line: 1 + bytes.Count(data[:syntax.Offset], []byte("\n")), Message: "not JSON: " + err.Error()}
		}
		return nil, &Error{Message: "not JSON: " + err.Error()}
	}
	return ParseWithNulls(bytes.ReplaceAll(data, []byte("\t"), []byte(" ")))
}

// next parses a document into nodes. The YAML library is known to panic on some malformed texts instead of returning an
// error.
func next(decoder *yaml.Decoder) (node *yaml.Node, err error) {
	defer func() {
		if p := recover(); p != nil {
			node, err = nil, &Error{Message: fmt.Sprintf("not YAML: %v", p)}
		}
	}()
	node = &yaml.Node{}
	if err := decoder.Decode(node); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, err
		}
		return nil, syntaxError(err)
	}
	return node, nil
}

var atLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)

// syntaxError moves the line from the library's message into the error.
func syntaxError(err error) *Error {
	text := err.Error()
	found := atLine.FindStringSubmatch(text)
	if found == nil {
		return &Error{Message: "not YAML: " + text}
	}
	line, _ := strconv.Atoi(found[1])
	return &Error{Line: line, Message: "not YAML: " + text[len(found[0]):]}
}

func isEmpty(node *yaml.Node) bool {
	if len(node.Content) == 0 {
		return true
	}
	content := node.Content[0]
	return content.Kind == yaml.ScalarNode && content.ShortTag() == "!!null"
}

// isBlank reports whether a document is empty except for comments.
func isBlank(node *yaml.Node) bool {
	return isEmpty(node) && (len(node.Content) == 0 || node.Content[0].Value == "")
}

// fromWeighError turns an error of package weigh into one of this package.
func fromWeighError(err error) error {
	var found *weigh.Error
	if errors.As(err, &found) {
		return &Error{Line: found.Line, Message: found.Message}
	}
	return err
}

// Items splits a list of objects, as `kubectl get -o yaml` writes it. The second result is false for anything else.
func (d Document) Items() ([]Document, bool) {
	object, ok := d.Value.(map[string]any)
	if !ok {
		return nil, false
	}
	list, ok := object["items"].([]any)
	if !ok {
		return nil, false
	}
	nodes := d.itemNodes()
	items := make([]Document, 0, len(list))
	for i, value := range list {
		item := Document{Value: value, Line: d.Line}
		if i < len(nodes) {
			item.node, item.Line = nodes[i], nodes[i].Line
		}
		items = append(items, item)
	}
	return items, true
}

func (d Document) itemNodes() []*yaml.Node {
	if d.node == nil {
		return nil
	}
	child, _, _ := step(resolve(d.node), "items")
	if child == nil {
		return nil
	}
	return resolve(child).Content
}

// LineOf returns the line of a field, whose path is written as in the API server's errors:
// spec.template.spec.requirements[0].key. If the field does not exist, it is the line of the closest parent.
func (d Document) LineOf(path string) int {
	if d.node == nil {
		return d.Line
	}
	line, node := d.Line, d.node
	for hops := 0; path != "" && hops < maxDepth; hops++ {
		child, at, rest := step(resolve(node), path)
		if child == nil {
			break
		}
		line, node, path = at, child, rest
	}
	return line
}

// resolve follows aliases to their anchors.
func resolve(node *yaml.Node) *yaml.Node {
	for hops := 0; node.Kind == yaml.AliasNode && hops < maxDepth; hops++ {
		node = node.Alias
	}
	return node
}

// step returns the first field of a path, and the rest of the path.
func step(node *yaml.Node, path string) (child *yaml.Node, line int, rest string) {
	switch node.Kind {
	case yaml.MappingNode:
		return stepKey(node, path)
	case yaml.SequenceNode:
		return stepIndex(node, path)
	default:
		return nil, 0, ""
	}
}

// stepKey finds the longest key that is a prefix of the path: keys such as kubernetes.io/arch contain dots.
func stepKey(node *yaml.Node, path string) (child *yaml.Node, line int, rest string) {
	longest := -1
	for i := 0; i+1 < len(node.Content); i += 2 {
		key := node.Content[i]
		after, ok := cutKey(path, key.Value)
		if ok && len(key.Value) > longest {
			longest, child, line, rest = len(key.Value), node.Content[i+1], key.Line, after
		}
	}
	return child, line, rest
}

func cutKey(path, key string) (rest string, ok bool) {
	if after, found := strings.CutPrefix(path, "["+key+"]"); found {
		return strings.TrimPrefix(after, "."), true
	}
	after, found := strings.CutPrefix(path, key)
	switch {
	case !found:
		return "", false
	case after == "" || after[0] == '[':
		return after, true
	case after[0] == '.':
		return after[1:], true
	default:
		return "", false
	}
}

func stepIndex(node *yaml.Node, path string) (child *yaml.Node, line int, rest string) {
	inside, rest, ok := strings.Cut(strings.TrimPrefix(path, "["), "]")
	if !ok {
		inside, rest, _ = strings.Cut(path, ".")
	}
	index, err := strconv.Atoi(inside)
	if err != nil || index < 0 || index >= len(node.Content) {
		return nil, 0, ""
	}
	item := node.Content[index]
	return item, item.Line, strings.TrimPrefix(rest, ".")
}
