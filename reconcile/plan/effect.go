package plan

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/render"
)

// effect says what a Change does to nodes, as far as the definitions alone can
// tell: Replace where what Karpenter hashes into its nodes differs.
func (m *maker) effect(change *Change) {
	if change.Action == Conflict || change.Action == Refuse || change.Action == Wait {
		change.Effect = EffectBlocked
		return
	}
	nodes := m.nodes()[change.Ref]
	if change.Live == nil || nodes == 0 {
		return
	}
	if hashed(change.Ref.Kind, change.Live) != hashed(change.Ref.Kind, change.Object.Defaulted) {
		change.Effect, change.Nodes = EffectReplace, nodes
	}
}

// unhashed are the fields that Karpenter leaves out of the hash by which it
// knows outdated nodes (`hash:"ignore"` in karpenter pkg/apis/v1/nodepool.go
// and nodeclaim.go, karpenter-provider-aws pkg/apis/v1/ec2nodeclass.go, 1.14.1).
// A change of requirements or selectors replaces those nodes alone that no
// longer fit; that cannot be told from here.
func unhashed(kind string) []string {
	if kind == render.NodePool {
		return []string{"requirements", "resources"}
	}
	return []string{
		"subnetSelectorTerms", "securityGroupSelectorTerms", "capacityReservationSelectorTerms",
		"ipPrefixCount", "amiSelectorTerms", "amiFamily",
	}
}

// hashed is a text that is equal for two objects when Karpenter's hash is:
// lists count as sets, and zero values as absent.
func hashed(kind string, object *unstructured.Unstructured) string {
	if kind != render.NodePool {
		spec, _, _ := unstructured.NestedMap(object.Object, "spec")
		return canonical(normal(without(spec, unhashed(kind))))
	}
	template, _, _ := unstructured.NestedMap(object.Object, "spec", "template")
	if spec, ok := template["spec"].(map[string]any); ok {
		template["spec"] = without(spec, unhashed(kind))
	}
	return canonical(normal(template))
}

func without(fields map[string]any, keys []string) map[string]any {
	rest := maps.Clone(fields)
	for _, key := range keys {
		delete(rest, key)
	}
	return rest
}

// normal orders lists by content and drops zero values.
func normal(value any) any {
	switch v := value.(type) {
	case map[string]any:
		kept := map[string]any{}
		for key, field := range v {
			if n := normal(field); n != nil {
				kept[key] = n
			}
		}
		if len(kept) == 0 {
			return nil
		}
		return kept
	case []any:
		items := make([]string, 0, len(v))
		for _, item := range v {
			items = append(items, canonical(normal(item)))
		}
		if len(items) == 0 {
			return nil
		}
		slices.Sort(items)
		return items
	case string:
		if v == "" {
			return nil
		}
	case bool:
		if !v {
			return nil
		}
	case int64:
		if v == 0 {
			return nil
		}
	}
	return value
}
