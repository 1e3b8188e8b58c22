package conversion

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// fromBetaPool converts the spec of a NodePool of v1beta1.
func (c *converter) fromBetaPool(d *chunk, root *outline) error {
	spec := root.get("spec")
	if spec == nil {
		return nil
	}
	fields, err := spec.open()
	if err != nil {
		return err
	}
	for _, f := range slices.Clone(fields.fields) {
		switch f.key {
		case "template":
			err = c.betaTemplate(d, root, f)
		case "disruption", "limits", "weight":
			if f.key != "disruption" {
				d.keep(f, "spec."+f.key)
			}
		default:
			d.unknown(f, "spec."+f.key)
		}
		if err != nil {
			return err
		}
	}
	if fields.get("template") == nil {
		d.add(Field{Path: "spec.template", Line: d.lineOf(0), Result: Decision, Reason: "it is missing: add it"})
	}
	return d.betaDisruption(root)
}

// betaTemplate converts the template.
func (c *converter) betaTemplate(d *chunk, root *outline, f *field) error {
	if isNull(f.node) {
		return nil
	}
	template, err := f.open()
	if err != nil {
		return err
	}
	for _, one := range slices.Clone(template.fields) {
		switch one.key {
		case "metadata":
			err = d.betaTemplateMetadata(one)
		case "spec":
			err = c.betaTemplateSpec(d, root, one)
		default:
			d.unknown(one, "spec.template."+one.key)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// betaTemplateMetadata reports labels and annotations of nodes. They are hashed: another annotation replaces nodes.
func (c *chunk) betaTemplateMetadata(f *field) error {
	if isNull(f.node) {
		return nil
	}
	path := "spec.template.metadata."
	if f.node.Kind != yaml.MappingNode {
		return errForm
	}
	for i := 0; i+1 < len(f.node.Content); i += 2 {
		key, value := f.node.Content[i], f.node.Content[i+1]
		line := c.lineOf(key.Line)
		switch {
		case key.Value != "labels" && key.Value != "annotations":
			c.add(Field{Path: path + key.Value, Line: line, Result: Decision, Reason: "v1 has only labels and annotations there: remove it"})
		case key.Value == "annotations" && lookup(value, doNotConsolidate) != nil:
			c.add(Field{
				Path: path + "annotations[" + doNotConsolidate + "]", Line: c.lineOf(lookup(value, doNotConsolidate).Line), Result: Decision,
				Reason: "v1 ignores it: rename it to " + doNotDisrupt + ", or remove it; both replace the nodes",
			})
		default:
			c.add(Field{Path: path + key.Value, Line: line, Result: Mapped})
		}
	}
	return nil
}

// betaTemplateSpec converts the spec of the template.
func (c *converter) betaTemplateSpec(d *chunk, root *outline, f *field) error {
	if isNull(f.node) {
		return nil
	}
	spec, err := f.open()
	if err != nil {
		return err
	}
	path := "spec.template.spec."
	for _, one := range slices.Clone(spec.fields) {
		switch one.key {
		case "taints", "startupTaints", "requirements":
			d.keep(one, path+one.key)
		case "nodeClassRef":
			if err := d.betaReference(one); err != nil {
				return err
			}
		case "kubelet":
			spec.drop(one)
			if !isNull(one.node) {
				d.takeKubelet(one)
			}
		case "resources":
			spec.drop(one)
			d.add(Field{Path: path + one.key, Line: d.at(one), Result: Dropped, Reason: "Karpenter did not read it in a NodePool"})
		default:
			d.unknown(one, path+one.key)
		}
	}
	if spec.get("nodeClassRef") == nil {
		d.add(Field{Path: path + "nodeClassRef", Line: d.at(f), Result: Decision, Reason: "it is missing: name the EC2NodeClass"})
	}
	return nil
}

// betaReference converts nodeClassRef, in place.
func (c *chunk) betaReference(f *field) error {
	if isNull(f.node) {
		return nil
	}
	ref, err := f.open()
	if err != nil {
		return err
	}
	path := strings.Join(atClass, ".")
	at := Field{Path: path, Line: c.at(f), Result: Mapped, Value: "group " + classGroup + " instead of apiVersion"}
	if kind := ref.get("kind"); kind != nil && kind.node.Value != classKind {
		at.Result, at.Value, at.Reason = Decision, "", kind.node.Value+" is not an EC2NodeClass: name one"
	}
	version := ref.get("apiVersion")
	if version != nil {
		group, _, _ := strings.Cut(version.node.Value, "/")
		if group != classGroup {
			at.Result, at.Value, at.Reason = Decision, "", group+" is not the API group of EC2NodeClasses: "+classGroup
		}
		version.rename("group")
		version.set(text(group))
	} else {
		ref.fields = append([]*field{newField("group", text(classGroup))}, ref.fields...)
	}
	if ref.get("kind") == nil {
		ref.fields = slices.Insert(ref.fields, 1, newField("kind", text(classKind)))
	}
	if c.ref = ref.get("name"); c.ref == nil {
		at.Result, at.Value, at.Reason = Decision, "", "the name of the EC2NodeClass is missing"
	}
	c.add(at)
	return nil
}

// betaDisruption converts the disruption settings. Defaults: NodePoolSpec.Disruption in karpenter 1.0.8,
// pkg/apis/v1beta1/nodepool.go.
func (c *chunk) betaDisruption(root *outline) error {
	spec, err := root.get("spec").open()
	if err != nil {
		return err
	}
	disruption := &outline{}
	old := spec.get("disruption")
	if old != nil {
		if disruption, err = old.open(); err != nil {
			return err
		}
	}
	for _, f := range slices.Clone(disruption.fields) {
		switch f.key {
		case "budgets":
			c.keep(f, "spec.disruption.budgets")
		case "expireAfter":
			disruption.drop(f)
			if !isNull(f.node) {
				c.add(Field{
					Path: "spec.disruption.expireAfter", Line: c.at(f), Result: Moved, To: strings.Join(atExpireAfter, "."), Reason: forceful,
				})
				root.put(f, atExpireAfter...)
			}
		case "consolidationPolicy", "consolidateAfter":
		default:
			c.unknown(f, "spec.disruption."+f.key)
		}
	}
	c.betaPolicy(root, disruption)
	if disruption.get("expireAfter") == nil && !c.has(root, atExpireAfter) {
		c.add(Field{Path: strings.Join(atExpireAfter, "."), Result: Added, Value: "720h", Reason: "the default of v1beta1; " + forceful})
		root.put(newField("expireAfter", text("720h")), atExpireAfter...)
	}
	return nil
}

// has reports whether the root has a field.
func (c *chunk) has(root *outline, path []string) bool {
	at := root
	for _, key := range path[:len(path)-1] {
		f := at.get(key)
		if f == nil || f.child == nil {
			return false
		}
		at = f.child
	}
	return at.get(path[len(path)-1]) != nil
}

// betaPolicy converts when nodes are consolidated.
func (c *chunk) betaPolicy(root, disruption *outline) {
	const wasAlways = "WhenUnderutilized"
	policy, after := disruption.get("consolidationPolicy"), disruption.get("consolidateAfter")
	at := Field{Path: strings.Join(atPolicy, "."), Result: Mapped}
	switch {
	case policy == nil:
		at.Result, at.Value, at.Reason = Added, always, "the default of v1beta1, under its new name"
		root.put(newField("consolidationPolicy", text(always)), atPolicy...)
	case policy.node.Value == wasAlways:
		at.Line, at.Value, at.Reason = c.at(policy), always, "its new name"
		policy.set(text(always))
	case policy.node.Value == whenEmpty:
		at.Line = c.at(policy)
		if after == nil {
			at.Result, at.Reason = Decision, "WhenEmpty needs consolidateAfter: add it"
		}
	default:
		at.Line, at.Result, at.Reason = c.at(policy), Decision, "neither "+wasAlways+" nor "+whenEmpty+": write one of them"
	}
	c.add(at)
	switch {
	case after != nil:
		c.keep(after, strings.Join(atConsolidateAfter, "."))
	case at.Result != Decision:
		c.setAfter(root, "0s", "v1beta1 did not wait")
	}
}
