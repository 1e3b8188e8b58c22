package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/scheduling"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

// Moved formats an object that is removed, and those that replace it.
func Moved(object string, to []string) string {
	if len(to) == 0 {
		return object
	}
	return object + " → " + strings.Join(to, ", ")
}

// maxTargets limits how many replacements a removal names.
const maxTargets = 8

// findMoves finds the replacements of each candidate: the object was renamed, split, merged with others or given
// another class. It is still a removal with all its checks.
func (m *maker) findMoves(candidates []Candidate) {
	if len(candidates) == 0 {
		return // new objects are read only for candidates
	}
	arriving := m.findArrivals(candidates)
	for i := range candidates {
		if c := &candidates[i]; c.Ref.Kind == render.NodePool && !c.Terminating && !c.Vanished {
			c.MovesTo = m.poolsFor(c, arriving)
			c.revertsMove = m.revertsMove(c)
		}
	}
	for i := range candidates {
		if c := &candidates[i]; c.Ref.Kind == render.EC2NodeClass && !c.Terminating {
			c.MovesTo = m.classesFor(c, candidates)
		}
	}
}

// arrivals are the NodePools in Git that may replace removed ones: those that are not in the cluster, and those that
// replace a recorded candidate already.
type arrivals struct {
	named map[string]offer
	// fresh are those that are not in the cluster, and alike are the same by their spec without name and class.
	fresh []offer
	alike map[string][]offer
	// left is how many more comparisons are allowed.
	left int
}

// maxPairs limits how many pairs of pools that differ in more than their names one Plan compares: a commit may rename a
// thousand. Pools that were not compared count as plain removals.
const maxPairs = 20_000

func (m *maker) findArrivals(candidates []Candidate) *arrivals {
	noted := map[string]bool{}
	for _, c := range candidates {
		for _, name := range c.record.MovesTo {
			noted[name] = noted[name] || c.Ref.Kind == render.NodePool
		}
	}
	found := &arrivals{named: map[string]offer{}, alike: map[string][]offer{}, left: maxPairs}
	for _, object := range m.objects {
		if object.Ref.Kind != render.NodePool || m.live.object(object.Ref) != nil && !noted[object.Ref.Name] {
			continue
		}
		o, ok := offerOf(Desired(object, m.policy.Owner))
		if !ok {
			continue
		}
		found.named[object.Ref.Name] = o
		if m.live.object(object.Ref) == nil {
			found.fresh = append(found.fresh, o)
			found.alike[o.text] = append(found.alike[o.text], o)
		}
	}
	return found
}

// poolsFor returns the similar NodePools that replace a removed one: the recorded ones; else one that differs only in
// its name; else all that can run its pods; else those that can do so together.
func (m *maker) poolsFor(c *Candidate, arriving *arrivals) []string {
	leaving, ok := offerOf(m.live.object(c.Ref).content())
	if !ok {
		return nil
	}
	if back := m.restoredSources(c); len(back) > 0 {
		return back
	}
	var recorded []offer
	for _, name := range c.record.MovesTo {
		if o, ok := arriving.named[name]; ok && o.canReplaceInPart(leaving) {
			recorded = append(recorded, o)
		}
	}
	if len(recorded) > 0 {
		return mostSimilar(recorded, leaving)
	}
	if alike := arriving.alike[leaving.text]; len(alike) > 0 && alike[0].canReplaceInPart(leaving) {
		return []string{slices.MinFunc(alike, bySimilarity(leaving)).name}
	}
	return arriving.compare(leaving)
}

// restoredSources returns the NodePools that this one was to replace, and that Git contains again: a commit reverts the
// move.
func (m *maker) restoredSources(c *Candidate) []string {
	var names []string
	for _, r := range m.live.Removals {
		if r.Kind == render.NodePool && slices.Contains(r.MovesTo, c.Ref.Name) && m.backInGit(r) {
			names = append(names, r.Name)
		}
	}
	slices.Sort(names)
	return names[:min(len(names), maxTargets)]
}

// revertsMove reports whether a NodePool without nodes is replaced by older ones: it was meant to replace them.
func (m *maker) revertsMove(c *Candidate) bool {
	object := m.live.object(c.Ref)
	if object == nil || c.Nodes > 0 || c.Leaves > 0 || len(c.MovesTo) == 0 {
		return false
	}
	created := object.GetCreationTimestamp()
	return !slices.ContainsFunc(c.MovesTo, func(name string) bool {
		target := m.live.object(render.Ref{Kind: render.NodePool, Name: name})
		if target == nil {
			return true
		}
		at := target.GetCreationTimestamp()
		return !at.Before(&created)
	})
}

// compare finds the similar ones among fresh, within the limit of comparisons.
func (a *arrivals) compare(leaving offer) []string {
	if a.left -= len(a.fresh); a.left < 0 {
		return nil
	}
	var whole []offer
	parts := map[string][]offer{}
	for _, o := range a.fresh {
		switch partly, takes := o.canReplace(leaving); {
		case !takes:
		case len(partly) == 0:
			whole = append(whole, o)
		case len(partly) == 1:
			parts[partly[0]] = append(parts[partly[0]], o)
		}
	}
	if len(whole) > 0 {
		if same := slices.DeleteFunc(slices.Clone(whole), func(o offer) bool { return !o.same(leaving) }); len(same) > 0 {
			return mostSimilar(same, leaving)[:1]
		}
		return mostSimilar(whole, leaving)
	}
	for _, key := range slices.Sorted(maps.Keys(parts)) {
		if coverTogether(key, parts[key], leaving) {
			return mostSimilar(parts[key], leaving)
		}
	}
	return nil
}

// mostSimilar returns the names of the first few pools, the most similar name first.
func mostSimilar(pools []offer, other offer) []string {
	slices.SortFunc(pools, bySimilarity(other))
	names := make([]string, 0, maxTargets)
	for _, o := range pools[:min(len(pools), maxTargets)] {
		names = append(names, o.name)
	}
	return names
}

// bySimilarity compares pools by the similarity of their names to that of another.
func bySimilarity(other offer) func(a, b offer) int {
	return func(a, b offer) int {
		return cmp.Or(cmp.Compare(similarity(b.name, other.name), similarity(a.name, other.name)), cmp.Compare(a.name, b.name))
	}
}

// similarity returns the length of the common prefix and suffix of two names.
func similarity(a, b string) int {
	most, n := min(len(a), len(b)), 0
	for n < most && a[n] == b[n] {
		n++
	}
	end := 0
	for end < most-n && a[len(a)-1-end] == b[len(b)-1-end] {
		end++
	}
	return n + end
}

// classesFor returns the EC2NodeClasses in Git that the NodePools of a removed class, or their replacements, reference,
// sorted.
func (m *maker) classesFor(c *Candidate, candidates []Candidate) []string {
	found := map[string]bool{}
	for _, name := range c.record.MovesTo {
		found[name] = m.inSet[render.Ref{Kind: render.EC2NodeClass, Name: name}]
	}
	for _, object := range m.live.OfKind(render.NodePool) {
		if class, ok := render.Reference(render.Ref{Kind: render.NodePool, Name: object.GetName()}, object); !ok || class != c.Ref {
			continue
		}
		names := []string{object.GetName()}
		for _, leaving := range candidates {
			if leaving.UID == object.GetUID() {
				names = leaving.MovesTo
			}
		}
		for _, name := range names {
			if class, ok := m.classInGit(name); ok {
				found[class] = true
			}
		}
	}
	var names []string
	for name, moves := range found {
		if moves && name != c.Ref.Name {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names[:min(len(names), maxTargets)]
}

// classInGit returns the EC2NodeClass that a NodePool in Git references, if Git contains it too.
func (m *maker) classInGit(pool string) (name string, ok bool) {
	i := slices.IndexFunc(m.objects, func(o render.Object) bool { return o.Ref == render.Ref{Kind: render.NodePool, Name: pool} })
	if i < 0 {
		return "", false
	}
	class, ok := render.Reference(m.objects[i].Ref, m.objects[i].Desired)
	return class.Name, ok && m.inSet[class]
}

// offer is what the nodes of a NodePool offer to pods: their labels, and the taints that repel pods.
type offer struct {
	name            string
	requirements    scheduling.Requirements
	taints, startup []corev1.Taint
	// grows reports whether the pool launches nodes for pods.
	grows bool
	// spec is the pool's spec without its class, and text is the same as JSON.
	spec map[string]any
	text string
}

// offerOf reads a NodePool; ok is false if it cannot be read.
func offerOf(pool *unstructured.Unstructured) (offer, bool) {
	read, err := typed[karpv1.NodePool](pool)
	if err != nil {
		return offer{}, false
	}
	template := read.Spec.Template
	o := offer{
		name: pool.GetName(), grows: MayGrow(pool), taints: template.Spec.Taints, startup: template.Spec.StartupTaints,
		spec:         runtime.DeepCopyJSON(specOf(pool)),
		requirements: scheduling.NewNodeSelectorRequirementsWithMinValues(template.Spec.Requirements...),
	}
	o.requirements.Add(scheduling.NewLabelRequirements(template.Labels).Values()...)
	unstructured.RemoveNestedField(o.spec, "template", "spec", "nodeClassRef")
	o.text = canonical(o.spec)
	return o, true
}

// same reports whether two pools differ only in their names and classes.
func (o offer) same(other offer) bool { return o.text == other.text || equal(o.spec, other.spec) }

// canReplace reports whether pods that run on nodes of another pool may run on those of this one. partly are the labels
// for which it has only some of the values: except for these, the pools are similar.
func (o offer) canReplace(other offer) (partly []string, ok bool) {
	if !o.grows || !onlyTaintsOf(o.taints, other.taints) || !onlyTaintsOf(o.startup, other.startup) {
		return nil, false
	}
	for _, key := range labelsOf(o.requirements, other.requirements) {
		switch {
		case o.hasAll(key, other):
		case !o.hasSome(key, other):
			return nil, false
		case !describesSize(key):
			partly = append(partly, key)
		}
	}
	return partly, true
}

// canReplaceInPart reports whether it can replace another pool, at least together with others.
func (o offer) canReplaceInPart(other offer) bool {
	_, ok := o.canReplace(other)
	return ok
}

// onlyTaintsOf reports whether nodes have only taints that the pods already tolerate. PreferNoSchedule repels no pod.
func onlyTaintsOf(taints, others []corev1.Taint) bool {
	return !slices.ContainsFunc(taints, func(t corev1.Taint) bool {
		return t.Effect != corev1.TaintEffectPreferNoSchedule && !slices.ContainsFunc(others, func(known corev1.Taint) bool {
			return known.MatchTaint(&t) && known.Value == t.Value
		})
	})
}

// describesSize reports whether a label describes the size of an instance: pods request CPU, memory and devices, and
// rarely a family or size.
func describesSize(key string) bool {
	return key == corev1.LabelInstanceTypeStable || strings.HasPrefix(key, "karpenter.k8s.aws/")
}

// hasAll reports whether nodes of this pool can have each value of a label that nodes of another may have.
func (o offer) hasAll(key string, other offer) bool {
	values, known := other.values(key)
	switch {
	case !other.requirements.Has(key) && !karpv1.WellKnownLabels.Has(key) && !describesSize(key):
		return true // no pod selects a label that its nodes do not have
	case !o.requirements.Has(key):
		return karpv1.WellKnownLabels.Has(key) || describesSize(key) || known && len(values) == 0
	case known:
		return !slices.ContainsFunc(values, func(value string) bool { return !o.requirements.Get(key).Has(value) })
	}
	return o.requirements.Get(key).String() == other.requirements.Get(key).String()
}

// hasSome reports whether nodes of both pools can have a common value of a label.
func (o offer) hasSome(key string, other offer) bool {
	if !o.requirements.Has(key) && !karpv1.WellKnownLabels.Has(key) && !describesSize(key) {
		return false
	}
	return o.requirements.Get(key).HasIntersection(other.requirements.Get(key))
}

// everyValue lists all values of labels that have few.
var everyValue = map[string][]string{
	corev1.LabelArchStable:      {karpv1.ArchitectureAmd64, karpv1.ArchitectureArm64},
	corev1.LabelOSStable:        {string(corev1.Linux), string(corev1.Windows)},
	karpv1.CapacityTypeLabelKey: {karpv1.CapacityTypeOnDemand, karpv1.CapacityTypeSpot, karpv1.CapacityTypeReserved},
}

// values returns the values that a label of its nodes may have; known is false if they cannot be listed.
func (o offer) values(key string) (values []string, known bool) {
	requirement := o.requirements.Get(key)
	switch requirement.Operator() {
	case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpDoesNotExist:
		return requirement.Values(), true
	default:
		every, known := everyValue[key]
		return slices.DeleteFunc(slices.Clone(every), func(value string) bool { return !requirement.Has(value) }), known
	}
}

// labelsOf returns the labels in either requirements, sorted.
func labelsOf(a, b scheduling.Requirements) []string {
	keys := a.Keys().Union(b.Keys()).UnsortedList()
	slices.Sort(keys)
	return keys
}

// coverTogether reports whether some pools, each of which is missing values of one label, have all values together: a
// pool was split by that label.
func coverTogether(key string, parts []offer, whole offer) bool {
	values, known := whole.values(key)
	return known && len(parts) > 1 && !slices.ContainsFunc(values, func(value string) bool {
		return !slices.ContainsFunc(parts, func(part offer) bool { return part.requirements.Get(key).Has(value) })
	})
}

// Kept is an object that was removed from Git but stays for now, because another NodeSync of the cluster contains it,
// or may contain it.
type Kept struct {
	Ref render.Ref
	UID types.UID
	// By is the NodeSync, as namespace/name.
	By string
	// HandedOver reports whether the NodeSync contains the object: its own apply takes the object over. Otherwise it is
	// unknown yet what that NodeSync contains.
	HandedOver bool
	// Message is what plumbline waits for, and what to do.
	Message string
	// Since is when plumbline started to wait for a NodeSync with unknown content; zero if that was just now.
	Since time.Time
	// MovesTo are the similar objects in Git that replace a NodePool which waits for another NodeSync.
	MovesTo []string
}

// findMovesOfKept finds the replacements of NodePools that wait for other NodeSyncs: later, when these are known, the
// replacements are in the cluster and no longer among the arrivals.
func (m *maker) findMovesOfKept(kept []Kept) {
	var waiting []Candidate
	for _, k := range kept {
		if k.Ref.Kind == render.NodePool && !k.HandedOver {
			record, _ := m.live.removal(k.UID)
			waiting = append(waiting, Candidate{Ref: k.Ref, UID: k.UID, record: m.withMoves(k.UID, record)})
		}
	}
	m.findMoves(waiting)
	for _, c := range waiting {
		i := slices.IndexFunc(kept, func(k Kept) bool { return k.UID == c.UID })
		kept[i].MovesTo = c.MovesTo
	}
}

// withMoves returns the record of a removal, with the replacements that an earlier Plan found while the object waited.
func (m *maker) withMoves(uid types.UID, record v1alpha1.Removal) v1alpha1.Removal {
	if record.UID == "" {
		record.MovesTo = m.policy.Moves[uid]
	}
	return record
}

// keep returns the objects that stay because of another NodeSync, in the order of candidates.
func (m *maker) keep() []Kept {
	var found []Kept
	for ref, object := range m.live.Objects {
		if m.inSet[ref] || terminating(object) || !m.owns(object) {
			continue
		}
		record, _ := m.live.removal(object.GetUID())
		if kept, ok := m.keptByOther(ref, object.GetUID(), record); ok {
			found = append(found, kept)
			m.kept[kept.UID] = true
		}
	}
	slices.SortFunc(found, func(a, b Kept) int {
		return cmp.Or(cmp.Compare(stageIndex(b.Ref), stageIndex(a.Ref)), cmp.Compare(a.Ref.Name, b.Ref.Name))
	})
	return found
}

// keptByOther reports whether an object stays because of another NodeSync. It waits for a NodeSync with unknown
// content, unless a person has released the object. A removal that has already terminated NodeClaims was decided when
// all others were known: it pauses only if nothing at all is known of another, such as after a restart of the daemon.
// It also waits for a NodeSync that fails, even if our NodeSync is deleted with its nodes: after a restart, its objects
// are unknown while its Git host is unavailable.
func (m *maker) keptByOther(ref render.Ref, uid types.UID, record v1alpha1.Removal) (Kept, bool) {
	if other, wanted := m.wantedBy(ref); wanted {
		k := Kept{Ref: ref, UID: uid, By: other.String(), HandedOver: true}
		k.Message = fmt.Sprintf("%s is in the Git of NodeSync %s and is handed over to it with its nodes", ref, other.Owner)
		if other.Suspended {
			k.Message += ": resume that NodeSync"
		}
		return k, true
	}
	other, waits := m.syncWithUnknownNewest()
	if record.Phase != "" && m.started(record) {
		other, waits = m.syncWithUnknownContent()
	}
	if waits && !m.policy.Released[uid] {
		why := "was removed from Git"
		switch {
		case m.policy.Keeps:
			why = "is drained"
		case m.policy.Deleting:
			why = "is removed with its NodeSync"
		}
		message := fmt.Sprintf("%s %s, but another NodeSync may contain it: waiting for %s; to remove %s without waiting, %s",
			ref, why, other.waiting(), ref, m.policy.howToRelease(uid))
		return Kept{Ref: ref, UID: uid, By: other.String(), Message: message, Since: other.Since}, true
	}
	return Kept{}, false
}

// handedOver reports whether a recorded removal is of an object that belongs to another NodeSync by now, or soon will.
func (m *maker) handedOver(r v1alpha1.Removal) bool {
	object := m.live.object(RefOf(r))
	if object == nil || object.GetUID() != r.UID || terminating(object) {
		return false
	}
	if _, wanted := m.wantedBy(RefOf(r)); wanted && m.kept[r.UID] {
		return true
	}
	owner, _ := m.ownership(object)
	return owner == ownedByOther
}
