package conversion

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

const (
	poolVersion  = "karpenter.sh/v1"
	classVersion = "karpenter.k8s.aws/v1"
	classGroup   = "karpenter.k8s.aws"
	classKind    = "EC2NodeClass"

	doNotDisrupt     = "karpenter.sh/do-not-disrupt"
	doNotConsolidate = "karpenter.sh/do-not-consolidate"
	doNotEvict       = "karpenter.sh/do-not-evict"
)

// Places in a NodePool of v1.
var (
	atRequirements     = []string{"spec", "template", "spec", "requirements"}
	atClass            = []string{"spec", "template", "spec", "nodeClassRef"}
	atExpireAfter      = []string{"spec", "template", "spec", "expireAfter"}
	atPolicy           = []string{"spec", "disruption", "consolidationPolicy"}
	atConsolidateAfter = []string{"spec", "disruption", "consolidateAfter"}
	atBudgets          = []string{"spec", "disruption", "budgets"}
)

// forceful is what changed about expireAfter.
const forceful = "v1 drains an expired node at once, without waiting for a replacement or a disruption budget"

// pool converts a Provisioner or a NodePool; other documents stay as they are.
func (c *converter) pool(d *chunk) error {
	if d.kind != provisioner && d.kind != betaPool {
		return nil
	}
	root, err := d.start(poolVersion, "NodePool")
	if err != nil {
		return err
	}
	if d.kind == provisioner {
		err = c.fromProvisioner(d, root)
	} else {
		err = c.fromBetaPool(d, root)
	}
	if err == nil {
		d.outline = root
	}
	return err
}

// start opens a document, and sets its apiVersion, kind and metadata.
func (c *chunk) start(apiVersion, kind string) (*outline, error) {
	root, err := parseOutline(c.lines)
	if err != nil {
		return nil, err
	}
	c.object.Fields, c.object.Becomes = nil, []string{kind + "/" + c.name}
	if f := root.get("apiVersion"); f.node.Value != apiVersion {
		f.set(text(apiVersion))
	}
	if f := root.get("kind"); f.node.Value != kind {
		f.set(text(kind))
	}
	for _, f := range root.remove(func(f *field) bool { return f.key == "status" }) {
		c.add(Field{Path: "status", Line: c.at(f), Result: Dropped, Reason: "Karpenter writes it"})
	}
	for _, f := range root.fields {
		if !slices.Contains([]string{"apiVersion", "kind", "metadata", "spec"}, f.key) {
			c.unknown(f, f.key)
		}
	}
	if c.name == "" || root.get("spec") == nil {
		c.add(Field{
			Path: "metadata.name", Line: c.lineOf(0), Result: Decision,
			Reason: "it has no name or no spec, so it is not a whole definition: convert what it is a part of",
		})
		return root, nil
	}
	return root, c.metadata(root)
}

// unknown reports a field that its version of Karpenter does not have.
func (c *chunk) unknown(f *field, path string) {
	c.add(Field{
		Path: path, Line: c.at(f), Result: Decision, Reason: "no field of " + c.object.APIVersion + ": correct its name, or remove it",
	})
}

// keep reports a field that v1 has in the same place.
func (c *chunk) keep(f *field, path string) {
	c.add(Field{Path: path, Line: c.at(f), Result: Mapped})
}

// serverFields are the fields of metadata that the API server writes.
var serverFields = []string{
	"creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "finalizers", "generation", "managedFields",
	"ownerReferences", "resourceVersion", "selfLink", "uid",
}

// controllersAnnotations are prefixes of annotations that controllers and kubectl write onto objects.
var controllersAnnotations = []string{
	"karpenter.sh/provisioner-hash", "karpenter.sh/nodepool-hash", "karpenter.sh/stored-version-migrated", "karpenter.sh/managed-by",
	"karpenter.k8s.aws/nodetemplate-hash", "karpenter.k8s.aws/ec2nodeclass-hash", "compatibility.karpenter.",
	"kubectl.kubernetes.io/last-applied-configuration",
}

// metadata drops what was copied from a cluster.
func (c *chunk) metadata(root *outline) error {
	in := root.get("metadata")
	node := in.node
	written := func(key string) bool {
		return slices.ContainsFunc(controllersAnnotations, func(prefix string) bool { return strings.HasPrefix(key, prefix) })
	}
	ofServer := func(key string) bool { return slices.Contains(serverFields, key) }
	annotations := lookup(node, "annotations")
	for i := 0; i+1 < len(node.Content); i += 2 {
		if key := node.Content[i]; !ofServer(key.Value) {
			c.add(Field{Path: "metadata." + key.Value, Line: c.lineOf(key.Line), Result: Mapped})
		}
	}
	if !hasKey(node, ofServer) && !hasKey(annotations, written) {
		return nil
	}
	metadata, err := in.open()
	if err != nil {
		return err
	}
	for _, f := range metadata.remove(func(f *field) bool { return ofServer(f.key) }) {
		c.add(Field{Path: "metadata." + f.key, Line: c.at(f), Result: Dropped, Reason: "the API server writes it"})
	}
	if !hasKey(annotations, written) {
		return nil
	}
	all, err := metadata.get("annotations").open()
	if err != nil {
		return err
	}
	for _, f := range all.remove(func(f *field) bool { return written(f.key) }) {
		c.add(Field{
			Path: "metadata.annotations[" + f.key + "]", Line: c.at(f), Result: Dropped, Reason: "it was copied from a cluster",
		})
	}
	if len(all.fields) == 0 {
		metadata.drop(metadata.get("annotations"))
	}
	return nil
}

// hasKey reports whether a node is a map with such a key.
func hasKey(node *yaml.Node, is func(string) bool) bool {
	for i := 0; node != nil && node.Kind == yaml.MappingNode && i+1 < len(node.Content); i += 2 {
		if is(node.Content[i].Value) {
			return true
		}
	}
	return false
}

// fromProvisioner converts the spec of a Provisioner.
func (c *converter) fromProvisioner(d *chunk, root *outline) error {
	old := root.get("spec")
	if old == nil {
		return nil
	}
	spec, err := old.open()
	if err != nil {
		return err
	}
	fields := spec.fields
	spec.fields = nil
	consolidates := consolidates(fields)
	for _, f := range fields {
		if isNull(f.node) {
			continue
		}
		if err := c.fromProvisionerField(d, root, f, consolidates); err != nil {
			return err
		}
	}
	c.provisionerDefaults(d, root)
	return nil
}

// consolidates reports whether a Provisioner enables consolidation.
func consolidates(fields []*field) bool {
	i := slices.IndexFunc(fields, func(f *field) bool { return f.key == "consolidation" })
	if i < 0 {
		return false
	}
	enabled := lookup(fields[i].node, "enabled")
	return enabled != nil && enabled.ShortTag() == "!!bool" && strings.EqualFold(enabled.Value, "true")
}

// fromProvisionerField converts one field of the spec of a Provisioner.
func (c *converter) fromProvisionerField(d *chunk, root *outline, f *field, consolidates bool) error {
	path := "spec." + f.key
	move := func(to ...string) {
		d.add(Field{Path: path, Line: d.at(f), Result: Moved, To: strings.Join(to, ".")})
		root.put(f, to...)
	}
	switch f.key {
	case "labels", "taints", "startupTaints":
		at := map[string]string{"labels": "metadata"}[f.key]
		if at == "" {
			at = "spec"
		}
		move("spec", "template", at, f.key)
	case "annotations":
		move("spec", "template", "metadata", "annotations")
		return d.nodeAnnotations(f, path)
	case "requirements":
		move(atRequirements...)
		d.requirements(f)
	case "weight":
		d.keep(f, path)
		root.put(f, "spec", "weight")
	case "kubeletConfiguration":
		d.takeKubelet(f)
	case "limits":
		return d.limits(root, f)
	case "providerRef":
		return d.providerRef(root, f)
	case "provider":
		return c.provider(d, root, f)
	case "ttlSecondsUntilExpired":
		d.duration(root, f, atExpireAfter, forceful)
	case "consolidation":
		d.consolidation(root, f, consolidates)
	case "ttlSecondsAfterEmpty":
		d.afterEmpty(root, f, consolidates)
	default:
		d.unknown(f, path)
	}
	return nil
}

// nodeAnnotations renames the annotation that keeps Karpenter from consolidating a node.
func (c *chunk) nodeAnnotations(f *field, path string) error {
	is := func(key string) bool { return key == doNotConsolidate || key == doNotEvict }
	if f.node.Kind != yaml.MappingNode || !hasKey(f.node, is) {
		return nil
	}
	all, err := f.open()
	if err != nil {
		return err
	}
	for _, one := range slices.Clone(all.fields) {
		at := Field{Path: path + "[" + one.key + "]", Line: c.at(one)}
		switch {
		case one.key == doNotEvict:
			at.Result, at.Reason = Dropped, "an annotation of pods, without effect on nodes"
			all.drop(one)
		case one.key == doNotConsolidate && all.get(doNotDisrupt) != nil:
			at.Result, at.Reason = Dropped, doNotDisrupt+" is set, too"
			all.drop(one)
		case one.key == doNotConsolidate:
			at.Result, at.To, at.Reason = Moved, doNotDisrupt, "in v1 it also keeps Karpenter from replacing a node that has drifted"
			one.rename(doNotDisrupt)
		default:
			continue
		}
		c.add(at)
	}
	return nil
}

// podsLabel is a label of nodes that was removed with v1beta1.
const podsLabel = "karpenter.k8s.aws/instance-pods"

// aliases are old names of labels that Karpenter treats as the new ones.
var aliases = map[string]string{
	"beta.kubernetes.io/arch": "kubernetes.io/arch", "beta.kubernetes.io/os": "kubernetes.io/os",
	"beta.kubernetes.io/instance-type": "node.kubernetes.io/instance-type",
}

// requirements adds the requirements that v1alpha5 added to a Provisioner that does not have them.
// Source: Provisioner.SetDefaults in karpenter-provider-aws 0.31, pkg/apis/v1alpha5/provisioner.go.
func (c *chunk) requirements(f *field) {
	if f.node.Kind != yaml.SequenceNode {
		return // refused when the result is validated
	}
	has := map[string]bool{}
	for _, item := range f.node.Content {
		key := lookup(item, "key")
		if key == nil {
			continue
		}
		name := key.Value
		if alias := aliases[name]; alias != "" {
			name = alias
		}
		if name == podsLabel {
			c.add(Field{
				Path: "spec.requirements[" + podsLabel + "]", Line: c.lineOf(item.Line), Result: Dropped,
				Reason: "nodes no longer have that label: limit pods by spec.kubelet.maxPods of the EC2NodeClass, " +
					"or instance types by karpenter.k8s.aws/instance-cpu",
			})
			continue
		}
		has[name] = true
	}
	f.items(func(item *yaml.Node) bool { key := lookup(item, "key"); return key == nil || key.Value != podsLabel }, c.defaultRequirements(has))
}

func (c *chunk) defaultRequirements(has map[string]bool) (more []*yaml.Node) {
	add := func(key, operator string, values ...string) {
		more = append(more, requirement(key, operator, values...))
		c.add(Field{
			Path: strings.Join(atRequirements, ".") + "[" + key + "]", Result: Added, Value: operator + " " + strings.Join(values, ", "),
			Reason: "the default of v1alpha5",
		})
	}
	if !has["kubernetes.io/os"] {
		add("kubernetes.io/os", "In", "linux")
	}
	if !has["kubernetes.io/arch"] {
		add("kubernetes.io/arch", "In", "amd64")
	}
	if !has["karpenter.sh/capacity-type"] {
		add("karpenter.sh/capacity-type", "In", "on-demand")
	}
	types := []string{
		"node.kubernetes.io/instance-type", classGroup + "/instance-family", classGroup + "/instance-category",
		classGroup + "/instance-generation",
	}
	if !slices.ContainsFunc(types, func(key string) bool { return has[key] }) {
		add(classGroup+"/instance-category", "In", "c", "m", "r")
		add(classGroup+"/instance-generation", "Gt", "2")
	}
	return more
}

// takeKubelet takes the kubelet settings out of a pool.
func (c *chunk) takeKubelet(f *field) {
	node, path := f.node, c.kubeletPath()
	if made, had := without(node, "containerRuntime"); had {
		node = made
		line := c.lineOf(lookup(f.node, "containerRuntime").Line)
		c.add(Field{Path: path + ".containerRuntime", Line: line, Result: Dropped, Reason: "nodes run containerd"})
	}
	for _, key := range []string{"systemReserved", "kubeReserved", "evictionHard", "evictionSoft"} {
		values := lookup(node, key)
		if values == nil {
			continue
		}
		if quoted, changed := quoteNumbers(values); changed {
			made := *node
			made.Content = slices.Clone(node.Content)
			made.Content[slices.Index(made.Content, values)] = quoted
			node = &made
			c.add(Field{Path: path + "." + key, Line: c.lineOf(values.Line), Result: Mapped, Reason: "quantities are strings"})
		}
	}
	if node != f.node {
		f.set(node)
	}
	c.kubelet = f
}

// limits moves the limits of a Provisioner one level up.
func (c *chunk) limits(root *outline, f *field) error {
	outer, err := f.open()
	if err != nil {
		return err
	}
	for _, one := range outer.fields {
		if one.key != "resources" {
			c.unknown(one, "spec.limits."+one.key)
		}
	}
	inner := outer.get("resources")
	if inner == nil {
		return nil
	}
	inner.head = append(f.head, inner.head...)
	c.add(Field{Path: "spec.limits.resources", Line: c.at(inner), Result: Moved, To: "spec.limits"})
	root.put(inner, "spec", "limits")
	return nil
}

// providerRef converts the reference to a class.
func (c *chunk) providerRef(root *outline, f *field) error {
	ref, err := f.open()
	if err != nil {
		return err
	}
	if kind := ref.get("kind"); kind != nil && kind.node.Value != "AWSNodeTemplate" {
		c.add(Field{Path: "spec.providerRef.kind", Line: c.at(kind), Result: Decision, Reason: "not an AWSNodeTemplate: name one"})
	}
	return c.reference(root, f, "spec.providerRef")
}

// reference writes nodeClassRef with the name of a reference to a class.
func (c *chunk) reference(root *outline, f *field, path string) error {
	ref, err := f.open()
	if err != nil {
		return err
	}
	name := ref.get("name")
	if name == nil {
		c.add(Field{Path: path + ".name", Line: c.at(f), Result: Decision, Reason: "the name of the EC2NodeClass is missing"})
		return nil
	}
	f.child = &outline{step: ref.step, foot: ref.foot, fields: []*field{
		newField("group", text(classGroup)), newField("kind", text(classKind)), name,
	}}
	c.ref = name
	c.add(Field{
		Path: path, Line: c.at(f), Result: Moved, To: strings.Join(atClass, "."),
		Value: fmt.Sprintf("group %s, kind %s, name %s", classGroup, classKind, name.node.Value),
	})
	root.put(f, atClass...)
	return nil
}

// duration converts a number of seconds.
func (c *chunk) duration(root *outline, f *field, to []string, reason string) {
	path := "spec." + f.key
	duration, ok := seconds(f.node)
	if !ok {
		c.add(Field{Path: path, Line: c.at(f), Result: Decision, Reason: "not a number of seconds: write one"})
		return
	}
	c.add(Field{Path: path, Line: c.at(f), Result: Moved, To: strings.Join(to, "."), Value: duration, Reason: reason})
	f.set(text(duration))
	root.put(f, to...)
}

const (
	whenEmpty = "WhenEmpty"
	always    = "WhenEmptyOrUnderutilized"
	never     = "Never"
)

// consolidation converts the switch of consolidation.
func (c *chunk) consolidation(root *outline, f *field, on bool) {
	enabled := lookup(f.node, "enabled")
	if !on && enabled != nil && !strings.EqualFold(enabled.Value, "false") {
		c.add(Field{Path: "spec.consolidation.enabled", Line: c.at(f), Result: Decision, Reason: "neither true nor false: write one of them"})
		return
	}
	if !on {
		c.add(Field{Path: "spec.consolidation", Line: c.at(f), Result: Dropped, Reason: "it is off, which spec.disruption expresses otherwise"})
		return
	}
	c.add(Field{Path: "spec.consolidation", Line: c.at(f), Result: Moved, To: strings.Join(atPolicy, "."), Value: always})
	f.key, f.written = "consolidationPolicy", "consolidationPolicy"
	f.set(text(always))
	root.put(f, atPolicy...)
	c.setAfter(root, "0s", "v1alpha5 consolidated without a delay")
}

// setAfter adds consolidateAfter, below the policy.
func (c *chunk) setAfter(root *outline, after, reason string) {
	c.add(Field{Path: strings.Join(atConsolidateAfter, "."), Result: Added, Value: after, Reason: reason})
	disruption := root.mapAt("spec").mapAt("disruption")
	at := slices.IndexFunc(disruption.fields, func(f *field) bool { return f.key == "consolidationPolicy" })
	disruption.fields = slices.Insert(disruption.fields, at+1, newField("consolidateAfter", text(after)))
}

// afterEmpty converts how long Karpenter waits before it terminates an empty node.
func (c *chunk) afterEmpty(root *outline, f *field, consolidates bool) {
	if consolidates {
		c.add(Field{
			Path: "spec.ttlSecondsAfterEmpty", Line: c.at(f), Result: Dropped,
			Reason: "v1alpha5 does not accept it with consolidation, which also terminates empty nodes",
		})
		return
	}
	if _, ok := seconds(f.node); ok {
		c.add(Field{
			Path: strings.Join(atPolicy, "."), Result: Added, Value: whenEmpty,
			Reason: "only empty nodes were terminated, because consolidation is off",
		})
		policy := newField("consolidationPolicy", text(whenEmpty))
		policy.head, f.head = f.head, nil
		root.put(policy, atPolicy...)
	}
	c.duration(root, f, atConsolidateAfter, "")
}

// provisionerDefaults writes the defaults of v1alpha5 that v1 does not have.
func (c *converter) provisionerDefaults(d *chunk, root *outline) {
	has := func(path []string) bool { return d.has(root, path) }
	add := func(path []string, value *yaml.Node, shown, reason string) {
		d.add(Field{Path: strings.Join(path, "."), Result: Added, Value: shown, Reason: reason})
		root.put(newField(path[len(path)-1], value), path...)
	}
	undecided := func(path string) bool {
		return slices.ContainsFunc(d.object.Fields, func(f Field) bool { return f.Result == Decision && strings.HasPrefix(f.Path, path) })
	}
	if !has(atClass) && !undecided("spec.provider") {
		d.add(Field{
			Path: "spec.providerRef", Line: d.lineOf(0), Result: Decision,
			Reason: "neither providerRef nor provider: name the AWSNodeTemplate of its nodes",
		})
	}
	if !has(atRequirements) {
		root.put(newField("requirements", lines(d.defaultRequirements(map[string]bool{})...)), atRequirements...)
	}
	if !has(atExpireAfter) && !undecided("spec.ttlSecondsUntilExpired") {
		add(atExpireAfter, text(never), never, "without ttlSecondsUntilExpired nodes did not expire; the default of v1 is 720h")
	}
	if !has(atPolicy) && !undecided("spec.consolidation") && !undecided("spec.ttlSecondsAfterEmpty") {
		add(atPolicy, text(whenEmpty), whenEmpty, "without ttlSecondsAfterEmpty and consolidation no node was terminated for cost")
		d.setAfter(root, never, "the default of v1 is 0s")
	}
	add(atBudgets, lines(pairs("nodes", "1", "reasons", list(text("Drifted"), text("Underutilized")))), "1 node",
		"v1alpha5 replaced one node at a time; the default of v1 is 10%, also for empty nodes")
}
