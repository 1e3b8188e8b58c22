package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dustin/go-humanize/english"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/plumbline-dev/plumbline/internal/shortlist"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

// Rescuer makes NodePools reference a copy of their EC2NodeClass if that was deleted while nodes use it. It caches its
// last result, so that unchanged objects stay identical. The zero value is ready to use.
type Rescuer struct {
	of      *render.Object
	rescues []render.Rescue
	objects []render.Object
}

// Rescued returns the Set with a copy of each class that was deleted while NodeClaims reference it. The NodePools of
// the Set then reference the copy. A rescue lasts as long as the NodePools in Git reference the class: Karpenter
// replaces each node when the name changes, and reverting the name would replace each again.
func (r *Rescuer) Rescued(set *render.Set, live Live, owner Owner) *render.Set {
	rescues := findRescues(set, live, owner)
	if len(rescues) == 0 {
		*r = Rescuer{}
		return set
	}
	of := &set.Objects[0]
	if r.of != of || !slices.EqualFunc(r.rescues, rescues, render.Rescue.Equal) {
		*r = Rescuer{of: of, rescues: rescues, objects: rescued(set.Objects, rescues)}
	}
	with := *set
	with.Objects, with.Rescues = r.objects, r.rescues
	return &with
}

// findRescues returns the classes of the Set whose NodePools need a copy.
func findRescues(set *render.Set, live Live, owner Owner) []render.Rescue {
	deleted, copies := false, map[string][]*Object{}
	for ref, object := range live.Objects {
		if ref.Kind != render.EC2NodeClass {
			continue
		}
		deleted = deleted || terminating(object)
		if of := object.GetAnnotations()[v1alpha1.RescuesAnnotation]; of != "" && owner.Owns(object) && !terminating(object) {
			copies[of] = append(copies[of], object)
		}
	}
	if !deleted && len(copies) == 0 {
		return nil
	}
	n := naming{set: set, live: live, copies: copies, used: sync.OnceValue(live.usedClasses)}
	pools := poolsByClass(set)
	var found []render.Rescue
	for _, object := range set.Objects {
		if object.Ref.Kind != render.EC2NodeClass || len(pools[object.Ref.Name]) == 0 {
			continue
		}
		if name := n.copyOf(object.Ref); name != "" {
			found = append(found, rescueOf(object, name, pools[object.Ref.Name]))
		}
	}
	return found
}

// rescueOf returns the rescue of a class by a copy with this name.
func rescueOf(class render.Object, name string, pools []render.Object) render.Rescue {
	rescue := render.Rescue{Class: class.Ref, By: render.Ref{Kind: render.EC2NodeClass, Name: name}, Origins: []render.Origin{class.Origin}}
	for _, pool := range pools {
		rescue.Pools = append(rescue.Pools, pool.Ref)
		rescue.Origins = append(rescue.Origins, pool.Origin)
	}
	return rescue
}

// poolsByClass returns the NodePools of the Set, by the class that they reference.
func poolsByClass(set *render.Set) map[string][]render.Object {
	pools := map[string][]render.Object{}
	for _, object := range set.Objects {
		if class, ok := render.Reference(object.Ref, object.Desired); ok {
			pools[class.Name] = append(pools[class.Name], object)
		}
	}
	return pools
}

// usedClasses returns the classes that NodePools and NodeClaims reference.
func (l Live) usedClasses() map[string]bool {
	used := map[string]bool{}
	for ref, object := range l.Objects {
		if class, ok := render.Reference(ref, object.Unstructured); ok {
			used[class.Name] = true
		}
	}
	for i := range l.NodeClaims {
		used[l.NodeClaims[i].Class] = true
	}
	return used
}

// naming finds the names of copies of classes.
type naming struct {
	set  *render.Set
	live Live
	// copies are the live copies that are not terminating, by their original class.
	copies map[string][]*Object
	used   func() map[string]bool
}

// copyOf returns the name of the copy that a class has or needs; empty if it needs none. Without NodeClaims it needs
// none: it is deleted at once, and created again.
func (n naming) copyOf(class render.Ref) string {
	copies := n.copies[class.Name]
	slices.SortFunc(copies, func(a, b *Object) int { return cmp.Compare(a.GetName(), b.GetName()) })
	for _, c := range copies {
		if n.used()[c.GetName()] {
			return c.GetName()
		}
	}
	live := n.live.object(class)
	claimed := func(c NodeClaim) bool { return c.Class == class.Name }
	switch {
	case live == nil, !terminating(live), !slices.ContainsFunc(n.live.NodeClaims, claimed):
		return ""
	case len(copies) > 0:
		return copies[0].GetName()
	}
	return n.free(class)
}

// free returns the first unused name for a copy.
func (n naming) free(class render.Ref) string {
	return CopyName(class.Name, func(name string) bool {
		ref := render.Ref{Kind: render.EC2NodeClass, Name: name}
		return n.live.object(ref) != nil || slices.ContainsFunc(n.set.Objects, func(o render.Object) bool { return o.Ref == ref })
	})
}

// CopyName returns the first name for a copy of a class that is not taken. It is also a label value of nodes
// (karpenter.k8s.aws/ec2nodeclass), so it has the length limit of labels.
func CopyName(class string, taken func(name string) bool) string {
	for i := 1; ; i++ {
		suffix := "-rescued"
		if i > 1 {
			suffix += fmt.Sprintf("-%d", i)
		}
		name := class
		if most := validation.LabelValueMaxLength - len(suffix); len(name) > most {
			name = strings.TrimRight(name[:most], ".-")
		}
		if name += suffix; !taken(name) {
			return name
		}
	}
}

// rescued returns the objects of Git with the copies added, and with NodePools that reference these.
func rescued(objects []render.Object, rescues []render.Rescue) []render.Object {
	by, made, has := map[render.Ref]string{}, map[render.Ref]render.Rescue{}, map[render.Ref]bool{}
	for _, r := range rescues {
		made[r.By] = r
		for _, pool := range r.Pools {
			by[pool] = r.By.Name
		}
	}
	for _, object := range objects {
		has[object.Ref] = true
	}
	var all []render.Object
	for _, object := range objects {
		if name := by[object.Ref]; name != "" {
			object = edited(object, func(o *unstructured.Unstructured) { _ = unstructured.SetNestedField(o.Object, name, namePath()...) })
		}
		if r, is := made[object.Ref]; is { // Git contains the copy by now, but its NodePools still reference the class
			object = copied(object, r)
		}
		all = append(all, object)
		for _, r := range rescues {
			if r.Class == object.Ref && !has[r.By] {
				all = append(all, copied(object, r))
			}
		}
	}
	return inOrder(all)
}

// copied returns a class under the name of a copy, annotated as such.
func copied(class render.Object, r render.Rescue) render.Object {
	class.Ref = r.By
	return edited(class, func(o *unstructured.Unstructured) {
		o.SetName(r.By.Name)
		annotations := o.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[v1alpha1.RescuesAnnotation] = r.Class.Name
		o.SetAnnotations(annotations)
	})
}

// edited returns an edited copy of an object of Git.
func edited(object render.Object, edit func(*unstructured.Unstructured)) render.Object {
	object.Desired, object.Defaulted = object.Desired.DeepCopy(), object.Defaulted.DeepCopy()
	edit(object.Desired)
	edit(object.Defaulted)
	return object
}

// namePath returns the field in which a NodePool references its class.
func namePath() []string {
	kind, _ := render.KindOf(render.NodePool)
	return kind.RefPath
}

// RescueWords describes which NodePools reference another class than in Git, why, and which commit updates Git.
func RescueWords(r render.Rescue) string {
	return fmt.Sprintf("%s was deleted while nodes use it: plumbline changes %s to reference %s, a copy of it, until Git sets another class for %s. %s",
		r.Class, english.WordSeries(refNames(r.Pools), "and"), r.By, english.PluralWord(len(r.Pools), "it", "them"), commitWords(r, "rename the class to"))
}

// commitWords describes what a commit has to change, and where. copies describes how the class gets its new name.
func commitWords(r render.Rescue, copies string) string {
	var files []string
	for _, origin := range r.Origins[1:] {
		files = append(files, origin.String())
	}
	return fmt.Sprintf("In one commit, %s %s (%s), and set spec.template.spec.nodeClassRef.name to that in %s",
		copies, r.By.Name, r.Origins[0], someOf(files))
}

// refNames formats the first few Refs.
func refNames(refs []render.Ref) []string {
	var names []string
	for _, ref := range refs {
		names = append(names, ref.String())
	}
	if more := len(names) - maxNamed; more > 0 {
		names = append(names[:maxNamed], english.Plural(more, "more NodePool", ""))
	}
	return names
}

// rescues reports whether a Change of the Plan comes from a rescue: a copy that does not exist, or a NodePool that does
// not reference it yet.
func (m *maker) rescues(c *Change) bool {
	return slices.ContainsFunc(m.rescued, func(r render.Rescue) bool {
		if c.Ref == r.By {
			return c.Live == nil
		}
		if c.Live == nil || !slices.Contains(r.Pools, c.Ref) {
			return false
		}
		names, _ := render.Reference(c.Ref, c.Live)
		return names != r.By
	})
}

// InUse is a class that was deleted while NodePools reference it. Its finalizer waits until no NodeClaim references it;
// meanwhile Karpenter launches nothing from it, and its Ready condition stays True (karpenter-provider-aws
// pkg/controllers/nodeclass/controller.go). That cannot be undone.
type InUse struct {
	Class render.Ref
	// Since is when it was deleted.
	Since time.Time
	// Ours are the NodePools that reference it and are in the Set, or are ours and being removed; Others are all other
	// NodePools that reference it.
	Ours, Others []string
	// NodeClaims is how many reference it.
	NodeClaims int
	// Commit is what a commit has to change in Git so that NodePools of the Set reference a copy. Its Class is empty if
	// that is not in the Set.
	Commit render.Rescue
}

// Message returns what uses the class, and what to do.
func (u InUse) Message() string {
	var holders []string
	for _, pool := range u.Ours {
		holders = append(holders, render.Ref{Kind: render.NodePool, Name: pool}.String())
	}
	for _, pool := range u.Others {
		holders = append(holders, render.Ref{Kind: render.NodePool, Name: pool}.String()+" (not of this NodeSync)")
	}
	if more := len(holders) - maxNamed; more > 0 {
		holders = append(holders[:maxNamed], english.Plural(more, "more NodePool", ""))
	}
	if u.NodeClaims > 0 {
		holders = append(holders, english.Plural(u.NodeClaims, "NodeClaim", ""))
	}
	return fmt.Sprintf("%s is terminating, which cannot be undone, and Karpenter launches no node from it: it is in use by %s. %s: "+
		"Karpenter then replaces their nodes, and the deletion of this class completes", u.Class, strings.Join(holders, ", "), u.remedy())
}

// remedy returns the commit that resolves it.
func (u InUse) remedy() string {
	if u.Commit.Class == (render.Ref{}) || len(u.Commit.Pools) == 0 {
		return "In one commit, add an EC2NodeClass under another name and set spec.template.spec.nodeClassRef.name of these NodePools to it"
	}
	return fmt.Sprintf("%s (plumbline why %s prints the change; with spec.removal.rescue: true plumbline makes it automatically)",
		commitWords(u.Commit, "copy the class to"), u.Class)
}

// Brief returns the Message for a commit status.
func (u InUse) Brief() string {
	pools := slices.Concat(u.Ours, u.Others)
	users := render.Ref{Kind: render.NodePool, Name: pools[0]}.String() + shortlist.More(" ", len(pools)-1)
	return fmt.Sprintf("%s is terminating but in use by %s: add a class under another name and set nodeClassRef to it", u.Class, users)
}

// inUse returns the classes in the Set, or referenced by its NodePools, that were deleted while a NodePool references
// them.
func (m *maker) inUse() []InUse {
	deleted := map[render.Ref]*Object{}
	for ref, live := range m.live.Objects {
		if ref.Kind == render.EC2NodeClass && terminating(live) {
			deleted[ref] = live
		}
	}
	if len(deleted) == 0 {
		return nil
	}
	wanted, users := m.classUsers()
	var found []InUse
	for ref, live := range deleted {
		if !m.inSet[ref] && !wanted[ref] || len(users[ref]) == 0 {
			continue
		}
		u := InUse{Class: ref, Since: live.GetDeletionTimestamp().Time, NodeClaims: len(m.claims()[ref]), Commit: m.commitFor(ref)}
		moves := m.rescueOf(ref) != nil
		for pool, ours := range users[ref] {
			if ours && moves {
				continue
			}
			if ours {
				u.Ours = append(u.Ours, pool)
			} else {
				u.Others = append(u.Others, pool)
			}
		}
		slices.Sort(u.Ours)
		slices.Sort(u.Others)
		if len(u.Ours)+len(u.Others) > 0 {
			found = append(found, u)
		}
	}
	slices.SortFunc(found, func(a, b InUse) int {
		return cmp.Or(a.Since.Compare(b.Since), strings.Compare(a.Class.Name, b.Class.Name))
	})
	return found
}

// commitFor returns what a commit has to change so that the Set's NodePools reference a copy of a class.
func (m *maker) commitFor(class render.Ref) render.Rescue {
	set := &render.Set{Objects: m.objects}
	by := naming{set: set, live: m.live}.free(class)
	pools := poolsByClass(set)[class.Name]
	for _, object := range m.objects {
		if object.Ref == class {
			return rescueOf(object, by, pools)
		}
	}
	return render.Rescue{}
}

// rescueOf returns the rescue of a class; nil if no NodePool references a copy of it.
func (m *maker) rescueOf(class render.Ref) *render.Rescue {
	for i := range m.rescued {
		if m.rescued[i].Class == class {
			return &m.rescued[i]
		}
	}
	return nil
}

// classUsers returns the classes that the Set's NodePools reference, and for each class the names of the NodePools that
// reference it, with whether they are ours.
func (m *maker) classUsers() (wanted map[render.Ref]bool, users map[render.Ref]map[string]bool) {
	wanted, users = map[render.Ref]bool{}, map[render.Ref]map[string]bool{}
	use := func(class render.Ref, pool string, ours bool) {
		if users[class] == nil {
			users[class] = map[string]bool{}
		}
		users[class][pool] = users[class][pool] || ours
	}
	for _, object := range m.objects {
		if class, ok := render.Reference(object.Ref, object.Desired); ok {
			wanted[class] = true
			use(class, object.Ref.Name, true)
		}
	}
	for ref, live := range m.live.Objects {
		if class, ok := render.Reference(ref, live.Unstructured); ok {
			use(class, ref.Name, m.inSet[ref] || m.policy.Owner.Owns(live))
		}
	}
	return wanted, users
}
