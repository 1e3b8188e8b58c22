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

// Moved names an entry that leaves, and those that take its place.
func Moved(object string, to []string) string {
	if len(to) == 0 {
		return object
	}
	return object + " → " + strings.Join(to, ", ")
}

// mostTargets is how many entries a removal names that its nodes move to.
const mostTargets = 8

// findMoves finds of each candidate what takes its place: the entry was renamed, split, merged with
// others or given another class. Each is a removal all the same, and asks for all that a removal does.
func (m *maker) findMoves(candidates []Candidate) {
	if len(candidates) == 0 {
		return // what arrives is read for them only
	}
	arriving := m.arriving(candidates)
	for i := range candidates {
		if c := &candidates[i]; c.Ref.Kind == render.NodePool && !c.Terminating && !c.Vanished {
			c.MovesTo = m.poolsFor(c, arriving)
			c.undoes = m.undoesMove(c)
		}
	}
	for i := range candidates {
		if c := &candidates[i]; c.Ref.Kind == render.EC2NodeClass && !c.Terminating {
			c.MovesTo = m.classesFor(c, candidates)
		}
	}
}

// arrivals are the NodePools of Git that may take the place of those that leave: those that the cluster
// lacks, and those to which a recorded candidate moves already.
type arrivals struct {
	named map[string]offer
	// fresh are those that the cluster lacks, and alike the same by what each is but for its name and
	// class.
	fresh []offer
	alike map[string][]offer
	// left is how many more are compared with those that leave.
	left int
}

// pairs is how many pairs of pools are compared, in one Plan, that differ in more than their names: a
// commit may rename a thousand, and each is a removal where nobody has looked.
const pairs = 20_000

func (m *maker) arriving(candidates []Candidate) *arrivals {
	noted := map[string]bool{}
	for _, c := range candidates {
		for _, name := range c.record.MovesTo {
			noted[name] = noted[name] || c.Ref.Kind == render.NodePool
		}
	}
	found := &arrivals{named: map[string]offer{}, alike: map[string][]offer{}, left: pairs}
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

// poolsFor are the near-equal NodePools that take the place of one that leaves, sorted: those that are
// recorded, else one that differs in nothing but its name, else all that take its pods, else those that
// do so together.
func (m *maker) poolsFor(c *Candidate, arriving *arrivals) []string {
	leaving, ok := offerOf(m.live.object(c.Ref).content())
	if !ok {
		return nil
	}
	if back := m.movesBack(c); len(back) > 0 {
		return back
	}
	var recorded []offer
	for _, name := range c.record.MovesTo {
		if o, ok := arriving.named[name]; ok && o.takesAny(leaving) {
			recorded = append(recorded, o)
		}
	}
	if len(recorded) > 0 {
		return likest(recorded, leaving)
	}
	if alike := arriving.alike[leaving.text]; len(alike) > 0 && alike[0].takesAny(leaving) {
		return []string{slices.MinFunc(alike, byLikeness(leaving)).name}
	}
	return arriving.compare(leaving)
}

// movesBack are the NodePools that were to move to one that leaves, and that Git has again: a commit reverts the move.
func (m *maker) movesBack(c *Candidate) []string {
	var names []string
	for _, r := range m.live.Removals {
		if r.Kind == render.NodePool && slices.Contains(r.MovesTo, c.Ref.Name) && m.back(r) {
			names = append(names, r.Name)
		}
	}
	slices.Sort(names)
	return names[:min(len(names), mostTargets)]
}

// undoesMove reports whether a NodePool without nodes leaves, whose place older ones take: it was to take theirs.
func (m *maker) undoesMove(c *Candidate) bool {
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

// compare finds the near-equal ones among all that are fresh, as long as it may.
func (a *arrivals) compare(leaving offer) []string {
	if a.left -= len(a.fresh); a.left < 0 {
		return nil
	}
	var whole []offer
	parts := map[string][]offer{}
	for _, o := range a.fresh {
		switch partly, takes := o.takes(leaving); {
		case !takes:
		case len(partly) == 0:
			whole = append(whole, o)
		case len(partly) == 1:
			parts[partly[0]] = append(parts[partly[0]], o)
		}
	}
	if len(whole) > 0 {
		if same := slices.DeleteFunc(slices.Clone(whole), func(o offer) bool { return !o.same(leaving) }); len(same) > 0 {
			return likest(same, leaving)[:1]
		}
		return likest(whole, leaving)
	}
	for _, key := range slices.Sorted(maps.Keys(parts)) {
		if together(key, parts[key], leaving) {
			return likest(parts[key], leaving)
		}
	}
	return nil
}

// likest are the names of the first few pools, those that are most like that of another first.
func likest(pools []offer, other offer) []string {
	slices.SortFunc(pools, byLikeness(other))
	names := make([]string, 0, mostTargets)
	for _, o := range pools[:min(len(pools), mostTargets)] {
		names = append(names, o.name)
	}
	return names
}

// byLikeness compares pools by their names with that of another.
func byLikeness(other offer) func(a, b offer) int {
	return func(a, b offer) int {
		return cmp.Or(cmp.Compare(alike(b.name, other.name), alike(a.name, other.name)), cmp.Compare(a.name, b.name))
	}
}

// alike is how many letters two names begin and end with in common.
func alike(a, b string) int {
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

// classesFor are the EC2NodeClasses that the NodePools of one that leaves name in Git, sorted: by
// their own names, or by those that take their place.
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
	return names[:min(len(names), mostTargets)]
}

// classInGit names the EC2NodeClass that a NodePool of Git names, which Git has as well.
func (m *maker) classInGit(pool string) (name string, ok bool) {
	i := slices.IndexFunc(m.objects, func(o render.Object) bool { return o.Ref == render.Ref{Kind: render.NodePool, Name: pool} })
	if i < 0 {
		return "", false
	}
	class, ok := render.Reference(m.objects[i].Ref, m.objects[i].Desired)
	return class.Name, ok && m.inSet[class]
}

// offer is what the nodes of a NodePool are to pods: their labels, and the taints that keep pods away.
type offer struct {
	name            string
	requirements    scheduling.Requirements
	taints, startup []corev1.Taint
	// grows reports whether the pool launches nodes for pods.
	grows bool
	// spec is the pool's but for its class, and text is the same, written out.
	spec map[string]any
	text string
}

// offerOf reads a NodePool; false if it cannot be read.
func offerOf(pool *unstructured.Unstructured) (offer, bool) {
	read, err := typed[karpv1.NodePool](pool)
	if err != nil {
		return offer{}, false
	}
	template := read.Spec.Template
	o := offer{
		name: pool.GetName(), grows: MayGrow(pool), taints: template.Spec.Taints, startup: template.Spec.StartupTaints, spec: runtime.DeepCopyJSON(specOf(pool)),
		requirements: scheduling.NewNodeSelectorRequirementsWithMinValues(template.Spec.Requirements...),
	}
	o.requirements.Add(scheduling.NewLabelRequirements(template.Labels).Values()...)
	unstructured.RemoveNestedField(o.spec, "template", "spec", "nodeClassRef")
	o.text = canonical(o.spec)
	return o, true
}

// same reports whether two pools differ in nothing but their names, and those of their classes.
func (o offer) same(other offer) bool { return o.text == other.text || equal(o.spec, other.spec) }

// takes reports whether pods that run on nodes of another pool may run on those of this one, and names
// the labels of which it has only some of the values: each of the two is near-equal to the other but
// for these.
func (o offer) takes(other offer) (partly []string, ok bool) {
	if !o.grows || !onlyTaintsOf(o.taints, other.taints) || !onlyTaintsOf(o.startup, other.startup) {
		return nil, false
	}
	for _, key := range labelsOf(o.requirements, other.requirements) {
		switch {
		case o.hasAll(key, other):
		case !o.hasSome(key, other):
			return nil, false
		case !sized(key):
			partly = append(partly, key)
		}
	}
	return partly, true
}

// takesAny reports whether it takes the place of another, if only together with others.
func (o offer) takesAny(other offer) bool {
	_, ok := o.takes(other)
	return ok
}

// onlyTaintsOf reports whether nodes have no taint beside those that pods tolerate already. One that only
// asks the scheduler to prefer others keeps no pod away.
func onlyTaintsOf(taints, others []corev1.Taint) bool {
	return !slices.ContainsFunc(taints, func(t corev1.Taint) bool {
		return t.Effect != corev1.TaintEffectPreferNoSchedule && !slices.ContainsFunc(others, func(known corev1.Taint) bool {
			return known.MatchTaint(&t) && known.Value == t.Value
		})
	})
}

// sized says of a label that it tells what an instance is like: pods ask for processors, memory and
// devices, and few of them for a family or a size.
func sized(key string) bool {
	return key == corev1.LabelInstanceTypeStable || strings.HasPrefix(key, "karpenter.k8s.aws/")
}

// hasAll reports whether nodes of this pool have each value of a label that nodes of another may have.
func (o offer) hasAll(key string, other offer) bool {
	values, known := other.values(key)
	switch {
	case !other.requirements.Has(key) && !karpv1.WellKnownLabels.Has(key) && !sized(key):
		return true // no pod asks for a label that its nodes have not
	case !o.requirements.Has(key):
		return karpv1.WellKnownLabels.Has(key) || sized(key) || known && len(values) == 0
	case known:
		return !slices.ContainsFunc(values, func(value string) bool { return !o.requirements.Get(key).Has(value) })
	}
	return o.requirements.Get(key).String() == other.requirements.Get(key).String()
}

// hasSome reports whether a label may have a value that nodes of both pools have.
func (o offer) hasSome(key string, other offer) bool {
	if !o.requirements.Has(key) && !karpv1.WellKnownLabels.Has(key) && !sized(key) {
		return false
	}
	return o.requirements.Get(key).HasIntersection(other.requirements.Get(key))
}

// everyValue are all values of labels that have few.
var everyValue = map[string][]string{
	corev1.LabelArchStable:      {karpv1.ArchitectureAmd64, karpv1.ArchitectureArm64},
	corev1.LabelOSStable:        {string(corev1.Linux), string(corev1.Windows)},
	karpv1.CapacityTypeLabelKey: {karpv1.CapacityTypeOnDemand, karpv1.CapacityTypeSpot, karpv1.CapacityTypeReserved},
}

// values are those that a label of its nodes may have; known is false if nobody can list them.
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

// labelsOf are the labels that either asks for, sorted.
func labelsOf(a, b scheduling.Requirements) []string {
	keys := a.Keys().Union(b.Keys()).UnsortedList()
	slices.Sort(keys)
	return keys
}

// together reports whether the nodes of some pools, each of which lacks values of one label, have all of
// them together: a pool was split by it.
func together(key string, parts []offer, whole offer) bool {
	values, known := whole.values(key)
	return known && len(parts) > 1 && !slices.ContainsFunc(values, func(value string) bool {
		return !slices.ContainsFunc(parts, func(part offer) bool { return part.requirements.Get(key).Has(value) })
	})
}

// Kept is an entry that has left the repository and is not removed for now,
// because another NodeSync of the cluster has it, or may have it.
type Kept struct {
	Ref render.Ref
	UID types.UID
	// By is the NodeSync, as namespace/name.
	By string
	// HandedOver reports whether the NodeSync has the entry: the object becomes its, by its
	// own apply. Otherwise it is not known yet what that NodeSync has.
	HandedOver bool
	// Message says what is waited for, and what to do.
	Message string
	// Since is since when a NodeSync is waited for of which is unknown what it has; zero
	// if that began now.
	Since time.Time
	// MovesTo are the near-equal entries of Git that take its place, for a NodePool that waits for another NodeSync.
	MovesTo []string
}

// findMovesOfKept finds what takes the place of NodePools that wait for other NodeSyncs: once these are known, the
// cluster has it, and it is no longer among what arrives.
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

// withMoves is the record of a removal, with what an earlier Plan has found to take the place of an entry that waited.
func (m *maker) withMoves(uid types.UID, record v1alpha1.Removal) v1alpha1.Removal {
	if record.UID == "" {
		record.MovesTo = m.policy.Moves[uid]
	}
	return record
}

// keep finds the entries that another NodeSync keeps from being removed, in the
// order of candidates.
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

// keptByOther reports whether an entry stays because of another NodeSync. One of which
// it is unknown what it has, is waited for, unless a person has released the entry. A removal that
// has ended NodeClaims already was decided on when all others were known: it pauses only where
// nothing of another is known at all, as after a restart of the daemon. One that fails is waited for as well, also where our NodeSync is deleted with its nodes:
// after a restart of the daemon a Git host that is away for a moment tells of no entry.
func (m *maker) keptByOther(ref render.Ref, uid types.UID, record v1alpha1.Removal) (Kept, bool) {
	if other, wanted := m.wantedBy(ref); wanted {
		k := Kept{Ref: ref, UID: uid, By: other.String(), HandedOver: true}
		k.Message = fmt.Sprintf("%s is in the Git of NodeSync %s and is handed over to it with its nodes", ref, other.Owner)
		if other.Suspended {
			k.Message += ": resume that NodeSync"
		}
		return k, true
	}
	other, waits := m.unheard()
	if record.Phase != "" && m.begun(record) {
		other, waits = m.unread()
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

// passedOn reports whether a recorded removal is of an object that is another
// NodeSync's by now, or becomes that.
func (m *maker) passedOn(r v1alpha1.Removal) bool {
	object := m.live.object(RefOf(r))
	if object == nil || object.GetUID() != r.UID || terminating(object) {
		return false
	}
	if _, wanted := m.wantedBy(RefOf(r)); wanted && m.kept[r.UID] {
		return true
	}
	owner, _ := m.ownership(object)
	return owner == theirs
}
