package plan

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/plumbline-dev/plumbline/provision/owners"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

// judgement is what an apply of Git's object would do to the live one.
type judgement struct {
	// change are the differences that an apply would end.
	change []difference
	// editors are the managers that own one of them, our own left out, and edited are those.
	editors []string
	edited  []difference
	// rewritten are the paths of those among them that mean the same on both sides, and by
	// which Karpenter counts nodes as outdated all the same.
	rewritten []string
	// foreign are the fields of other appliers that stand in the way, and tools
	// are their names.
	foreign []difference
	tools   []string
	// takeover says that an interactive manager owns a field that Git lacks, and taken are
	// the paths of fields that Git lacks, that another manager owns and by which Karpenter
	// counts nodes as outdated.
	takeover bool
	taken    [][]string
	// extra are the fields of the spec that Git lacks and that stay.
	extra []extraField
	// residue says that a removal has left fields of its own, and brake that a brake has.
	residue, brake bool
	// ours says that our entry in managedFields is what it would be.
	ours bool
	// wanted is what was compared: see Change.Wanted.
	wanted *unstructured.Unstructured
}

// clean says that an apply would change nothing at all.
func (j judgement) clean() bool {
	return j.ours && !j.residue && len(j.change) == 0 && len(j.foreign) == 0
}

// specChanges are the differences within spec.
func (j judgement) specChanges() []difference {
	var found []difference
	for _, d := range slices.Concat(j.change, j.foreign) {
		if d.path[0] == "spec" {
			found = append(found, d)
		}
	}
	return found
}

// judge compares, and asks for each difference whose field it is. Of a NodePool that is braked the
// disruption budgets are left out.
func judge(object render.Object, live *Object, owner Owner, schema Schema, braked bool) (judgement, error) {
	ignored := object.Ignored
	object.Defaulted = ignoring(object, live.Unstructured)
	desired := Desired(object, owner)
	if braked {
		desired = WithoutBudgets(desired)
	}
	want, err := schema.FieldSet(desired)
	if err != nil {
		return judgement{}, fmt.Errorf("list the fields of %s: %w", object.Ref, err)
	}
	entries, err := managed(live.Unstructured)
	if err != nil {
		return judgement{}, err
	}
	mine := appliedBy(entries, v1alpha1.FieldManager)
	live.marks(mine)
	j := judgement{
		wanted:  object.Defaulted,
		ours:    mine != nil && without(mine, ignored).Equals(without(want, ignored)),
		residue: appliedBy(entries, v1alpha1.RemovalFieldManager) != nil,
		brake:   appliedBy(entries, v1alpha1.BrakeFieldManager) != nil,
	}
	for _, d := range differences(live.Unstructured, desired) {
		j.weigh(d, touches(want, d.path), entries, live.Unstructured)
	}
	if !j.ours {
		j.change = append(j.change, left(live.Unstructured, want, entries)...)
	}
	slices.Sort(j.editors)
	j.editors = slices.Compact(j.editors)
	slices.Sort(j.tools)
	j.tools = slices.Compact(j.tools)
	return j, nil
}

// left are the labels and annotations that we have applied, that Git has no longer and that
// nobody else owns: they go with the next apply.
func left(live *unstructured.Unstructured, want *fieldpath.Set, entries []entry) []difference {
	var found []difference
	for kind, marks := range map[string]map[string]string{"labels": live.GetLabels(), "annotations": live.GetAnnotations()} {
		for key, value := range marks {
			path := []string{"metadata", kind, key}
			owners := slices.DeleteFunc(slices.Clone(entries), func(e entry) bool { return !touches(e.set, path) })
			if !touches(want, path) && len(owners) == 1 && owners[0].applied && owners[0].manager == v1alpha1.FieldManager {
				found = append(found, difference{path: path, from: value})
			}
		}
	}
	slices.SortFunc(found, func(a, b difference) int { return slices.Compare(a.path, b.path) })
	return found
}

// ours says that the manager is one of plumbline's.
func (e entry) ours() bool {
	return e.manager == v1alpha1.FieldManager && e.applied || e.manager == v1alpha1.RemovalFieldManager || e.manager == v1alpha1.BrakeFieldManager
}

// weigh asks whose field a difference is. A field that Git does not write and
// that nobody owns whom we may take it from stays as it is, unless nodes are outdated for it;
// so does one that Git writes in another way, and that means the same.
func (j *judgement) weigh(d difference, inGit bool, entries []entry, live *unstructured.Unstructured) {
	change, known := inGit, len(j.editors)
	var others []string
	for _, e := range entries {
		if !touches(e.set, d.path) {
			continue
		}
		if tool, ok := owners.Applier(e.manager); ok {
			j.foreign = append(j.foreign, d)
			j.tools = append(j.tools, tool)
			return
		}
		switch {
		case e.manager == v1alpha1.BrakeFieldManager && !inGit:
			return
		case e.ours():
			change = true
		case owners.Interactive(e.manager):
			change = true
			j.editors = append(j.editors, e.manager)
			j.takeover = j.takeover || !inGit
		case inGit:
			j.editors = append(j.editors, e.manager)
		default:
			others = append(others, e.manager)
		}
	}
	if len(others) > 0 && outdates(live, d.path) {
		change, j.takeover = true, true
		j.editors, j.taken = append(j.editors, others...), append(j.taken, d.path)
	}
	if !change {
		j.extra = append(j.extra, extraField{path: d.path, managers: others, unknown: len(entries) == 0})
		return
	}
	j.write(d, live, len(j.editors) > known)
}

// write notes a difference that is to be written: one that means the same only where nodes are
// outdated by it.
func (j *judgement) write(d difference, live *unstructured.Unstructured, edited bool) {
	if d.equalInMeaning() {
		if d.outdatesNothing(live) {
			return
		}
		j.rewritten = append(j.rewritten, name(d.path))
	}
	j.change = append(j.change, d)
	if edited {
		j.edited = append(j.edited, d)
	}
}
