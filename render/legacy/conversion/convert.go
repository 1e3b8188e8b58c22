package conversion

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/plumbline-dev/plumbline/internal/shortlist"
	"github.com/plumbline-dev/plumbline/render/legacy"
)

// Options decide what the definitions do not contain.
type Options struct {
	// Role or InstanceProfile is for AWSNodeTemplates without an instance profile, which used the one in Karpenter's
	// settings.
	Role, InstanceProfile string
	// CopyClasses copies an EC2NodeClass if its NodePools have different kubelet settings. The nodes of NodePools that get
	// a copy are replaced.
	CopyClasses bool
}

// maxNamed is how many names a message lists.
const maxNamed = 5

// Convert converts the definitions of earlier versions in files. It changes nothing else in them.
func Convert(files []File, options Options) Conversion {
	rewrite := map[string]bool{}
	for {
		c := &converter{options: options, rewrite: rewrite}
		made, failed := c.convert(files)
		again := false
		for _, key := range failed {
			again = again || !rewrite[key]
			rewrite[key] = true
		}
		if !again {
			return made
		}
	}
}

// converter is one attempt at all files.
type converter struct {
	options Options
	sources []*source
	left    []Left
	// rewrite are documents whose text is written again first, because the lines of their fields could not be told apart.
	rewrite map[string]bool
	failed  []string
}

// key names a document in rewrite.
func (c *chunk) key() string { return fmt.Sprintf("%s:%d", c.file.Name, c.first) }

func (c *converter) convert(files []File) (made Conversion, failed []string) {
	made.Files = []Converted{}
	patches, left := kustomizations(files)
	c.left = append(c.left, left...)
	for _, file := range files {
		c.read(file, patches)
	}
	c.duplicates()
	c.eachDocument(c.pool)
	c.link()
	c.eachDocument(c.class)
	for _, s := range c.sources {
		if file, ok := c.converted(s); ok {
			made.Files = append(made.Files, file)
		}
	}
	made.Left = c.left
	return made, c.failed
}

// read reads a file that has definitions of an earlier version, or classes of v1 that they may refer to.
func (c *converter) read(file File, patches map[string]bool) {
	concerns := earlier.Match(file.Data)
	if concerns && patches[file.Name] {
		return // its kustomization is reported
	}
	if concerns && isTemplate(file.Data) && inChart(file.Name) {
		c.left = append(c.left, template(file))
		return
	}
	s, err := read(file)
	if err != nil {
		if concerns {
			c.left = append(c.left, unreadable(file, err))
		}
		return
	}
	c.sources = append(c.sources, s)
	for _, one := range s.chunks {
		gvk := gvkOf(one.value)
		now, known := legacy.SuccessorOf(gvk)
		if one.kind == "" && (known || gvk.Kind == "NodeClaim" && earlier.MatchString(one.apiVersion)) {
			if now.Hint == "" {
				now.Hint = "Karpenter makes it: leave it out"
			}
			c.left = append(c.left, Left{File: file.Name, Line: one.lineOf(0), What: gvk.Kind + "/" + one.name, Why: now.Hint})
		}
	}
}

// eachDocument calls a function for each document of an earlier version.
func (c *converter) eachDocument(do func(*chunk) error) {
	for _, s := range c.sources {
		for _, one := range s.chunks {
			if one.object == nil {
				continue
			}
			if c.rewrite[one.key()] && one.outline == nil {
				if err := one.reencode(); err != nil {
					c.fail(one)
					continue
				}
			}
			if err := do(one); err != nil {
				c.fail(one)
			}
		}
	}
}

// fail records that the form of a document is not supported: it is written again, and if that fails, refused.
func (c *converter) fail(one *chunk) {
	c.failed = append(c.failed, one.key())
	one.outline = nil
	if c.rewrite[one.key()] {
		_, kind, _ := strings.Cut(one.kind, " ")
		c.left = append(c.left, Left{
			File: one.file.Name, Line: one.lineOf(0), What: kind + "/" + one.name,
			Why: "the form of this document is not supported: write it as plain maps and lists", Blocks: true,
		})
	}
}

// converted returns a file and what became of its definitions.
func (c *converter) converted(s *source) (Converted, bool) {
	made := Converted{Name: s.Name, Before: s.Data, Objects: []Object{}}
	changed := false
	for _, one := range s.chunks {
		changed = changed || one.outline != nil
		if one.object != nil && one.outline != nil {
			slices.SortStableFunc(one.object.Fields, byLine)
			made.Objects = append(made.Objects, *one.object)
		}
		if one.outline == nil {
			continue
		}
		for _, o := range append([]*outline{one.outline}, one.more...) {
			if _, err := one.print(o); err != nil {
				c.fail(one)
				return made, false
			}
		}
	}
	text, err := s.text()
	made.After = text
	return made, changed && err == nil
}

// byLine sorts fields by their lines. What was added comes last.
func byLine(a, b Field) int {
	last := func(f Field) int {
		if f.Line == 0 {
			return math.MaxInt
		}
		return f.Line
	}
	return cmp.Compare(last(a), last(b))
}

// duplicates reports definitions that would have the same kind and name.
func (c *converter) duplicates() {
	becomes := map[string]string{
		provisioner: "NodePool", betaPool: "NodePool", pool: "NodePool",
		nodeTemplate: classKind, betaClass: classKind, class: classKind,
	}
	first := map[string]*chunk{}
	for _, one := range c.documents() {
		name := becomes[one.kind] + "/" + one.name
		other := first[name]
		if other == nil {
			first[name] = one
			continue
		}
		old := one
		if old.object == nil {
			old = other
		}
		if old.object == nil {
			continue // both are of v1
		}
		c.left = append(c.left, Left{
			File: one.file.Name, Line: one.lineOf(0), What: name, Blocks: true,
			Why: fmt.Sprintf("%s:%d defines it, too: remove one of them, or convert them separately", other.file.Name, other.lineOf(0)),
		})
	}
}

// documents returns all documents with a kind, in order.
func (c *converter) documents() (all []*chunk) {
	for _, s := range c.sources {
		for _, one := range s.chunks {
			if one.kind != "" {
				all = append(all, one)
			}
		}
	}
	return all
}

// named returns a class.
func (c *converter) named(name string, beta bool) *chunk {
	var found *chunk
	for _, one := range c.documents() {
		ofBeta := one.kind == betaClass || one.kind == class
		if !ofBeta && one.kind != nodeTemplate || one.name != name {
			continue
		}
		if found == nil || ofBeta == beta {
			found = one
		}
	}
	return found
}

// link moves the kubelet settings of pools into their classes.
func (c *converter) link() {
	var classes []*chunk
	of := map[*chunk][]*chunk{}
	for _, one := range c.documents() {
		if one.provider != nil && one.kubelet != nil {
			one.add(Field{
				Path: one.kubeletPath(), Line: one.at(one.kubelet), Result: Moved, To: "spec.kubelet", Object: one.object.Becomes[1],
			})
			one.provider.put(one.kubelet, "spec", "kubelet")
			continue
		}
		if one.outline == nil || one.ref == nil {
			continue
		}
		found := c.named(one.ref.node.Value, one.kind == betaPool)
		if found == nil {
			if one.kubelet != nil {
				one.add(Field{
					Path: one.kubeletPath(), Line: one.at(one.kubelet), Result: Decision,
					Reason: fmt.Sprintf("v1 has it in EC2NodeClass %s, which is not here: convert them together, or add spec.kubelet there by hand",
						one.ref.node.Value),
				})
			}
			continue
		}
		if of[found] == nil {
			classes = append(classes, found)
		}
		of[found] = append(of[found], one)
	}
	for _, one := range classes {
		c.settle(one, of[one])
	}
}

// kubeletPath is where pools of this kind have their kubelet settings.
func (c *chunk) kubeletPath() string {
	if c.kind == provisioner {
		return "spec.kubeletConfiguration"
	}
	return "spec.template.spec.kubelet"
}

// group are pools with the same kubelet settings; nil if they have none.
type group struct {
	kubelet any
	pools   []*chunk
}

// settle decides which kubelet settings a class gets from its pools.
func (c *converter) settle(of *chunk, pools []*chunk) {
	groups := groupsOf(of, pools, c.documents())
	if len(groups) > 1 && !c.options.CopyClasses {
		for _, one := range pools {
			if one.kubelet == nil {
				continue
			}
			one.add(Field{
				Path: one.kubeletPath(), Line: one.at(one.kubelet), Result: Decision,
				Reason: fmt.Sprintf("v1 has it in EC2NodeClass %s, which would need different settings for NodePools %s: make them equal, "+
					"or use --copy-classes, which gives %s another class and replaces the nodes", of.name, names(pools), namesOf(groups[1:])),
			})
		}
		return
	}
	for i, g := range groups {
		if i == 0 {
			c.giveKubelet(of, g)
			continue
		}
		c.giveCopy(of, g)
	}
}

// groupsOf groups pools by their kubelet settings. The group that keeps the class is the first one: that of the class, if
// it is of v1 and used or has settings, otherwise the largest.
func groupsOf(of *chunk, pools, all []*chunk) []group {
	var groups []group
	if of.kind == class {
		spec, _ := of.value["spec"].(map[string]any)
		used := slices.ContainsFunc(all, func(one *chunk) bool { return one.kind == pool && one.refersTo(of.name) })
		if kubelet := spec["kubelet"]; kubelet != nil || used {
			groups = append(groups, group{kubelet: kubelet})
		}
	}
	fixed := len(groups)
	for _, one := range pools {
		var kubelet any
		if one.kubelet != nil {
			kubelet, _ = one.kubelet.value() // a value that cannot be read is found when the result is
		}
		i := slices.IndexFunc(groups, func(g group) bool { return same(g.kubelet, kubelet) })
		if i < 0 {
			i = len(groups)
			groups = append(groups, group{kubelet: kubelet})
		}
		groups[i].pools = append(groups[i].pools, one)
	}
	slices.SortStableFunc(groups[fixed:], func(a, b group) int { return len(b.pools) - len(a.pools) })
	return groups
}

// refersTo reports whether a pool of v1 refers to a class.
func (c *chunk) refersTo(name string) bool {
	at := any(c.value)
	for _, key := range []string{"spec", "template", "spec", "nodeClassRef", "name"} {
		fields, _ := at.(map[string]any)
		at = fields[key]
	}
	return at == name
}

// giveKubelet gives a class the settings of its pools.
func (c *converter) giveKubelet(of *chunk, g group) {
	reason := ""
	if of.kind == nodeTemplate || of.kind == betaClass || len(g.pools) > 1 {
		reason = sharedBy(g.pools)
	}
	for _, one := range g.pools {
		if one.kubelet == nil {
			continue
		}
		one.add(Field{
			Path: one.kubeletPath(), Line: one.at(one.kubelet), Result: Moved, To: "spec.kubelet",
			Object: "EC2NodeClass/" + of.name, Reason: reason,
		})
		if of.kubelet == nil {
			of.kubelet = one.kubelet
		}
	}
	if of.kind != class || of.kubelet == nil {
		return
	}
	spec, _ := of.value["spec"].(map[string]any)
	if same(spec["kubelet"], g.kubelet) {
		return // an earlier run has added it
	}
	root, err := parseOutline(of.lines)
	if err != nil {
		c.fail(of)
		return
	}
	root.put(of.kubelet, "spec", "kubelet")
	of.outline = root
}

// sharedBy is a sentence about settings that several pools share.
func sharedBy(pools []*chunk) string {
	if len(pools) < 2 {
		return ""
	}
	return "equal in the NodePools " + names(pools)
}

// giveCopy gives pools a copy of their class with their kubelet settings.
func (c *converter) giveCopy(of *chunk, g group) {
	name := of.name + "-" + g.pools[0].name
	made := *of
	made.name, made.more, made.kubelet = name, nil, g.pools[0].kubelet
	object := Object{}
	if of.object != nil {
		object = *of.object
		object.Fields = nil
	}
	made.object = &object
	err := c.class(&made)
	if err != nil || made.outline == nil {
		c.fail(of)
		return
	}
	metadata := made.outline.mapAt("metadata")
	metadata.remove(func(f *field) bool { return f.key == "name" })
	metadata.fields = append([]*field{newField("name", text(name))}, metadata.fields...)
	made.outline.fields[0].head = []string{
		fmt.Sprintf("# A copy of EC2NodeClass %s with the kubelet settings of %s.", of.name, namesOf([]group{g})),
	}
	if of.outline == nil && of.object == nil { // a class of v1 stays as it is
		of.outline, err = parseOutline(of.lines)
	}
	if err != nil {
		c.fail(of)
		return
	}
	of.more = append(of.more, made.outline)
	for _, one := range g.pools {
		one.add(Field{
			Path: one.refPath(), Line: one.at(one.ref), Result: Mapped, Value: name,
			Reason: "a copy of EC2NodeClass " + of.name + ": the nodes of this NodePool are replaced",
		})
		one.ref.set(text(name))
		if one.kubelet != nil {
			one.add(Field{
				Path: one.kubeletPath(), Line: one.at(one.kubelet), Result: Moved, To: "spec.kubelet", Object: "EC2NodeClass/" + name,
			})
		}
	}
	if of.object != nil {
		of.object.Becomes = append(of.object.Becomes, "EC2NodeClass/"+name)
	}
}

func (c *chunk) refPath() string {
	if c.kind == provisioner {
		return "spec.providerRef.name"
	}
	return "spec.template.spec.nodeClassRef.name"
}

// add adds what became of a field.
func (c *chunk) add(f Field) { c.object.Fields = append(c.object.Fields, f) }

// at returns the line of a field in the file.
func (c *chunk) at(f *field) int {
	return c.lineOf(f.origin)
}

func names(pools []*chunk) string {
	all := make([]string, 0, len(pools))
	for _, one := range pools {
		all = append(all, one.name)
	}
	return shortlist.Join(all, maxNamed, ", ")
}

func namesOf(groups []group) string {
	var all []*chunk
	for _, g := range groups {
		all = append(all, g.pools...)
	}
	return "NodePool " + strings.ReplaceAll(names(all), ", ", ", NodePool ")
}

// same reports whether two values are equal.
func same(a, b any) bool { return reflect.DeepEqual(a, b) }
