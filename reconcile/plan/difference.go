package plan

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/plumbline-dev/plumbline/confine/weigh"
	"github.com/plumbline-dev/plumbline/provision/owners"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan/hashv5"
	"github.com/plumbline-dev/plumbline/render"
)

// difference is one place where an object differs from the desired one. Its path has only map keys: a list is compared
// as a whole.
type difference struct {
	path     []string
	from, to any
}

// differences compares a live object with the desired one: the whole spec, and the labels and annotations that Git or
// plumbline writes.
func differences(live, desired *unstructured.Unstructured) []difference {
	found := compare([]string{"spec"}, live.Object["spec"], desired.Object["spec"])
	found = append(found, metadata("labels", live.GetLabels(), desired.GetLabels())...)
	return append(found, metadata("annotations", live.GetAnnotations(), desired.GetAnnotations())...)
}

// Changed returns the fields that the API server returned with other values than applied: a mutating webhook or policy
// of the cluster changed them. Fields that were added are an Extra of the next Plan, and ignored fields may change.
func Changed(applied, answer *unstructured.Unstructured, ignored [][]string) []Field {
	all := within([]string{"spec"}, answer.Object["spec"], applied.Object["spec"])
	all = append(all, metadata("labels", answer.GetLabels(), applied.GetLabels())...)
	all = append(all, metadata("annotations", answer.GetAnnotations(), applied.GetAnnotations())...)
	var found []Field
	for _, d := range all {
		if !slices.ContainsFunc(ignored, func(path []string) bool { return isAtOrBelow(d.path, path) }) {
			found = append(found, d.fields()...)
		}
	}
	return found
}

// within compares only the desired fields.
func within(path []string, live, desired any) []difference {
	wanted, isMap := desired.(map[string]any)
	if was, both := live.(map[string]any); isMap && (both || live == nil) {
		var found []difference
		for _, key := range slices.Sorted(maps.Keys(wanted)) {
			found = append(found, within(append(slices.Clone(path), key), was[key], wanted[key])...)
		}
		return found
	}
	if equal(live, desired) {
		return nil
	}
	return []difference{{path: path, from: live, to: desired}}
}

func metadata(kind string, live, desired map[string]string) []difference {
	var found []difference
	for _, key := range slices.Sorted(maps.Keys(desired)) {
		if was, ok := live[key]; !ok || was != desired[key] {
			d := difference{path: []string{"metadata", kind, key}, to: desired[key]}
			if ok {
				d.from = was
			}
			found = append(found, d)
		}
	}
	return found
}

// compare descends into maps that both sides have, in the order of the keys.
func compare(path []string, live, desired any) []difference {
	was, isMap := live.(map[string]any)
	wanted, wantsMap := desired.(map[string]any)
	if equal(live, desired) {
		return nil
	}
	if (isMap || live == nil) && (wantsMap || desired == nil) && (isMap || wantsMap) && len(was)+len(wanted) > 0 {
		keys := slices.Sorted(maps.Keys(was))
		for key := range wanted {
			if _, both := was[key]; !both {
				keys = append(keys, key)
			}
		}
		slices.Sort(keys)
		var found []difference
		for _, key := range keys {
			found = append(found, compare(append(slices.Clone(path), key), was[key], wanted[key])...)
		}
		return found
	}
	return []difference{{path: path, from: live, to: desired}}
}

// canonical returns a value as JSON with sorted keys.
func canonical(value any) string {
	raw, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return string(raw)
}

// fields splits a difference for readers: lists of the same length by their elements.
func (d difference) fields() []Field {
	return leaves(name(d.path), d.from, d.to)
}

func leaves(path string, from, to any) []Field {
	was, isList := from.([]any)
	wanted, wantsList := to.([]any)
	if isList && wantsList && len(was) == len(wanted) {
		var found []Field
		for i := range was {
			found = append(found, leaves(fmt.Sprintf("%s[%d]", path, i), was[i], wanted[i])...)
		}
		return found
	}
	_, isMap := from.(map[string]any)
	_, wantsMap := to.(map[string]any)
	if isMap && wantsMap {
		var found []Field
		for _, d := range compare(nil, from, to) {
			found = append(found, leaves(path+"."+name(d.path), d.from, d.to)...)
		}
		return found
	}
	if equal(from, to) {
		return nil
	}
	return []Field{{Path: path, From: text(from), To: text(to)}}
}

// name formats a path for readers: spec.limits.cpu, metadata.labels[a.b/c].
func name(path []string) string {
	var b strings.Builder
	for i, key := range path {
		switch {
		case strings.ContainsAny(key, "./"):
			b.WriteString("[" + key + "]")
		case i > 0:
			b.WriteString("." + key)
		default:
			b.WriteString(key)
		}
	}
	return b.String()
}

// text formats a value: a string as it is, nil as the empty string, anything else as JSON.
func text(value any) string {
	switch v := value.(type) {
	case nil:
		return ""
	case string:
		return v
	}
	return canonical(value)
}

// A measure normalizes a value: all values with the same meaning have the same result.
type measure func(value any) any

// measures returns the measure of a field that can be written in more than one way. For a map, it applies to all values
// (karpenter pkg/apis/v1 and karpenter-provider-aws pkg/apis/v1, 1.14.1).
func measures(path string) measure {
	switch path {
	case "spec.limits", "spec.blockDeviceMappings[].ebs.volumeSize",
		"spec.kubelet.systemReserved", "spec.kubelet.kubeReserved", "spec.kubelet.evictionHard", "spec.kubelet.evictionSoft":
		return quantity
	case "spec.disruption.consolidateAfter", "spec.disruption.budgets[].duration",
		"spec.template.spec.expireAfter", "spec.template.spec.terminationGracePeriod", "spec.kubelet.evictionSoftGracePeriod":
		return duration
	}
	return nil
}

// unordered reports whether the order of a list has no meaning.
func unordered(path string) bool {
	switch path {
	case "spec.template.spec.requirements", "spec.template.spec.requirements[].values",
		"spec.template.spec.taints", "spec.template.spec.startupTaints",
		"spec.disruption.budgets", "spec.disruption.budgets[].reasons":
		return true
	}
	return false
}

// quantity returns 100 for 100000m, and any value that is not a quantity unchanged.
func quantity(value any) any {
	written := fmt.Sprint(value)
	if weigh.Quantity(written) != nil {
		return value
	}
	amount, err := resource.ParseQuantity(written)
	if err != nil {
		return value
	}
	return resource.NewDecimalQuantity(*amount.AsDec(), resource.DecimalSI).String()
}

// duration returns 5m0s for 300s, and any value that is not a duration, such as Never, unchanged.
func duration(value any) any {
	written, _ := value.(string)
	length, err := time.ParseDuration(written)
	if err != nil {
		return value
	}
	return length.String()
}

// meaning normalizes a value: equal meanings become equal values.
func meaning(path []string, value any) any {
	at := strings.Join(path, ".")
	if len(path) > 0 {
		if inMap := measures(strings.Join(path[:len(path)-1], ".")); inMap != nil {
			return inMap(value)
		}
	}
	switch v := value.(type) {
	case nil:
		return nil
	case map[string]any:
		same := make(map[string]any, len(v))
		for key, within := range v {
			same[key] = meaning(append(slices.Clone(path), key), within)
		}
		return same
	case []any:
		same := make([]any, len(v))
		for i, within := range v {
			same[i] = meaning([]string{at + "[]"}, within)
		}
		if unordered(at) {
			slices.SortFunc(same, func(a, b any) int { return strings.Compare(canonical(a), canonical(b)) })
		}
		return same
	}
	if one := measures(at); one != nil {
		return one(value)
	}
	return value
}

// equalInMeaning reports whether both sides of a difference mean the same: 100 and 100000m, 5m and
// 300s, requirements in another order.
func (d difference) equalInMeaning() bool {
	return d.from != nil && d.to != nil && equal(meaning(d.path, d.from), meaning(d.path, d.to))
}

// outdatesNothing reports whether the difference makes no node drift.
func (d difference) outdatesNothing(live *unstructured.Unstructured) bool {
	with := &unstructured.Unstructured{Object: map[string]any{"kind": live.GetKind(), "spec": live.Object["spec"]}}
	with = with.DeepCopy()
	if err := unstructured.SetNestedField(with.Object, d.to, d.path...); err != nil {
		return false
	}
	return !outdated(live, with)
}

// sameMeaning reports whether two definitions differ only in how they are written, and Karpenter does not see the
// difference.
func sameMeaning(a, b *unstructured.Unstructured) bool {
	return a == b || equal(a.Object, b.Object) || equal(meaning(nil, a.Object), meaning(nil, b.Object)) && !outdated(a, b)
}

// equal compares JSON values. Numbers compare by value, however they were decoded; an empty map or list is not equal to
// an absent one.
func equal(a, b any) bool {
	switch was := a.(type) {
	case map[string]any:
		is, ok := b.(map[string]any)
		return ok && equalMaps(was, is)
	case []any:
		is, ok := b.([]any)
		return ok && equalLists(was, is)
	case nil:
		return b == nil
	case string:
		is, ok := b.(string)
		return ok && was == is
	case bool:
		is, ok := b.(bool)
		return ok && was == is
	case int64:
		if is, ok := b.(int64); ok {
			return was == is
		}
	}
	return canonical(a) == canonical(b)
}

func equalMaps(a, b map[string]any) bool {
	if len(a) != len(b) || (a == nil) != (b == nil) {
		return false
	}
	for key, was := range a {
		is, both := b[key]
		if !both || !equal(was, is) {
			return false
		}
	}
	return true
}

func equalLists(a, b []any) bool {
	if len(a) != len(b) || (a == nil) != (b == nil) {
		return false
	}
	for i := range a {
		if !equal(a[i], b[i]) {
			return false
		}
	}
	return true
}

// Extra is an object with fields that are not in Git and that plumbline keeps: a controller or a policy of the cluster
// added them, and Karpenter uses them.
type Extra struct {
	Ref render.Ref
	// Fields are their paths, each with the field managers that own it.
	Fields []string
}

// String returns the object and its fields.
func (e Extra) String() string { return e.Ref.String() + ": " + someOf(e.Fields) }

// extraField is one of these fields. Fields that a mutating webhook or policy adds have no manager.
type extraField struct {
	path     []string
	managers []string
	// unknown reports whether the object's managedFields are empty.
	unknown bool
}

func (f extraField) String() string {
	by := "a webhook or policy"
	if f.unknown {
		by = "unknown (managedFields is empty)"
	} else if len(f.managers) > 0 {
		managers := slices.Sorted(slices.Values(f.managers))
		by = strings.Join(slices.Compact(managers), ", ")
	}
	return name(f.path) + " (" + by + ")"
}

// extraOf returns the fields of one object; nil if there are none.
func extraOf(ref render.Ref, fields []extraField) *Extra {
	if len(fields) == 0 {
		return nil
	}
	extra := &Extra{Ref: ref}
	for _, f := range fields {
		extra.Fields = append(extra.Fields, f.String())
	}
	return extra
}

// outdates reports whether a field of a definition makes nodes drift: Karpenter's own hash of the object changes
// without it, or its value is resolved by AWS.
func outdates(live *unstructured.Unstructured, path []string) bool {
	if path[0] != "spec" {
		return false
	}
	without := &unstructured.Unstructured{Object: map[string]any{"spec": live.Object["spec"]}}
	without = without.DeepCopy()
	unstructured.RemoveNestedField(without.Object, path...)
	return live.GetKind() == render.EC2NodeClass && slices.ContainsFunc(resolvedFields(),
		func(f resolvedField) bool { return f.name == path[1] }) || outdated(live, without)
}

// outdated reports whether Karpenter's own hash of another definition differs from that of a live one. It is false if
// one of them cannot be read: then plumbline keeps the field. A version that plumbline does not compute hashes nearly the
// same as the older one that it does.
func outdated(live, other *unstructured.Unstructured) bool {
	switch live.GetKind() {
	case render.NodePool:
		before, err := typed[karpv1.NodePool](live)
		if err != nil {
			return false
		}
		after, err := typed[karpv1.NodePool](other)
		return err == nil && poolHash(before) != poolHash(after)
	case render.EC2NodeClass:
		version := classHashVersion(live)
		if !slices.Contains(classHashes(), version) {
			version = hashv5.Version
		}
		before, after := classHash(live, version, ""), classHash(other, version, "")
		return before != "" && after != "" && before != after
	}
	return false
}

// Wanted returns the desired object: Git's with the schema's defaults, and the live values of the fields that others
// may change. Read only.
func (c *Change) Wanted() *unstructured.Unstructured {
	if c.wanted == nil {
		return c.Object.Defaulted
	}
	return c.wanted
}

// ignoring returns Git's object with the live values of the ignored fields; the same object if no field is ignored.
func ignoring(object render.Object, live *unstructured.Unstructured) *unstructured.Unstructured {
	if len(object.Ignored) == 0 {
		return object.Defaulted
	}
	wanted := object.Defaulted.DeepCopy()
	for _, path := range object.Ignored {
		setAs(wanted, live, path)
	}
	if spec, ok := wanted.Object["spec"].(map[string]any); ok {
		dropEmpty(spec)
	}
	return wanted
}

// setAs sets a field to its value in another object, or removes it. If another value is in the way of the field on one
// side, that is a difference of its own.
func setAs(object, like *unstructured.Unstructured, path []string) {
	value, found, err := unstructured.NestedFieldCopy(like.Object, path...)
	switch {
	case err != nil:
	case found:
		_ = unstructured.SetNestedField(object.Object, value, path...)
	default:
		unstructured.RemoveNestedField(object.Object, path...)
	}
}

// LeaveIgnored removes the ignored fields from the object to apply to a live one: they belong to the clients that wrote
// them. A field that only plumbline's own apply has written keeps its live value, because the API server deletes a
// field that an apply omits and no other manager owns; kept reports whether there is such a field.
func (c *Change) LeaveIgnored(desired *unstructured.Unstructured) (kept bool, err error) {
	if len(c.Object.Ignored) == 0 {
		return false, nil
	}
	entries, err := managed(c.Live)
	if err != nil {
		return false, err
	}
	mine := appliedBy(entries, v1alpha1.FieldManager)
	others := slices.DeleteFunc(entries, func(e entry) bool { return e.applied && e.manager == v1alpha1.FieldManager })
	for _, path := range c.Object.Ignored {
		unstructured.RemoveNestedField(desired.Object, path...)
		for _, leaf := range leavesAt(mine, path) {
			if !slices.ContainsFunc(others, func(e entry) bool { return touches(e.set, leaf) }) {
				setAs(desired, c.Live, leaf)
				kept = true
			}
		}
	}
	for _, part := range []string{"metadata", "spec"} {
		if fields, ok := desired.Object[part].(map[string]any); ok {
			dropEmpty(fields)
		}
	}
	return kept, nil
}

// leavesAt returns the fields of a set at or below a path, by their map keys, or the path itself if it is part of a
// field. The set may be nil.
func leavesAt(set *fieldpath.Set, path []string) [][]string {
	if set == nil {
		return nil
	}
	var found [][]string
	for leaf := range set.Leaves().All() {
		keys := keysOf(leaf)
		switch {
		case isAtOrBelow(keys, path):
			found = append(found, keys)
		case isAtOrBelow(path, keys):
			found = append(found, path)
		}
	}
	return found
}

// keysOf returns the map keys of a path, up to the first list.
func keysOf(path fieldpath.Path) []string {
	var keys []string
	for _, element := range path {
		if element.FieldName == nil {
			break
		}
		keys = append(keys, *element.FieldName)
	}
	return keys
}

// isAtOrBelow reports whether a path is at or below another.
func isAtOrBelow(path, top []string) bool {
	return len(path) >= len(top) && slices.Equal(path[:len(top)], top)
}

// without returns a set without the fields at or below the given paths.
func without(set *fieldpath.Set, paths [][]string) *fieldpath.Set {
	if len(paths) == 0 {
		return set
	}
	left := fieldpath.NewSet()
	for _, path := range paths {
		names := make([]any, 0, len(path))
		for _, key := range path {
			names = append(names, key)
		}
		left.Insert(fieldpath.MakePathOrDie(names...))
	}
	return set.RecursiveDifference(left)
}

// comparedFields is what an apply of Git's object would do to the live object.
type comparedFields struct {
	// change are the differences that an apply would remove.
	change []difference
	// editors are the managers other than ours that own one of them, and edited are those differences.
	editors []string
	edited  []difference
	// rewritten are the paths of those that mean the same on both sides but still make nodes drift.
	rewritten []string
	// foreign are the conflicting fields of other appliers, and tools are the names of these.
	foreign []difference
	tools   []string
	// takeover reports whether an interactive manager owns a field that Git does not contain. taken are the paths of
	// fields that Git does not contain, that another manager owns and that make nodes drift.
	takeover bool
	taken    [][]string
	// extra are the fields of the spec that are not in Git and that plumbline keeps.
	extra []extraField
	// leftByRemoval reports whether a removal has left fields of its own, and leftByBrake whether a brake has.
	leftByRemoval, leftByBrake bool
	// sameEntry reports whether our entry in managedFields would stay the same.
	sameEntry bool
	// wanted is the object that was compared: see Change.Wanted.
	wanted *unstructured.Unstructured
}

// clean reports whether an apply would change nothing at all.
func (j comparedFields) clean() bool {
	return j.sameEntry && !j.leftByRemoval && len(j.change) == 0 && len(j.foreign) == 0
}

// specChanges returns the differences within spec.
func (j comparedFields) specChanges() []difference {
	var found []difference
	for _, d := range slices.Concat(j.change, j.foreign) {
		if d.path[0] == "spec" {
			found = append(found, d)
		}
	}
	return found
}

// compareWithLive compares the objects, and determines for each difference who owns the field. The disruption budgets
// of a braked NodePool are compared without the brake.
func compareWithLive(object render.Object, live *Object, owner Owner, schema Schema, braked bool) (comparedFields, error) {
	ignored := object.Ignored
	object.Defaulted = ignoring(object, live.Unstructured)
	desired := Desired(object, owner)
	if braked {
		desired = WithoutBudgets(desired)
	}
	want, err := schema.FieldSet(desired)
	if err != nil {
		return comparedFields{}, fmt.Errorf("list the fields of %s: %w", object.Ref, err)
	}
	entries, err := managed(live.Unstructured)
	if err != nil {
		return comparedFields{}, err
	}
	mine := appliedBy(entries, v1alpha1.FieldManager)
	live.marks(mine)
	j := comparedFields{
		wanted:        object.Defaulted,
		sameEntry:     mine != nil && without(mine, ignored).Equals(without(want, ignored)),
		leftByRemoval: appliedBy(entries, v1alpha1.RemovalFieldManager) != nil,
		leftByBrake:   appliedBy(entries, v1alpha1.BrakeFieldManager) != nil,
	}
	for _, d := range differences(live.Unstructured, desired) {
		j.addDifference(d, touches(want, d.path), entries, live.Unstructured)
	}
	if braked && !slices.ContainsFunc(ignored, func(path []string) bool {
		return len(path) <= len(budgetsPath) && slices.Equal(path, budgetsPath[:len(path)])
	}) {
		j.addBudgets(object, live.Unstructured)
	}
	if !j.sameEntry {
		j.change = append(j.change, leftMetadata(live.Unstructured, want, entries)...)
	}
	slices.Sort(j.editors)
	j.editors = slices.Compact(j.editors)
	slices.Sort(j.tools)
	j.tools = slices.Compact(j.tools)
	return j, nil
}

// addBudgets compares the disruption budgets of a braked NodePool in Git with those that are in force without the brake.
func (j *comparedFields) addBudgets(object render.Object, live *unstructured.Unstructured) {
	git, inForce := BudgetsOf(object.Defaulted), WithoutBrake(live)
	if last := MaxBudgets - 1; len(git) == MaxBudgets && isHeld(live) && reflect.DeepEqual(git[:last], inForce) {
		return // the last one of Git's was dropped, because there was no room for a DisruptionHold
	}
	if len(git)+len(inForce) > 0 && !reflect.DeepEqual(git, inForce) {
		j.addChange(difference{path: budgetsPath, from: inForce, to: git}, live, false)
	}
}

// leftMetadata returns the labels and annotations that plumbline has applied, that Git no longer contains and that
// nobody else owns: the next apply removes them.
func leftMetadata(live *unstructured.Unstructured, want *fieldpath.Set, entries []entry) []difference {
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

// ours reports whether the manager is one of plumbline's.
func (e entry) ours() bool {
	return e.manager == v1alpha1.FieldManager && e.applied || e.manager == v1alpha1.RemovalFieldManager ||
		e.manager == v1alpha1.BrakeFieldManager
}

// addDifference determines who owns the field of a difference. A field that is not in Git, and whose managers plumbline
// may not take it from, stays unless it makes nodes drift. So does a field that is written differently in Git but means
// the same.
func (j *comparedFields) addDifference(d difference, inGit bool, entries []entry, live *unstructured.Unstructured) {
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
	j.addChange(d, live, len(j.editors) > known)
}

// addChange records a difference to write. One that means the same is written only if it makes nodes drift.
func (j *comparedFields) addChange(d difference, live *unstructured.Unstructured, edited bool) {
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
