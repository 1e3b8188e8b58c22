package weigh

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"go.yaml.in/yaml/v3"
)

const (
	// MostValues limits the values of one text: a mebibyte of NodePools has some 40,000.
	MostValues = 250_000
	// maxRepeated is how many bytes the scalars of a text may have after expanding aliases, beyond twice the text's
	// own.
	maxRepeated = 1 << 20
	// maxDirectives limits the lines of one text that start like a directive. Each %TAG is compared with all before
	// it.
	maxDirectives = 100
	// maxDepth is how deep values may nest, following aliases.
	maxDepth = 1000
)

// Error reports text that must not, or cannot, be parsed.
type Error struct {
	// Line from 1; 0 if unknown.
	Line    int
	Message string
	// Unreadable reports whether the text is not YAML, so that it could not be checked.
	Unreadable bool
}

// Error returns the message without the line.
func (e *Error) Error() string { return e.Message }

// YAML checks a text with any number of documents. It refuses text with aliases that is not YAML, because another
// parser may accept it. Errors: *Error.
func YAML(text []byte) error {
	if err := Dense(text); err != nil {
		return err
	}
	if !bytes.ContainsRune(text, '*') || !bytes.ContainsRune(text, '&') {
		return nil
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	for {
		node, err := next(decoder)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return &Error{Message: "it has aliases, and is not YAML: " + err.Error(), Unreadable: true}
		}
		if err := Node(node, len(text)); err != nil {
			return err
		}
	}
}

// next parses one document; the YAML library panics on some malformed texts.
func next(decoder *yaml.Decoder) (node *yaml.Node, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
	}()
	node = &yaml.Node{}
	return node, decoder.Decode(node)
}

// Dense refuses text with more values than any legitimate one has, aliases not counted. It counts the characters
// without which no YAML value starts, so it never counts too few; it also counts those in block scalars.
func Dense(text []byte) error {
	if directives(text) > maxDirectives {
		return &Error{Line: 1, Message: fmt.Sprintf("it has more than %d directives (lines that begin with %%)", maxDirectives)}
	}
	values := 1
	for i, c := range text {
		switch c {
		case '[', '{', ',':
			values++
		case ':', '-', '?':
			if i+1 == len(text) || isBlank(text[i+1]) {
				values += 2
			}
		}
		if values > MostValues {
			return &Error{
				Line:    1 + bytes.Count(text[:i], []byte("\n")),
				Message: fmt.Sprintf("it has more than %d values: split it", MostValues),
			}
		}
	}
	return nil
}

func isBlank(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' }

// Node checks a document with its aliases expanded; bytes is the length of its text.
func Node(node *yaml.Node, bytes int) error {
	s := &scale{
		values: min(2*int64(bytes)+1000, MostValues), bytes: 2*int64(bytes) + maxRepeated,
		known: map[*yaml.Node]load{},
	}
	_, err := s.weigh(node)
	return err
}

// load is the size of a node after expanding aliases.
type load struct {
	values, bytes int64
	depth         int
}

// scale checks the nodes of one document.
type scale struct {
	// values and bytes are the limits.
	values, bytes int64
	// known are the loads of anchors. One that is being computed has the zero load.
	known map[*yaml.Node]load
}

func (s *scale) weigh(node *yaml.Node) (load, error) {
	if node.Kind == yaml.AliasNode {
		return s.alias(node)
	}
	if node.Anchor != "" {
		s.known[node] = load{}
	}
	sum := load{values: 1, bytes: int64(len(node.Value)), depth: 1}
	for _, child := range node.Content {
		part, err := s.weigh(child)
		if err != nil {
			return load{}, err
		}
		sum.values, sum.bytes, sum.depth = sum.values+part.values, sum.bytes+part.bytes, max(sum.depth, part.depth+1)
		switch {
		case sum.values > s.values || sum.bytes > s.bytes:
			return load{}, &Error{Line: child.Line, Message: "aliases make more of this text than it has bytes for: write it out"}
		case sum.depth > maxDepth:
			return load{}, &Error{Line: child.Line, Message: fmt.Sprintf("values nest deeper than %d", maxDepth)}
		}
	}
	if node.Anchor != "" {
		s.known[node] = sum
	}
	return sum, nil
}

// alias returns the load of its anchor plus one value, because each alias costs a step to follow.
func (s *scale) alias(node *yaml.Node) (load, error) {
	found, ok := s.known[node.Alias]
	if !ok || found == (load{}) {
		return load{}, &Error{Line: node.Line, Message: fmt.Sprintf("the alias *%s stands for something that it is a part of", node.Value)}
	}
	found.values++
	return found, nil
}
