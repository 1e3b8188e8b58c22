package document

import "go.yaml.in/yaml/v3"

// Items takes apart a list of objects, as `kubectl get -o yaml` writes it. The
// second result is false for anything else.
func (d Document) Items() ([]Document, bool) {
	object, ok := d.Value.(map[string]any)
	if !ok {
		return nil, false
	}
	list, ok := object["items"].([]any)
	if !ok {
		return nil, false
	}
	nodes := d.itemNodes()
	items := make([]Document, 0, len(list))
	for i, value := range list {
		item := Document{Value: value, Line: d.Line}
		if i < len(nodes) {
			item.node, item.Line = nodes[i], nodes[i].Line
		}
		items = append(items, item)
	}
	return items, true
}

func (d Document) itemNodes() []*yaml.Node {
	if d.node == nil {
		return nil
	}
	child, _, _ := step(resolve(d.node), "items")
	if child == nil {
		return nil
	}
	return resolve(child).Content
}
