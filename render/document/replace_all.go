package document

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"
)

// ReplaceAll replaces strings in a text with any number of YAML or JSON documents, and changes no other byte. change
// gets the keys that lead to a string, without list indexes, and the string; it returns another string and true, or
// false to keep it. A string to replace must be on one line, without an anchor or a tag; otherwise it returns an
// *Error. replaced is how many strings were replaced.
func ReplaceAll(data []byte, change func(keys []string, value string) (string, bool)) (edited []byte, replaced int, err error) {
	documents, err := Parse(data)
	if err != nil {
		return nil, 0, err
	}
	s := &rewriting{data: data, change: change, seen: map[*yaml.Node]bool{}}
	for _, one := range documents {
		if err := s.collect(one.node, nil); err != nil {
			return nil, 0, err
		}
	}
	slices.SortFunc(s.spans, func(a, b span) int { return cmp.Compare(b.from, a.from) })
	edited = data
	for _, one := range s.spans {
		edited = bytes.Join([][]byte{edited[:one.from], []byte(one.text), edited[one.to:]}, nil)
	}
	return edited, len(s.spans), nil
}

// span is a part of a text, and what replaces it.
type span struct {
	from, to int
	text     string
}

// rewriting collects the strings to replace.
type rewriting struct {
	data   []byte
	change func(keys []string, value string) (string, bool)
	seen   map[*yaml.Node]bool
	spans  []span
}

// collect collects the strings below a node. An alias is changed at its anchor.
func (s *rewriting) collect(node *yaml.Node, keys []string) error {
	if s.seen[node] {
		return nil
	}
	s.seen[node] = true
	switch node.Kind {
	case yaml.DocumentNode, yaml.SequenceNode:
		for _, item := range node.Content {
			if err := s.collect(item, keys); err != nil {
				return err
			}
		}
	case yaml.MappingNode:
		for i := 0; i+1 < len(node.Content); i += 2 {
			if err := s.collect(node.Content[i+1], append(slices.Clone(keys), node.Content[i].Value)); err != nil {
				return err
			}
		}
	case yaml.ScalarNode:
		return s.scalar(node, keys)
	case yaml.AliasNode:
	}
	return nil
}

func (s *rewriting) scalar(node *yaml.Node, keys []string) error {
	value, changes := s.change(keys, node.Value)
	if !changes || value == node.Value {
		return nil
	}
	was, quote, ok := written(node)
	from, to, there := place(s.data, node, was)
	if !ok || !there || node.Anchor != "" {
		return &Error{Line: node.Line, Message: fmt.Sprintf("%s is not written as plain text on one line: change it by hand to %s", node.Value, value)}
	}
	s.spans = append(s.spans, span{from: from, to: to, text: quote + value + quote})
	return nil
}
