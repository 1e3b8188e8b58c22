package migrate

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// notOnKarpenter is the expression that keeps pods off Karpenter's nodes, as Karpenter's own chart has it.
func notOnKarpenter() corev1.NodeSelectorRequirement {
	return corev1.NodeSelectorRequirement{Key: nodePoolLabel, Operator: corev1.NodeSelectorOpDoesNotExist}
}

// Pin returns an affinity with which pods run on no node of Karpenter. The input, which may be nil, stays as it is.
func Pin(affinity *corev1.Affinity) *corev1.Affinity {
	pinned := affinity.DeepCopy()
	if pinned == nil {
		pinned = &corev1.Affinity{}
	}
	if pinned.NodeAffinity == nil {
		pinned.NodeAffinity = &corev1.NodeAffinity{}
	}
	required := pinned.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if required == nil {
		required = &corev1.NodeSelector{}
		pinned.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = required
	}
	if len(required.NodeSelectorTerms) == 0 {
		required.NodeSelectorTerms = []corev1.NodeSelectorTerm{{}}
	}
	for i := range required.NodeSelectorTerms { // a pod may match any of them
		term := &required.NodeSelectorTerms[i]
		if !slices.ContainsFunc(term.MatchExpressions, isPin) {
			term.MatchExpressions = append(term.MatchExpressions, notOnKarpenter())
		}
	}
	return pinned
}

// Unpin is the reverse of Pin. It returns nil if nothing else is left.
func Unpin(affinity *corev1.Affinity) *corev1.Affinity {
	rest := affinity.DeepCopy()
	if rest == nil || rest.NodeAffinity == nil || rest.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return rest
	}
	required := rest.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	var terms []corev1.NodeSelectorTerm
	for _, term := range required.NodeSelectorTerms {
		term.MatchExpressions = slices.DeleteFunc(term.MatchExpressions, isPin)
		if len(term.MatchExpressions)+len(term.MatchFields) > 0 {
			terms = append(terms, term)
		}
	}
	if required.NodeSelectorTerms = terms; len(terms) == 0 {
		rest.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = nil
	}
	if len(rest.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution) == 0 && len(terms) == 0 {
		rest.NodeAffinity = nil
	}
	if *rest == (corev1.Affinity{}) {
		return nil
	}
	return rest
}

// IsPinned reports whether an affinity has the pin.
func IsPinned(affinity *corev1.Affinity) bool {
	return affinity != nil && reflect.DeepEqual(Pin(affinity), affinity)
}

func isPin(r corev1.NodeSelectorRequirement) bool {
	return r.Key == nodePoolLabel && r.Operator == corev1.NodeSelectorOpDoesNotExist
}

// pinned reports whether pods run on no node of Karpenter: they require that, or a label that no NodePool gives to its nodes.
func (f *Facts) pinned(spec *corev1.PodSpec) bool {
	for key := range spec.NodeSelector {
		if f.onlyElsewhere(key) {
			return true
		}
	}
	if spec.Affinity == nil || spec.Affinity.NodeAffinity == nil {
		return false
	}
	required := spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if required == nil {
		return false
	}
	terms := required.NodeSelectorTerms
	return len(terms) > 0 && !slices.ContainsFunc(terms, func(term corev1.NodeSelectorTerm) bool {
		return !slices.ContainsFunc(term.MatchExpressions, func(r corev1.NodeSelectorRequirement) bool {
			needs := r.Operator == corev1.NodeSelectorOpIn || r.Operator == corev1.NodeSelectorOpExists
			return isPin(r) || needs && f.onlyElsewhere(r.Key)
		})
	})
}

// wellKnown are the domains of labels that nodes of Karpenter have without being in a NodePool:
// https://karpenter.sh/docs/concepts/scheduling/#well-known-labels
var wellKnown = []string{"kubernetes.io", "k8s.io", "karpenter.sh", "karpenter.k8s.aws", "k8s.aws", "eks.amazonaws.com"}

// ofGroups are labels in those domains that only nodes of node groups have.
var ofGroups = []string{
	"eks.amazonaws.com/nodegroup", "eks.amazonaws.com/nodegroup-image", "eks.amazonaws.com/capacityType",
	"eks.amazonaws.com/sourceLaunchTemplateId",
}

// onlyElsewhere reports whether no node of Karpenter has a label: its key is in no NodePool, and it is not one that every
// node may have.
func (f *Facts) onlyElsewhere(key string) bool {
	if slices.Contains(f.PoolKeys, key) {
		return false
	}
	if slices.Contains(ofGroups, key) {
		return true
	}
	domain, _, prefixed := strings.Cut(key, "/")
	return !prefixed || !slices.ContainsFunc(wellKnown, func(known string) bool {
		return domain == known || strings.HasSuffix(domain, "."+known)
	})
}

// schema is the part of a JSON schema that says which properties there are.
type schema struct {
	Ref         string            `json:"$ref"`
	Properties  map[string]schema `json:"properties"`
	Definitions map[string]schema `json:"definitions"`
	Defs        map[string]schema `json:"$defs"`
}

// AffinityPath returns where the configuration values of an add-on have the affinity of its Deployment, by the JSON schema
// that EKS publishes; nil if they have none. Errors: the text is no JSON.
func AffinityPath(text string) ([]string, error) {
	if text == "" {
		return nil, nil
	}
	var root schema
	if err := json.Unmarshal([]byte(text), &root); err != nil {
		return nil, fmt.Errorf("read the schema of an add-on's configuration: %w", err)
	}
	at := root.resolve(root)
	if _, ok := at.Properties["affinity"]; ok {
		return []string{"affinity"}, nil
	}
	if _, ok := root.resolve(at.Properties["controller"]).Properties["affinity"]; ok {
		return []string{"controller", "affinity"}, nil
	}
	return nil, nil
}

// resolve follows references to definitions of the root.
func (s schema) resolve(one schema) schema {
	for range 8 { // references may form a circle
		name, ok := strings.CutPrefix(one.Ref, "#/definitions/")
		next, found := s.Definitions[name]
		if !ok {
			name, ok = strings.CutPrefix(one.Ref, "#/$defs/")
			next, found = s.Defs[name]
		}
		if !ok || !found {
			return one
		}
		one = next
	}
	return one
}

// PinValues returns the configuration values of an add-on, JSON or YAML, with a pin, as JSON; and Added if they had no
// affinity, else Merged. live is the affinity of the add-on's Deployment: it stays in force, which the values would replace.
// Errors: the values cannot be parsed.
func PinValues(values string, at []string, live *corev1.Affinity) (pinned, mode string, err error) {
	root, parent, affinity, err := affinityIn(values, at)
	if err != nil {
		return "", "", err
	}
	mode = Merged
	if affinity == nil {
		affinity, mode = live, Added
	}
	parent[at[len(at)-1]] = Pin(affinity)
	text, err := json.Marshal(root)
	return string(text), mode, err
}

// UnpinValues is the reverse of PinValues, by the mode that it has returned.
func UnpinValues(values string, at []string, mode string) (string, error) {
	root, parent, affinity, err := affinityIn(values, at)
	if err != nil {
		return "", err
	}
	key := at[len(at)-1]
	if rest := Unpin(affinity); mode == Added || rest == nil {
		delete(parent, key)
	} else {
		parent[key] = rest
	}
	for i := len(at) - 1; i > 0; i-- { // parents that only had the affinity
		above := root
		for _, name := range at[:i-1] {
			above, _ = above[name].(map[string]any)
		}
		if child, ok := above[at[i-1]].(map[string]any); ok && len(child) == 0 {
			delete(above, at[i-1])
		}
	}
	text, err := json.Marshal(root)
	return string(text), err
}

// ValuesPinned reports whether the configuration values of an add-on have the pin.
func ValuesPinned(values string, at []string) bool {
	_, _, affinity, err := affinityIn(values, at)
	return err == nil && IsPinned(affinity)
}

// affinityIn parses configuration values, and returns the parent of the affinity in them, which is created if it is missing.
func affinityIn(values string, at []string) (root, parent map[string]any, affinity *corev1.Affinity, err error) {
	root = map[string]any{}
	if err := yaml.Unmarshal([]byte(values), &root); err != nil {
		return nil, nil, nil, fmt.Errorf("read the configuration values of an add-on: %w", err)
	}
	if root == nil {
		root = map[string]any{}
	}
	parent = root
	for _, name := range at[:len(at)-1] {
		child, ok := parent[name].(map[string]any)
		if !ok {
			child = map[string]any{}
			parent[name] = child
		}
		parent = child
	}
	if found, ok := parent[at[len(at)-1]]; ok && found != nil {
		text, err := json.Marshal(found)
		if err != nil {
			return nil, nil, nil, err
		}
		affinity = &corev1.Affinity{}
		if err := json.Unmarshal(text, affinity); err != nil {
			return nil, nil, nil, fmt.Errorf("read the affinity in the configuration values of an add-on: %w", err)
		}
	}
	return root, parent, affinity, nil
}
