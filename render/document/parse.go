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

	"go.yaml.in/yaml/v3"

	"github.com/plumbline-dev/plumbline/confine/weigh"
)

// Document is one document of a file.
type Document struct {
	// Value is what the document holds. Null entries of maps are left out: to
	// the API server they are as good as absent.
	Value any
	// Line of its first value in the file, from 1.
	Line int
	// Values is how many values it holds.
	Values int

	node *yaml.Node
}

// Error is text that cannot be read.
type Error struct {
	// Line from 1; 0 where it is not known.
	Line    int
	Message string
}

// Error returns the message without the line.
func (e *Error) Error() string { return e.Message }

// MaxDocuments is how many documents one file may hold.
const MaxDocuments = 1000

// Repeated are the keys that are written twice in a text that can be read otherwise.
type Repeated []*Error

// Error is that of the first of them.
func (r Repeated) Error() string { return r[0].Error() }

// Unwrap returns them one by one, for errors.As.
func (r Repeated) Unwrap() []error {
	all := make([]error, 0, len(r))
	for _, one := range r {
		all = append(all, one)
	}
	return all
}

// Parse reads all documents of a YAML file; empty ones are left out. With an error that is a
// Repeated there are the documents, too, each key with the value that is written first.
func Parse(data []byte) ([]Document, error) {
	if err := weigh.Breaks(data); err != nil {
		return nil, heavy(err)
	}
	if err := weigh.Dense(data); err != nil {
		return nil, heavy(err)
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
		if isEmpty(node) {
			continue
		}
		if len(documents) == MaxDocuments {
			return nil, &Error{Line: node.Content[0].Line, Message: fmt.Sprintf("more than %d documents in one file: split it", MaxDocuments)}
		}
		// Before anything else that may be wrong: another reader may let that pass.
		if err := weigh.Node(node, len(data)); err != nil {
			return nil, heavy(err)
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

// ofParser are the messages of the library's parser, which counts lines from 0; its scanner counts
// them from 1.
var ofParser = regexp.MustCompile(`did not find expected (',' or '|'-' indicator|key$|node content|<)|found (undefined tag|duplicate %|incompatible)`)

// ofBlock are the messages of a line that does not belong to the block around it. The library reports the line in which
// that block begins, which may be the first of the document.
var ofBlock = regexp.MustCompile(`did not find expected ('-' indicator|key$)`)

// placed corrects the line of an error of the library: the line that does not belong to its block, or the line in which a
// flow collection begins that does not end, and no line after the last.
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

// failsWith reports whether a text cannot be read for the same reason.
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
			return false // the end
		}
	}
}

// ParseJSON reads the one document of a JSON file. JSON is YAML but for tabs
// between the values, which YAML does not take for blanks.
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
	return Parse(bytes.ReplaceAll(data, []byte("\t"), []byte(" ")))
}

// next reads a document as nodes. The YAML library is known to panic on some
// malformed texts instead of returning an error.
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

// syntaxError takes the line out of the library's message.
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

// heavy is an error of weighing as one of reading.
func heavy(err error) error {
	var found *weigh.Error
	if errors.As(err, &found) {
		return &Error{Line: found.Line, Message: found.Message}
	}
	return err
}
