package nodegroup

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// field is a field of a YAML map, with a comment above it. A nil, an empty map and an empty list are left out.
type field struct {
	key     string
	value   any
	comment string
}

// fields returns a map with its fields in order.
func fields(of ...field) *yaml.Node {
	node := &yaml.Node{Kind: yaml.MappingNode}
	for _, f := range of {
		value := nodeOf(f.value)
		if value == nil {
			continue
		}
		key := quoted(f.key)
		if f.comment != "" {
			key.HeadComment = "# " + strings.ReplaceAll(f.comment, "\n", "\n# ")
		}
		node.Content = append(node.Content, key, value)
	}
	return node
}

// nodeOf returns a value as YAML: a string, a number, a bool, a pointer to one of them, lists and maps of strings, and lists
// of maps. It returns nil for what is left out.
func nodeOf(value any) *yaml.Node {
	switch v := value.(type) {
	case nil:
		return nil
	case *yaml.Node:
		if v == nil || v.Kind == yaml.MappingNode && len(v.Content) == 0 {
			return nil
		}
		return v
	case []*yaml.Node:
		if len(v) == 0 {
			return nil
		}
		return &yaml.Node{Kind: yaml.SequenceNode, Content: v}
	case string:
		return text(v)
	case []string:
		return listOf(v)
	case map[string]string:
		return mapOf(v)
	case *bool:
		if v == nil {
			return nil
		}
		return nodeOf(*v)
	case bool:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: fmt.Sprint(v)}
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!int", Value: fmt.Sprint(value)}
}

// listOf returns strings in brackets.
func listOf(values []string) *yaml.Node {
	if len(values) == 0 {
		return nil
	}
	list := &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
	for _, one := range values {
		list.Content = append(list.Content, quoted(one))
	}
	return list
}

// mapOf returns strings by their keys. An empty value of a label or a tag stays.
func mapOf(values map[string]string) *yaml.Node {
	var all []field
	for _, key := range slices.Sorted(maps.Keys(values)) {
		all = append(all, field{key: key, value: quoted(values[key])})
	}
	return nodeOf(fields(all...))
}

// text returns a string, which is left out if it is empty, as a block if it has several lines.
func text(v string) *yaml.Node {
	if v == "" {
		return nil
	}
	node := quoted(v)
	if strings.Contains(v, "\n") {
		node.Style = yaml.LiteralStyle
	}
	return node
}

// quoted returns a string, with quotes if a parser of any version of YAML would read another type without: yes, 1_000, 0o7.
func quoted(v string) *yaml.Node {
	node := &yaml.Node{}
	if node.Encode(v) != nil {
		node = &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: v, Style: yaml.DoubleQuotedStyle}
	}
	return node
}

// number returns a number that is left out if it is 0.
func number[N int | int32 | int64](n N) any {
	if n == 0 {
		return nil
	}
	return n
}

// document returns a YAML text with a comment above it.
func document(comment string, root *yaml.Node) (string, error) {
	var out bytes.Buffer
	if comment != "" {
		fmt.Fprintf(&out, "# %s\n", strings.ReplaceAll(comment, "\n", "\n# "))
	}
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := encoder.Encode(root); err != nil {
		return "", err
	}
	return out.String(), encoder.Close()
}
