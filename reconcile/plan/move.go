package plan

import (
	"cmp"
	"maps"
	"slices"
	"strings"

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
