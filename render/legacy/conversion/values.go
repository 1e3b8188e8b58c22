package conversion

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// text returns a string as a node. The encoder adds quotes if it needs them.
func text(value string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: value}
}

// number returns a number as a node.
func number(value int) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!int", Value: strconv.Itoa(value)}
}

// list returns a list on one line.
func list(items ...*yaml.Node) *yaml.Node {
	return &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Style: yaml.FlowStyle, Content: items}
}

// lines returns a list with one item on a line.
func lines(items ...*yaml.Node) *yaml.Node {
	return &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Content: items}
}

// pairs returns a map of strings and nodes, in order.
func pairs(keysAndValues ...any) *yaml.Node {
	made := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	for _, one := range keysAndValues {
		node, ok := one.(*yaml.Node)
		if !ok {
			node = text(fmt.Sprint(one))
		}
		made.Content = append(made.Content, node)
	}
	return made
}

// requirement returns one requirement of a NodePool.
func requirement(key, operator string, values ...string) *yaml.Node {
	all := list()
	for _, value := range values {
		all.Content = append(all.Content, text(value))
	}
	return pairs("key", key, "operator", operator, "values", all)
}

// lookup returns the value of a key of a map; nil if it is not there.
func lookup(node *yaml.Node, key string) *yaml.Node {
	for i := 0; node != nil && node.Kind == yaml.MappingNode && i+1 < len(node.Content); i += 2 {
		if node.Content[i].Value == key {
			return node.Content[i+1]
		}
	}
	return nil
}

// without returns a map without a key, and whether it had it.
func without(node *yaml.Node, key string) (*yaml.Node, bool) {
	if lookup(node, key) == nil {
		return node, false
	}
	made := *node
	made.Content = nil
	for i := 0; i+1 < len(node.Content); i += 2 {
		if node.Content[i].Value != key {
			made.Content = append(made.Content, node.Content[i], node.Content[i+1])
		}
	}
	return &made, true
}

// seconds returns a duration as Karpenter's definitions have it: 720h, 1m30s. ok is false if the node is not a number of
// seconds.
func seconds(node *yaml.Node) (duration string, ok bool) {
	count, err := strconv.ParseInt(node.Value, 10, 64)
	if err != nil || node.Kind != yaml.ScalarNode || count < 0 || count > int64(1<<63-1)/int64(time.Second) {
		return "", false
	}
	duration = (time.Duration(count) * time.Second).String()
	if strings.HasSuffix(duration, "m0s") {
		duration = strings.TrimSuffix(duration, "0s")
	}
	if strings.HasSuffix(duration, "h0m") {
		duration = strings.TrimSuffix(duration, "0m")
	}
	return duration, true
}

// quoteNumbers returns a map in which every number and bool is a string, and whether there were any: v1 accepts only
// strings as quantities and tags.
func quoteNumbers(node *yaml.Node) (*yaml.Node, bool) {
	if node.Kind != yaml.MappingNode {
		return node, false
	}
	made, changed := *node, false
	made.Content = nil
	for i := 0; i+1 < len(node.Content); i += 2 {
		value := node.Content[i+1]
		if tag := value.ShortTag(); value.Kind == yaml.ScalarNode && (tag == "!!int" || tag == "!!float" || tag == "!!bool") {
			quoted := *value
			quoted.Tag, quoted.Style, changed = "!!str", yaml.DoubleQuotedStyle, true
			value = &quoted
		}
		made.Content = append(made.Content, node.Content[i], value)
	}
	return &made, changed
}
