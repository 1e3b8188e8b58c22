package wire

import (
	"net/url"
	"sort"
	"strings"
)

// DecodeQuery decodes form into in, a pointer to an input struct of aws-sdk-go. It returns the names of the parameters
// without a field in the struct, so that the caller can report them.
func DecodeQuery(protocol Protocol, form url.Values, in any) (unknown []string, err error) {
	root := &node{}
	for name, values := range form {
		if name == "Action" || name == "Version" || len(values) == 0 {
			continue
		}
		root.set(strings.Split(name, "."), values[0])
	}
	d := decoder{ec2: protocol == EC2}
	if err := d.decode(root, in); err != nil {
		return nil, err
	}
	sort.Strings(d.unknown)
	return d.unknown, nil
}

// node is a parameter in the tree that the dots of the names form.
type node struct {
	name     string // the full name, for messages
	value    string
	children map[string]*node
}

func (n *node) set(path []string, value string) {
	if len(path) == 0 {
		n.value = value
		return
	}
	if n.children == nil {
		n.children = map[string]*node{}
	}
	child := n.children[path[0]]
	if child == nil {
		child = &node{name: strings.TrimPrefix(n.name+"."+path[0], ".")}
		n.children[path[0]] = child
	}
	child.set(path[1:], value)
}

// leaves appends the full names of all parameters at and below n.
func (n *node) leaves(names []string) []string {
	if len(n.children) == 0 {
		return append(names, n.name)
	}
	for _, child := range n.children {
		names = child.leaves(names)
	}
	return names
}
