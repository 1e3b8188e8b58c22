package template

import (
	"encoding/json"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// decode reads JSON or YAML. In YAML, the short form of a function is its tag: !Sub is {"Fn::Sub": …}.
func decode(text string) (any, error) {
	if strings.HasPrefix(strings.TrimSpace(text), "{") {
		var value any
		if err := json.Unmarshal([]byte(text), &value); err != nil {
			return nil, formatError("JSON not well-formed. (%v)", err)
		}
		return value, nil
	}
	var document yaml.Node
	if err := yaml.Unmarshal([]byte(text), &document); err != nil {
		return nil, formatError("YAML not well-formed. (%v)", err)
	}
	if len(document.Content) != 1 || document.Content[0].Kind != yaml.MappingNode {
		return nil, formatError("unsupported structure.")
	}
	return plain(document.Content[0])
}

// plain converts a node into what encoding/json returns. Dates stay strings.
func plain(n *yaml.Node) (any, error) {
	value, err := untagged(n)
	if err != nil || !strings.HasPrefix(n.Tag, "!") || strings.HasPrefix(n.Tag, "!!") {
		return value, err
	}
	name := strings.TrimPrefix(n.Tag, "!")
	if name != "Ref" && name != "Condition" {
		name = "Fn::" + name
	}
	return map[string]any{name: value}, nil
}

func untagged(n *yaml.Node) (any, error) {
	switch n.Kind {
	case yaml.AliasNode:
		return plain(n.Alias)
	case yaml.SequenceNode:
		items := make([]any, len(n.Content))
		for i, child := range n.Content {
			var err error
			if items[i], err = plain(child); err != nil {
				return nil, err
			}
		}
		return items, nil
	case yaml.MappingNode:
		fields := map[string]any{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			value, err := plain(n.Content[i+1])
			if err != nil {
				return nil, err
			}
			fields[n.Content[i].Value] = value
		}
		return fields, nil
	case yaml.ScalarNode:
		return scalar(n)
	case yaml.DocumentNode:
	}
	return nil, invalid("Template format error: unsupported structure.")
}

func scalar(n *yaml.Node) (any, error) {
	switch n.Tag {
	case "!!null":
		return nil, nil
	case "!!bool":
		return strconv.ParseBool(strings.ToLower(n.Value))
	case "!!int", "!!float":
		number, err := strconv.ParseFloat(n.Value, 64)
		if err != nil {
			return nil, invalid("Template format error: the number %s: %v", n.Value, err)
		}
		return number, nil
	}
	return n.Value, nil
}
