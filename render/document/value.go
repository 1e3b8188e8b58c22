package document

import (
	"fmt"
	"math"

	"go.yaml.in/yaml/v3"
)

// maxDepth limits how deep values may nest; a NodePool nests 9 deep.
const maxDepth = 100

// largest limits the values of a node that was not parsed from a text here.
const largest = 16 << 20

// Value returns the content of a node, by the rules of Parse.
func Value(node *yaml.Node) (any, error) {
	return (&budget{left: largest}).whole(node)
}

// WithNulls returns the content of the document with the null entries of maps: in the values of a chart they remove a
// default.
func (d Document) WithNulls() (any, error) {
	return (&budget{left: largest, nulls: true}).whole(d.node)
}

// budget limits how many values a file may expand to: aliases repeat their anchors, so ten lines can require more
// memory than the machine has.
type budget struct {
	left int
	// nulls keeps the null entries of maps.
	nulls bool
	// repeated are the duplicate keys.
	repeated Repeated
}

// newBudget allows as many values as a text of this length can contain without aliases, and a few more for legitimate
// aliases.
func newBudget(bytes int) *budget { return &budget{left: 2*bytes + 1000} }

// whole returns the content of a node, or an error if it has a duplicate key.
func (b *budget) whole(node *yaml.Node) (any, error) {
	value, err := b.value(node, 0)
	if err == nil && len(b.repeated) > 0 {
		return nil, b.repeated
	}
	return value, err
}

func (b *budget) value(node *yaml.Node, depth int) (any, error) {
	b.left--
	if b.left < 0 {
		return nil, &Error{Line: node.Line, Message: "aliases make more of this text than it has bytes for: write it out"}
	}
	if depth > maxDepth {
		return nil, &Error{Line: node.Line, Message: fmt.Sprintf("values nest deeper than %d", maxDepth)}
	}
	switch node.Kind {
	case yaml.MappingNode:
		return b.mapping(node, depth)
	case yaml.SequenceNode:
		list := make([]any, 0, len(node.Content))
		for _, item := range node.Content {
			value, err := b.value(item, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, value)
		}
		return list, nil
	case yaml.AliasNode:
		return b.value(node.Alias, depth+1)
	case yaml.ScalarNode:
		return scalar(node)
	default:
		return nil, &Error{Line: node.Line, Message: "not YAML: a value is missing"}
	}
}

func (b *budget) mapping(node *yaml.Node, depth int) (any, error) {
	values := make(map[string]any, len(node.Content)/2)
	written := make(map[string]int, len(node.Content)/2)
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, content := node.Content[i], node.Content[i+1]
		if key.ShortTag() == "!!merge" {
			continue
		}
		if key.Kind != yaml.ScalarNode || key.ShortTag() == "!!null" {
			return nil, &Error{Line: key.Line, Message: "a key is not a plain word"}
		}
		if line, twice := written[key.Value]; twice {
			b.repeated = append(b.repeated,
				&Error{Line: key.Line, Message: fmt.Sprintf("key %q is written twice, first in line %d", key.Value, line)})
			continue
		}
		written[key.Value] = key.Line
		value, err := b.value(content, depth+1)
		if err != nil {
			return nil, err
		}
		if value != nil || b.nulls {
			values[key.Value] = value
		}
	}
	return values, b.merge(node, values, written, depth)
}

// merge adds the entries of `<<` that the map does not define itself.
func (b *budget) merge(node *yaml.Node, values map[string]any, written map[string]int, depth int) error {
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, content := node.Content[i], node.Content[i+1]
		if key.ShortTag() != "!!merge" {
			continue
		}
		value, err := b.value(content, depth+1)
		if err != nil {
			return err
		}
		sources, isList := value.([]any)
		if !isList {
			sources = []any{value}
		}
		for _, source := range sources {
			entries, ok := source.(map[string]any)
			if !ok {
				return &Error{Line: key.Line, Message: "<< takes a map or a list of maps"}
			}
			for name, entry := range entries {
				if _, own := written[name]; own {
					continue
				}
				written[name] = key.Line
				values[name] = entry
			}
		}
	}
	return nil
}

func scalar(node *yaml.Node) (any, error) {
	switch node.ShortTag() {
	case "!!null":
		return nil, nil
	case "!!str", "!!timestamp":
		return node.Value, nil
	case "!!bool", "!!int", "!!float":
		var value any
		if err := node.Decode(&value); err != nil {
			return nil, &Error{Line: node.Line, Message: fmt.Sprintf("%q is not a value: %v", node.Value, err)}
		}
		return number(node, value)
	default:
		return nil, &Error{Line: node.Line, Message: fmt.Sprintf("the tag %s is not understood", node.Tag)}
	}
}

// maxExact is the largest integer up to which every float64 is exact.
const maxExact = 1 << 53

// number returns int64 for whole numbers, as the API server does when it decodes JSON.
func number(node *yaml.Node, value any) (any, error) {
	switch v := value.(type) {
	case bool:
		return v, nil
	case int:
		return int64(v), nil
	case int64:
		return v, nil
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, &Error{Line: node.Line, Message: fmt.Sprintf("%s is not a number that JSON has", node.Value)}
		}
		if v == math.Trunc(v) && math.Abs(v) <= maxExact {
			return int64(v), nil
		}
		return v, nil
	default:
		return nil, &Error{Line: node.Line, Message: fmt.Sprintf("%s is too large a number", node.Value)}
	}
}
