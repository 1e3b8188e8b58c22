package conversion

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Places in an EC2NodeClass of v1.
const (
	atTerms   = "amiSelectorTerms"
	atFamily  = "amiFamily"
	atOptions = "metadataOptions"
	atDisks   = "blockDeviceMappings"
)

// versionAnnotation is written onto an EC2NodeClass by Karpenter 1.0 if it is read as v1beta1.
const versionAnnotation = "compatibility.karpenter.k8s.aws/v1-alias-version"

// aliased are the AMI families that v1 has an alias for.
var aliased = []string{"AL2", "AL2023", "Bottlerocket", "Windows2019", "Windows2022"}

// terms are the selectors of v1alpha1, and the lists of v1.
var terms = map[string]string{
	"subnetSelector": "subnetSelectorTerms", "securityGroupSelector": "securityGroupSelectorTerms", "amiSelector": atTerms,
}

// classFields are the fields of an AWSNodeTemplate or a v1beta1 EC2NodeClass that v1 has in the same place.
var classFields = map[string][]string{
	nodeTemplate: {"userData", "context", "detailedMonitoring", "instanceProfile"},
	betaClass: {
		"userData", "context", "detailedMonitoring", "instanceProfile", "role", "subnetSelectorTerms", "securityGroupSelectorTerms",
		"associatePublicIPAddress", "instanceStorePolicy",
	},
}

// class converts an AWSNodeTemplate or an EC2NodeClass; pools stay as they are. A class of v1 is only opened, for a copy.
func (c *converter) class(d *chunk) error {
	var root *outline
	var err error
	switch d.kind {
	case nodeTemplate, betaClass:
		if root, err = d.start(classVersion, classKind); err == nil {
			err = c.fromClass(d, root)
		}
	case class:
		if root, err = parseOutline(d.lines); err == nil {
			d.setKubelet(root)
		}
	default:
		return nil
	}
	if err == nil {
		d.outline = root
	}
	return err
}

// setKubelet sets the kubelet settings of a class.
func (c *chunk) setKubelet(root *outline) {
	spec := root.mapAt("spec")
	spec.remove(func(f *field) bool { return f.key == "kubelet" })
	if c.kubelet != nil {
		spec.put(c.kubelet, "kubelet")
	}
}

// fromClass converts the spec of a class.
func (c *converter) fromClass(d *chunk, root *outline) error {
	old := root.get("spec")
	if old == nil {
		return nil
	}
	spec, err := old.open()
	if err != nil {
		return err
	}
	if err := c.classSpec(d, spec, "spec."); err != nil {
		return err
	}
	if d.kubelet != nil {
		spec.put(d.kubelet, "kubelet")
	}
	return nil
}

// providerPath is where a Provisioner has the fields of an AWSNodeTemplate.
const providerPath = "spec.provider."

// ofProvider corrects where a field is that was moved into another definition.
func (f *Field) ofProvider(object string) {
	if f.Result != Mapped && f.Result != Moved && f.Result != Added {
		return
	}
	to := f.To
	if to == "" {
		to = f.Path
	}
	to = "spec." + strings.TrimPrefix(to, providerPath)
	f.Object = object
	if f.Result == Added {
		f.Path = to
		return
	}
	f.Result, f.To = Moved, to
}

// provider makes an EC2NodeClass of the settings in a Provisioner, and refers to it.
func (c *converter) provider(d *chunk, root *outline, f *field) error {
	spec, err := f.open()
	if err != nil {
		return err
	}
	name := d.name
	if c.named(name, true) != nil {
		name += "-provider"
	}
	inline, before := *d, len(d.object.Fields)
	inline.kind, inline.name = nodeTemplate, name
	if err := c.classSpec(&inline, spec, providerPath); err != nil {
		return err
	}
	for i := range d.object.Fields[before:] {
		d.object.Fields[before+i].ofProvider(classKind + "/" + name)
	}
	made := &outline{fields: []*field{
		newField("apiVersion", text(classVersion)), newField("kind", text(classKind)), newField("metadata", pairs("name", name)),
		{key: "spec", written: "spec", text: []string{""}, child: spec},
	}}
	spec.step = 2
	made.fields[0].head = f.head
	d.more = append(d.more, made)
	d.provider = made
	d.object.Becomes = append(d.object.Becomes, classKind+"/"+name)
	d.add(Field{
		Path: "spec.provider", Line: d.at(f), Result: Moved, To: strings.Join(atClass, "."), Object: classKind + "/" + name,
		Reason: "a definition of its own, after this one",
	})
	root.put(newField("nodeClassRef", pairs("group", classGroup, "kind", classKind, "name", name)), atClass...)
	return nil
}

// classSpec converts the fields of a spec, whose path ends with a dot.
func (c *converter) classSpec(d *chunk, spec *outline, path string) error {
	fields := spec.fields
	spec.fields = nil
	family := familyOf(fields, d.kind)
	for _, f := range fields {
		if isNull(f.node) {
			continue
		}
		if err := c.classField(d, spec, f, path, family); err != nil {
			return err
		}
	}
	if spec.get(atTerms) == nil && spec.get(atFamily) == nil && family == "AL2" && !d.undecided(path+atFamily) {
		d.add(Field{Path: path + atTerms, Result: Added, Value: "al2@latest", Reason: "AL2 is the default of v1alpha1; " + al2})
		spec.put(newField(atTerms, lines(pairs("alias", "al2@latest"))), atTerms)
	}
	d.identity(c.options, spec, path)
	d.options(spec, path)
	return nil
}

// undecided reports whether a field needs a decision.
func (c *chunk) undecided(path string) bool {
	return slices.ContainsFunc(c.object.Fields, func(f Field) bool { return f.Result == Decision && f.Path == path })
}

// familyOf returns the AMI family; v1alpha1 has a default.
func familyOf(fields []*field, kind string) string {
	for _, f := range fields {
		if f.key == atFamily && !isNull(f.node) {
			return f.node.Value
		}
	}
	if kind == nodeTemplate {
		return "AL2"
	}
	return ""
}

// classField converts one field of the spec of a class.
func (c *converter) classField(d *chunk, spec *outline, f *field, path string, family string) error {
	at := path + f.key
	keep := func() {
		d.keep(f, at)
		spec.put(f, f.key)
	}
	if slices.Contains(classFields[d.kind], f.key) {
		keep()
		return nil
	}
	if d.kind == nodeTemplate && d.alphaField(spec, f, path, family) {
		return nil
	}
	switch f.key {
	case atFamily:
		d.family(spec, f, at, d.selects())
	case atTerms:
		if d.kind == nodeTemplate {
			d.unknown(f, at)
		} else if len(f.node.Content) == 0 {
			d.add(Field{Path: at, Line: d.at(f), Result: Dropped, Reason: "it is empty"})
		} else {
			keep()
		}
	case "tags":
		d.tags(spec, f, at)
	case atDisks:
		d.disks(spec, f, at)
	case atOptions:
		return d.partialOptions(spec, f, at)
	default:
		d.unknown(f, at)
	}
	return nil
}

// alphaField converts a field that only v1alpha1 has, and reports whether it is one.
func (c *chunk) alphaField(spec *outline, f *field, path, family string) bool {
	key, at := f.key, path+f.key
	switch {
	case terms[key] != "":
		c.selector(spec, f, at)
		if key == "amiSelector" && !c.hasField(atFamily) {
			c.add(Field{Path: path + atFamily, Result: Added, Value: family, Reason: "the default of v1alpha1"})
			spec.put(newField(atFamily, text(family)), atFamily)
		}
	case key == "associatePublicIpAddress":
		c.add(Field{Path: at, Line: c.at(f), Result: Moved, To: path + "associatePublicIPAddress"})
		spec.put(f, "associatePublicIPAddress")
	case key == "launchTemplate" || key == "launchTemplateName":
		c.add(Field{
			Path: at, Line: c.at(f), Result: Refused,
			Reason: "Karpenter creates its own launch templates: write what this one contains into amiSelector, " +
				"securityGroupSelector, instanceProfile, blockDeviceMappings, metadataOptions and userData, remove the field, and convert again",
		})
	case key == "apiVersion" || key == "kind":
		c.add(Field{Path: at, Line: c.at(f), Result: Dropped, Reason: "the EC2NodeClass has its own"})
	default:
		return false
	}
	return true
}

// hasField reports whether the spec in the file has a field.
func (c *chunk) hasField(key string) bool {
	spec, _ := c.value["spec"].(map[string]any)
	if provider, ok := spec["provider"].(map[string]any); ok {
		spec = provider
	}
	return spec[key] != nil
}

// selects reports whether a class selects its AMIs itself.
func (c *chunk) selects() bool {
	if c.kind == nodeTemplate {
		return c.hasField("amiSelector")
	}
	spec, _ := c.value["spec"].(map[string]any)
	list, _ := spec[atTerms].([]any)
	return len(list) > 0
}

const (
	al2    = "AWS publishes no AL2 AMIs for Kubernetes 1.33 and later"
	custom = "v1 expects that the user data of Custom registers nodes with the taint karpenter.sh/unregistered:NoExecute"
)

// family converts amiFamily. Source: EC2NodeClass.ConvertFrom in karpenter-provider-aws 1.0.8,
// pkg/apis/v1/ec2nodeclass_conversion.go.
func (c *chunk) family(spec *outline, f *field, path string, selects bool) {
	family := f.node.Value
	at := Field{Path: path, Line: c.at(f), Result: Mapped}
	switch {
	case slices.Contains(aliased, family) && !selects:
		c.alias(spec, f, at)
		return
	case family == "Ubuntu" && selects:
		at.Value, at.Reason = "AL2", "v1 has no family Ubuntu: AL2 has the same user data"
		f.set(text("AL2"))
		defer c.ubuntuDisks(spec, path)
	case family == "Ubuntu":
		at.Result = Decision
		at.Reason = "v1 has no family Ubuntu, and no alias for its AMIs: select them by id, name or tags in " + c.selectorName() +
			", and convert again"
	case family == "Custom" && !selects:
		at.Result, at.Reason = Decision, "Custom needs AMIs: select them in "+c.selectorName()+", and convert again"
	case family == "Custom":
		if spec, _ := c.value["spec"].(map[string]any); !strings.Contains(fmt.Sprint(spec["userData"]), "karpenter.sh/unregistered") {
			at.Reason = custom
		}
	case !slices.Contains(aliased, family):
		at.Result, at.Reason = Decision, "no AMI family: write one of "+strings.Join(aliased, ", ")+", Custom"
	}
	c.add(at)
	spec.put(f, atFamily)
}

// alias writes the alias of an AMI family.
func (c *chunk) alias(spec *outline, f *field, at Field) {
	family, version := f.node.Value, "latest"
	metadata, _ := c.value["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	if pinned, ok := annotations[versionAnnotation].(string); ok && pinned != "" {
		version = pinned
	}
	alias := strings.ToLower(family) + "@" + version
	at.Result, at.To, at.Value = Moved, strings.TrimSuffix(at.Path, atFamily)+atTerms, "alias "+alias
	if family == "AL2" {
		at.Reason = al2
	}
	c.add(at)
	f.rename(atTerms)
	f.set(lines(pairs("alias", alias)))
	spec.put(f, atTerms)
}

func (c *chunk) selectorName() string {
	if c.kind == nodeTemplate {
		return "amiSelector"
	}
	return atTerms
}

// ubuntuDisks adds the disk that Karpenter gave to nodes of the family Ubuntu.
func (c *chunk) ubuntuDisks(spec *outline, path string) {
	if c.hasField(atDisks) {
		return
	}
	ebs := pairs("encrypted", &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: "true"}, "volumeType", "gp3", "volumeSize", "20Gi")
	root := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: "true"}
	c.add(Field{
		Path: strings.TrimSuffix(path, atFamily) + atDisks, Result: Added, Value: "/dev/sda1, 20Gi, gp3, encrypted",
		Reason: "the default for the family Ubuntu",
	})
	spec.put(newField(atDisks, lines(pairs("deviceName", "/dev/sda1", "rootVolume", root, "ebs", ebs))), atDisks)
}

// selector converts a map that selects by tags and by special keys to terms. Each combination of the values in a list
// becomes a term. Source: pkg/utils/nodeclass/nodeclass.go in karpenter-provider-aws 0.32.
func (c *chunk) selector(spec *outline, f *field, path string) {
	to := terms[f.key]
	at := Field{Path: path, Line: c.at(f), Result: Moved, To: strings.TrimSuffix(path, f.key) + to}
	if f.node.Kind != yaml.MappingNode || len(f.node.Content) == 0 {
		at.Result, at.Reason = Decision, "not a map that selects anything: write one"
		c.add(at)
		return
	}
	made, reason, ok := selectorTerms(f.node, f.key == "amiSelector")
	at.Reason = reason
	if !ok {
		at.Result = Decision
		c.add(at)
		return
	}
	c.add(at)
	f.rename(to)
	f.set(lines(made...))
	spec.put(f, to)
}

// maxTerms is how many terms a selector of v1 may have.
const maxTerms = 30

// selectorTerms returns the terms of a selector. ok is false if v1 has none that select the same; reason is what to do
// then, and otherwise what to know.
func selectorTerms(selector *yaml.Node, ofAMIs bool) (made []*yaml.Node, reason string, ok bool) {
	combinations, tags := []*yaml.Node{pairs()}, []*yaml.Node{pairs()}
	for i := 0; i+1 < len(selector.Content); i += 2 {
		key, value := selector.Content[i].Value, selector.Content[i+1].Value
		condition := conditionOf(key, ofAMIs)
		switch {
		case condition != "":
			combinations = combine(combinations, condition, splitList(value))
		case value == "":
			reason = "'*' selects all values of a tag"
			tags = combine(tags, key, []string{"*"})
		default:
			tags = combine(tags, key, splitList(value))
		}
		if len(tags)*len(combinations) > maxTerms {
			return nil, fmt.Sprintf("more than %d combinations, which v1 does not accept: select by another tag", maxTerms), false
		}
	}
	tagged := len(tags[0].Content) > 0
	if lookup(combinations[0], "id") != nil && (tagged || len(combinations[0].Content) > 2) {
		return nil, "v1 accepts no other condition beside ids: keep only the ids, or only the other ones", false
	}
	for _, term := range combinations {
		for _, set := range tags {
			one := pairs()
			one.Content = append(one.Content, term.Content...)
			if tagged {
				one.Content = append(one.Content, text("tags"), set)
			}
			made = append(made, one)
		}
	}
	return made, reason, true
}

// conditionOf returns the field of a term for a special key of a selector; empty for a tag.
func conditionOf(key string, ofAMIs bool) string {
	switch {
	case key == "aws-ids" || key == "aws::ids":
		return "id"
	case ofAMIs && key == "aws::name":
		return "name"
	case ofAMIs && key == "aws::owners":
		return "owner"
	}
	return ""
}

// combine adds a key with each of the values to each of the maps.
func combine(maps []*yaml.Node, key string, values []string) (made []*yaml.Node) {
	for _, value := range values {
		for _, one := range maps {
			with := pairs()
			with.Content = append(slices.Clone(one.Content), text(key), text(value))
			made = append(made, with)
		}
	}
	return made
}

// splitList splits a list of values that are separated by commas.
func splitList(value string) []string {
	all := strings.Split(value, ",")
	for i := range all {
		all[i] = strings.TrimSpace(all[i])
	}
	return all
}

// tags converts the tags of instances.
func (c *chunk) tags(spec *outline, f *field, path string) {
	at := Field{Path: path, Line: c.at(f), Result: Mapped}
	quoted, changed := quoteNumbers(f.node)
	if changed {
		at.Reason = "values are strings"
		f.set(quoted)
	}
	if hasKey(f.node, func(key string) bool { return key == "eks:eks-cluster-name" }) {
		at.Result, at.Reason = Decision, "v1 refuses the tag eks:eks-cluster-name, which Karpenter sets itself: remove it"
	}
	c.add(at)
	spec.put(f, "tags")
}

// disks converts the disks of instances.
func (c *chunk) disks(spec *outline, f *field, path string) {
	made := *f.node
	made.Content = nil
	for i, disk := range f.node.Content {
		left, had := without(disk, "virtualName")
		if had {
			c.add(Field{
				Path: fmt.Sprintf("%s[%d].virtualName", path, i), Line: c.lineOf(lookup(disk, "virtualName").Line), Result: Dropped,
				Reason: "instance stores have no names; v1 has spec.instanceStorePolicy for them",
			})
		}
		if !had || lookup(left, "ebs") != nil {
			made.Content = append(made.Content, left)
		}
	}
	c.keep(f, path)
	if !slices.Equal(made.Content, f.node.Content) {
		f.set(&made)
	}
	if len(made.Content) > 0 {
		spec.put(f, atDisks)
	}
}

// identity adds the instance profile or role that v1alpha1 took from Karpenter's settings.
func (c *chunk) identity(options Options, spec *outline, path string) {
	profile, role := spec.get("instanceProfile"), spec.get("role")
	at := Field{Result: Added, Reason: "v1alpha1 used the setting aws.defaultInstanceProfile of Karpenter"}
	switch {
	case profile != nil && role != nil:
		c.add(Field{
			Path: path + "role", Line: c.at(role), Result: Decision, Reason: "v1 accepts either role or instanceProfile: remove one of them",
		})
	case profile != nil || role != nil:
	case c.kind == nodeTemplate && options.Role != "":
		at.Path, at.Value = path+"role", options.Role
		c.add(at)
		spec.put(newField("role", text(options.Role)), "role")
	case c.kind == nodeTemplate && options.InstanceProfile != "":
		at.Path, at.Value = path+"instanceProfile", options.InstanceProfile
		c.add(at)
		spec.put(newField("instanceProfile", text(options.InstanceProfile)), "instanceProfile")
	case c.kind == nodeTemplate:
		c.add(Field{
			Path: path + "instanceProfile", Line: c.lineOf(0), Result: Decision,
			Reason: "v1 has no default: name the profile of Karpenter's setting aws.defaultInstanceProfile with --instance-profile, " +
				"or the nodes' role with --role",
		})
	default:
		c.add(Field{Path: path + "role", Line: c.lineOf(0), Result: Decision, Reason: "neither role nor instanceProfile: add one of them"})
	}
}

// options adds the access to instance metadata that earlier versions gave by default. The default of v1 for
// httpPutResponseHopLimit is 1.
func (c *chunk) options(spec *outline, path string) {
	if spec.get(atOptions) != nil {
		return
	}
	c.add(Field{
		Path: path + atOptions, Result: Added, Value: "httpPutResponseHopLimit 2",
		Reason: "the default of earlier versions, with which containers can read instance metadata; that of v1 is 1",
	})
	spec.put(newField(atOptions, pairs(
		"httpEndpoint", "enabled", "httpProtocolIPv6", "disabled", "httpPutResponseHopLimit", number(2), "httpTokens", "required",
	)), atOptions)
}

// partialOptions adds what metadataOptions do not contain. For v1beta1 the CRD had defaults; v1alpha1 left them to EC2.
func (c *chunk) partialOptions(spec *outline, f *field, path string) error {
	if f.node.Kind != yaml.MappingNode {
		return errForm
	}
	c.keep(f, path)
	spec.put(f, atOptions)
	key, value, reason := "httpPutResponseHopLimit", number(2), "the default of v1beta1; that of v1 is 1"
	if c.kind == nodeTemplate {
		key, value = "httpTokens", text("optional")
		reason = "v1alpha1 left it to EC2, whose default is optional unless the AMI or the account requires tokens; the default of v1 is required"
	}
	if lookup(f.node, key) != nil {
		return nil
	}
	options, err := f.open()
	if err != nil {
		return err
	}
	c.add(Field{Path: path + "." + key, Result: Added, Value: value.Value, Reason: reason})
	options.put(newField(key, value), key)
	return nil
}
