package charts

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// setScalars replaces the values at dotted paths in the text of a YAML document, so that comments and layout are kept.
func setScalars(document []byte, scalars map[string]string) ([]byte, error) {
	var root yaml.Node
	if err := yaml.Unmarshal(document, &root); err != nil {
		return nil, fmt.Errorf("parse: %w", err)
	}

	lines := bytes.Split(document, []byte("\n"))

	for _, path := range slices.Sorted(maps.Keys(scalars)) {
		node, err := findScalar(&root, path)
		if err != nil {
			return nil, err
		}

		// Line and Column count from 1. Upstream's scalars end at the end of their line.
		line := lines[node.Line-1]
		lines[node.Line-1] = append(slices.Clone(line[:node.Column-1]), scalars[path]...)
	}

	return bytes.Join(lines, []byte("\n")), nil
}

func findScalar(root *yaml.Node, path string) (*yaml.Node, error) {
	if root.Kind != yaml.DocumentNode {
		return nil, fmt.Errorf("set %s: the document is empty", path)
	}

	node := root.Content[0]
	for _, key := range strings.Split(path, ".") {
		if node = child(node, key); node == nil {
			return nil, fmt.Errorf("set %s: there is no %q", path, key)
		}
	}

	if node.Kind != yaml.ScalarNode {
		return nil, fmt.Errorf("set %s: line %d is no scalar", path, node.Line)
	}

	return node, nil
}

func child(node *yaml.Node, key string) *yaml.Node {
	if node.Kind != yaml.MappingNode {
		return nil
	}

	for i := 0; i+1 < len(node.Content); i += 2 {
		if node.Content[i].Value == key {
			return node.Content[i+1]
		}
	}

	return nil
}
