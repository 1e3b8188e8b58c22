package document

import (
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// LineOf returns the line of a field, named as the API server names it in its
// errors: spec.template.spec.requirements[0].key. For a field that is not there
// it is the line of the nearest one around it.
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

// resolve follows aliases to what they stand for.
func resolve(node *yaml.Node) *yaml.Node {
	for hops := 0; node.Kind == yaml.AliasNode && hops < maxDepth; hops++ {
		node = node.Alias
	}
	return node
}

// step goes into the first field of a path, and returns the rest of it.
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

// stepKey finds the longest key that the path begins with: keys such as
// kubernetes.io/arch have dots of their own.
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
