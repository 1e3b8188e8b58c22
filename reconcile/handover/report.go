package handover

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	udiff "github.com/aymanbagabas/go-udiff"
	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/provision/owners"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/approval"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/summary"
	"github.com/plumbline-dev/plumbline/render"
)

// Report is the state of a handover.
type Report struct {
	NodeSync string   `json:"nodeSync"`
	Objects  []Handed `json:"objects"`
	// Next is what to do, one line each.
	Next []string `json:"next,omitempty"`

	// Sync gets the objects from Tool, or, if Back, gives them back. Owned is the number of its definitions.
	Sync  *v1alpha1.NodeSync `json:"-"`
	Tool  owners.Owner       `json:"-"`
	Back  bool               `json:"-"`
	Owned int                `json:"-"`
	// Files are those of a clone below Root, after Read was called.
	Files Files  `json:"-"`
	Root  string `json:"-"`
}

// Handed is one object of the handover.
type Handed struct {
	Object string `json:"object"`
	// AppliedBy is the Kustomization or Application that hands it over, or gets it back.
	AppliedBy string `json:"appliedBy,omitempty"`
	// Step is the next step, and Why is what it waits for.
	Step  Step   `json:"step"`
	Waits bool   `json:"waits,omitempty"`
	Why   string `json:"why,omitempty"`

	Ref   render.Ref                 `json:"-"`
	Live  *unstructured.Unstructured `json:"-"`
	By    *Applier                   `json:"-"` // nil if that is unknown
	State Object                     `json:"-"`

	owner owners.Owner
	mark  owners.Mark
	// folder is the folder of By that has its file, if By has several.
	folder string
	// inGit reports whether the object's file has the mark; false if that is unknown.
	inGit bool
}

// Query is what is handed over to which tool: the objects in Refs, or all that the tool applies. Owner is the name of
// the Kustomization or Application; empty for the one that applies an object.
type Query struct {
	Sync  *v1alpha1.NodeSync
	Tool  owners.Owner
	Owner string
	Back  bool
	Refs  []render.Ref
}

// Look returns the state of each object, from the appliers of the tool and the definitions of the cluster. Call Decide
// next, after Read if there is a clone.
func (q Query) Look(appliers []Applier, definitions []unstructured.Unstructured) (*Report, error) {
	r := &Report{NodeSync: q.Sync.Namespace + "/" + q.Sync.Name, Objects: []Handed{}, Sync: q.Sync, Back: q.Back, Tool: q.Tool}
	for i := range definitions {
		live := &definitions[i]
		o, ok, err := q.object(appliers, live)
		if err != nil {
			return nil, err
		}
		if plan.OwnerOf(q.Sync.Namespace, q.Sync.Name).Owns(live) {
			r.Owned++
		}
		if ok {
			r.Objects = append(r.Objects, o)
		}
	}
	for _, ref := range q.Refs {
		if !slices.ContainsFunc(r.Objects, func(o Handed) bool { return o.Ref == ref }) {
			return nil, fmt.Errorf("%s is not in the cluster: run `plumbline owners` to list the objects that are", ref)
		}
	}
	return r, nil
}

// object returns an object that is handed over; ok is false for any other.
func (q Query) object(appliers []Applier, live *unstructured.Unstructured) (o Handed, ok bool, err error) {
	ref := render.RefOf(live)
	named := slices.Contains(q.Refs, ref)
	if len(q.Refs) > 0 && !named {
		return o, false, nil
	}
	o = Handed{Object: ref.String(), Ref: ref, Live: live, owner: q.Tool}
	if o.By, err = applierOf(appliers, q.Tool, q.Owner, ref, live); err != nil {
		return o, false, err
	}
	if o.By != nil {
		o.owner, o.AppliedBy = o.By.Owner, o.By.words()
	}
	o.mark, _ = o.owner.Mark()
	owner := plan.OwnerOf(q.Sync.Namespace, q.Sync.Name)
	has := owner.Owns(live) && plan.Applied(live)
	theirs := Side{Applies: o.By != nil && o.By.lists[ref], Left: len(ReleaseTheirs(live, o.owner)) > 0}
	ours := Side{Applies: has, Left: len(ReleaseOurs(live)) > 0}
	o.inGit = appliedAnnotation(live, o.mark.Key)
	o.State = Object{Ref: ref, Kept: o.mark.On(live), From: theirs, To: ours}
	if q.Back {
		o.State.From, o.State.To = ours, theirs
	}
	known := o.By != nil || has // else it belongs to a HelmRelease, or its labels are left over
	if !named && (helmed(live) || !known || !theirs.Applies && !theirs.Left && !o.State.Kept) {
		return o, false, nil
	}
	return o, true, q.refuse(&o)
}

// helmed reports whether Flux applies an object through a chart.
func helmed(object *unstructured.Unstructured) bool { return owners.Of(object).Kind == "HelmRelease" }

// appliedAnnotation reports whether a tool has applied an annotation, so that it is in a file: any other was added by
// hand.
func appliedAnnotation(object *unstructured.Unstructured, key string) bool {
	return slices.ContainsFunc(object.GetManagedFields(), func(entry metav1.ManagedFieldsEntry) bool {
		_, applier := owners.Applier(entry.Manager)
		return (applier || entry.Manager == v1alpha1.FieldManager) && entry.FieldsV1 != nil &&
			strings.Contains(entry.FieldsV1.GetRawString(), fmt.Sprintf(`"f:%s"`, key))
	})
}

// refuse returns why an object cannot be handed over.
func (q Query) refuse(o *Handed) error {
	sync := q.Sync
	owner, labelled := plan.OwnerNamed(o.Live)
	switch {
	case o.Live.GetDeletionTimestamp() != nil:
		return fmt.Errorf("%s is terminating, which cannot be undone", o.Ref)
	case labelled && owner != plan.OwnerOf(sync.Namespace, sync.Name):
		return fmt.Errorf("%s belongs to NodeSync %s: set it with --nodesync, or move the file between the folders of the two NodeSyncs",
			o.Ref, owner)
	case !q.Back && sync.Spec.Adopt == v1alpha1.AdoptNever:
		return fmt.Errorf("spec.adopt of nodesync/%s is Never, so it would adopt nothing: set it to IfIdentical", sync.Name)
	case helmed(o.Live):
		return fmt.Errorf("%s is part of the chart of %s: hand it over by hand, see docs/how-to/beside-flux-or-argo-cd.md",
			o.Ref, owners.Of(o.Live))
	case o.By == nil && q.Back:
		return fmt.Errorf("no %[2]s applies %[1]s: set the one that gets it back with --owner [NAMESPACE/]NAME", o.Ref, o.owner.Kind)
	case o.By == nil && !o.State.To.Applies:
		return fmt.Errorf("no %[2]s of %[3]s applies %[1]s: run `plumbline owners` to see which tool does", o.Ref, o.owner.Kind, o.owner.Tool)
	case o.By != nil && o.By.nested(sync.Spec.Path):
		return fmt.Errorf("%s applies %s, and nodesync/%s follows %s: one folder contains the other, so both would still apply a moved file; give each its own folder", o.By, o.By.folder, sync.Name, path.Clean(sync.Spec.Path))
	case o.By != nil:
		return o.By.refuse(o.Ref)
	}
	return nil
}

// FollowsBranch returns an error if the NodeSync follows another branch than the one checked out in a clone.
func (r *Report) FollowsBranch(checkedOut, root string) error {
	if branch := r.Sync.Spec.Source.FollowedBranch(); branch != "" && branch != checkedOut {
		return fmt.Errorf("nodesync/%s follows branch %s, but %s is on %s: git switch %s", r.Sync.Name, branch, root, checkedOut, branch)
	}
	return nil
}

// Folders returns the folders of a clone whose files Read needs.
func (r *Report) Folders() []string {
	folders := []string{r.Sync.Spec.Path}
	for i := range r.Objects {
		if by := r.Objects[i].By; by != nil {
			folders = append(folders, by.several...)
		}
		folders = append(folders, r.Objects[i].both(r)...)
	}
	slices.Sort(folders)
	return slices.Compact(folders)
}

// Read records for each object where its file is in a clone, and whether the file has the mark.
func (r *Report) Read(files Files, root string) (err error) {
	r.Files, r.Root = files, root
	for i := range r.Objects {
		if err := r.locate(&r.Objects[i]); err != nil {
			return err
		}
	}
	for i := range r.Objects {
		o := &r.Objects[i]
		from, to := o.folders(r)
		o.State.Cloned = true
		if from != "" {
			if o.State.From.Has, err = files.Has(from, o.Ref); err != nil {
				return err
			}
		}
		if to != "" {
			if o.State.To.Has, err = files.Has(to, o.Ref); err != nil {
				return err
			}
		}
		if o.State.Marked, err = files.Marked(o.both(r), o.Ref, o.mark); err != nil {
			return err
		}
		o.inGit = o.State.Marked
	}
	return nil
}

// Decide determines the next step of each object, and describes what to do. unpushed is what to do first about commits
// that are not pushed yet.
func (r *Report) Decide(unpushed []string) error {
	for i := range r.Objects {
		o := &r.Objects[i]
		if o.Step, o.Waits = o.State.Next(); o.Step == Unmark && o.State.Cloned && !o.inGit && appliedAnnotation(o.Live, o.mark.Key) {
			o.Waits = true // its file no longer has the mark, and a tool is about to apply that
		}
		if o.Waits {
			o.Why = r.waitsFor(o)
		}
	}
	return r.describeNext(unpushed)
}

// folders returns the folder that hands an object over, and the one that gets it.
func (o *Handed) folders(r *Report) (from, to string) {
	if from, to = "", r.Sync.Spec.Path; o.By != nil {
		from = cmp.Or(o.folder, o.By.folder)
	}
	if r.Back {
		return to, from
	}
	return from, to
}

// both returns those of the two folders that are known.
func (o *Handed) both(r *Report) []string {
	from, to := o.folders(r)
	return slices.DeleteFunc([]string{from, to}, func(folder string) bool { return folder == "" })
}

// Step returns the first step that is left for any of the objects.
func (r *Report) Step() Step {
	steps := Steps()
	first := len(steps) - 1
	for i := range r.Objects {
		first = min(first, slices.Index(steps, r.Objects[i].Step))
	}
	return steps[first]
}

// Due returns the objects that are at this step and do not wait.
func (r *Report) Due() (found []*Handed) {
	step := r.Step()
	for i := range r.Objects {
		if o := &r.Objects[i]; o.Step == step && !o.Waits {
			found = append(found, o)
		}
	}
	return found
}

// Waits reports whether there is nothing to do now.
func (r *Report) Waits() bool { return len(r.Due()) == 0 }

// Why returns what is waited for.
func (r *Report) Why() string {
	for i := range r.Objects {
		if o := &r.Objects[i]; o.Step == r.Step() && o.Waits {
			return o.Why
		}
	}
	return ""
}

// Approvable reports whether plumbline holds objects that are handed over from it until people approve that.
func (r *Report) Approvable() bool {
	return r.Step() == LetGo && slices.ContainsFunc(r.Objects, func(o Handed) bool {
		return o.State.From.Applies && heldAsIs(r.Sync, o.Ref)
	})
}

// heldAsIs reports whether a NodeSync holds the orphaning of an object.
func heldAsIs(sync *v1alpha1.NodeSync, ref render.Ref) bool {
	return sync.Status.Held != nil && slices.ContainsFunc(sync.Status.Held.Entries, func(e v1alpha1.ApprovedEntry) bool {
		return e.Orphan && e.Kind == ref.Kind && e.Name == ref.Name
	})
}

// Edited returns the files after a step that is a commit.
func (r *Report) Edited() (files Files, err error) {
	files = r.Files
	var moving []render.Ref
	lives := map[render.Ref]map[string]any{}
	due := r.Due()
	for _, o := range due {
		switch r.Step() {
		case Mark:
			files, err = files.Mark(o.both(r), o.Ref, o.mark)
		case Unmark:
			if !o.inGit {
				continue
			}
			files, err = files.Unmark(o.both(r), o.Ref, o.mark)
		case Move:
			moving, lives[o.Ref] = append(moving, o.Ref), o.Live.Object
		default:
		}
		if err != nil {
			return nil, err
		}
	}
	if len(moving) == 0 {
		return files, nil
	}
	from, to := due[0].folders(r)
	for _, o := range due {
		if f, t := o.folders(r); f != from || t != to || f == "" || t == "" {
			return nil, fmt.Errorf("%s and %s come from different or unknown folders: hand them over one at a time, by name", due[0].Ref, o.Ref)
		}
	}
	return files.Move(from, to, moving, lives)
}

// Message returns the commit message of a step.
func (r *Report) Message() string {
	due := r.Due()
	var names []string
	for _, o := range due {
		names = append(names, o.Ref.String())
	}
	what := strings.Join(names, ", ")
	if len(what) > 60 {
		what = fmt.Sprintf("%d definitions", len(due))
	}
	other, it, has := due[0].owner.Tool, "it changes", "it has"
	if len(due) > 1 {
		it, has = "they change", "they have"
	}
	switch step := r.Step(); {
	case step == Mark:
		return "Keep " + what + " in the cluster while " + it + " hands"
	case step == Unmark:
		return "Mark " + what + " no longer: " + has + " changed hands"
	case r.Back:
		return "Give " + what + " back to " + other
	}
	return "Hand " + what + " over from " + other + " to plumbline"
}

// Commits reports whether the step is a commit: the mark may only be on an object, added by hand.
func (r *Report) Commits() bool {
	switch r.Step() {
	case Mark, Move:
		return true
	case Unmark:
		return slices.ContainsFunc(r.Due(), func(o *Handed) bool { return o.inGit })
	default:
	}
	return false
}

// Patch returns what a step changes in an object in the cluster.
func (r *Report) Patch(o *Handed) []Operation {
	switch {
	case r.Step() == Unmark:
		return Unannotate(o.Live, o.mark)
	case r.Back:
		return ReleaseOurs(o.Live)
	}
	return ReleaseTheirs(o.Live, o.owner)
}

// waitsFor describes what an object waits for.
func (r *Report) waitsFor(o *Handed) string {
	sync := r.Sync
	ours, theirs := mentionsOurs(sync), o.owner.String()
	if o.By != nil && o.By.trouble != "" {
		theirs += ", which " + o.By.trouble
	}
	from, to := theirs, ours
	if r.Back {
		from, to = ours, theirs
	}
	switch {
	case o.Step == Mark:
		return fmt.Sprintf("the annotation on %s is committed: waiting for %s", o.Ref, from)
	case o.Step == Unmark:
		return fmt.Sprintf("the annotation is removed from the file of %s: waiting for %s", o.Ref, to)
	case r.Back && o.State.From.Applies && heldAsIs(sync, o.Ref):
		return fmt.Sprintf("NodeSync %s/%s holds the removal of %s until people approve it: %s",
			sync.Namespace, sync.Name, o.Ref, approval.Command(sync, sync.Status.Held.Digest))
	case r.Back && o.State.From.Applies, !r.Back && !o.State.To.Applies:
		return fmt.Sprintf("the file of %s has moved: waiting for %s", o.Ref, ours)
	}
	return fmt.Sprintf("the file of %s has moved: waiting for %s", o.Ref, theirs)
}

// mentionsOurs returns the name of a NodeSync, and why it is not Ready.
func mentionsOurs(sync *v1alpha1.NodeSync) string {
	ours := fmt.Sprintf("NodeSync %s/%s", sync.Namespace, sync.Name)
	if is := summary.Resting(sync); is != "" {
		return fmt.Sprintf("%s, which is %s: plumbline resume %s", ours, is, sync.Name)
	}
	if !conditions.IsReady(sync) {
		return ours + ": " + summary.OneLine(conditions.GetMessage(sync, meta.ReadyCondition))
	}
	return ours
}

// locate finds which folder of an Application with several folders has the file of an object.
func (r *Report) locate(o *Handed) error {
	if o.By == nil || len(o.By.several) == 0 {
		return nil
	}
	var having []string
	for _, folder := range o.By.several {
		has, err := r.Files.Has(folder, o.Ref)
		if err != nil {
			return err
		}
		if has && !slices.Contains(having, folder) {
			having = append(having, folder)
		}
	}
	ours, err := r.Files.Has(r.Sync.Spec.Path, o.Ref)
	switch {
	case err != nil:
		return err
	case len(having) == 1:
		o.folder = having[0]
	case len(having) > 1:
		return fmt.Errorf("%s of %s is in more than one folder of its sources: %s; keep it in one", o.Ref, o.By, strings.Join(having, ", "))
	case !ours:
		return fmt.Errorf("%s of %s is in none of the folders of its sources in %s: %s; use a clone of the repository that contains it",
			o.Ref, o.By, r.Root, strings.Join(o.By.several, ", "))
	case r.Back:
		return fmt.Errorf("%s has sources with several folders (%s): move the file of %s, unchanged and with the annotation, from %s to the right folder, then run this command again",
			o.By, strings.Join(o.By.several, ", "), o.Ref, r.Sync.Spec.Path)
	}
	return nil
}

// applies returns what applies the folder that an object is moved from.
func (r *Report) applies(o *Handed) string {
	if r.Back {
		return "NodeSync " + r.NodeSync
	}
	return o.owner.String()
}

// keeps explains why a commit adds a file to a folder that has no other; empty if it does not.
func (r *Report) keeps(after Files) []string {
	for _, name := range r.Files.Differing(after) {
		if path.Base(name) == KeepFile && r.Files[name] == nil {
			return []string{"", fmt.Sprintf("%s would be empty, and Git has no empty folders: without %s, %s would fail because its path does not exist.",
				path.Dir(name), KeepFile, r.applies(r.Due()[0]))}
		}
	}
	return nil
}

// keepByHand describes the same for a commit by hand.
func (r *Report) keepByHand(o *Handed) string {
	from, _ := o.folders(r)
	return fmt.Sprintf("If it is the last file in %s, add an empty file %s there in the same commit: Git has no empty folders, and %s would fail because its path does not exist.",
		folderWord(from), KeepFile, r.applies(o))
}

// describeNext describes what to do next.
func (r *Report) describeNext(unpushed []string) error {
	due := r.Due()
	if len(due) == 0 {
		if why := r.Why(); why != "" {
			r.Next = append(slices.Clone(unpushed), why)
		}
		return nil
	}
	if r.Step() == Done {
		return nil
	}
	if r.Commits() && r.Root != "" {
		after, err := r.Edited()
		if err != nil {
			return err
		}
		r.Next = append([]string{"In " + r.Root + ", commit and push (or use --write or --push): " + r.Message(), ""}, r.Files.Diff(after)...)
		r.Next = append(r.Next, r.keeps(after)...)
		return nil
	}
	for _, o := range due {
		from, to := o.folders(r)
		switch {
		case r.Step() == Mark:
			r.Next = append(r.Next, fmt.Sprintf("Annotate %s in %s, and push it:\n\n  metadata:\n    annotations:\n      %s: %s\n",
				o.Ref, folderWord(from), o.mark.Key, strings.Join(o.mark.Words, ",")))
		case r.Step() == Move:
			r.Next = append(r.Next,
				fmt.Sprintf("Move the file of %s, unchanged, from %s to %s in one commit, and push it.", o.Ref, folderWord(from), folderWord(to)),
				r.keepByHand(o))
		case r.Commits() && !o.inGit:
		case r.Commits():
			r.Next = append(r.Next, fmt.Sprintf("Remove the annotation %s from %s in %s, and push it.", o.mark.Key, o.Ref, folderWord(to)))
		default:
			body, err := json.Marshal(r.Patch(o))
			if err != nil {
				return fmt.Errorf("encode the patch of %s: %w", o.Ref, err)
			}
			r.Next = append(r.Next, fmt.Sprintf("kubectl patch %s %s --type=json --patch '%s'", strings.ToLower(o.Ref.Kind), o.Ref.Name, body))
		}
	}
	return nil
}

func folderWord(folder string) string {
	if folder == "" {
		return "the other tool's folder"
	}
	return path.Clean(folder)
}

// Differing returns the names of the files that differ.
func (f Files) Differing(after Files) []string {
	names := map[string]bool{}
	for name := range f {
		names[name] = true
	}
	for name := range after {
		names[name] = true
	}
	return slices.DeleteFunc(slices.Sorted(maps.Keys(names)), func(name string) bool {
		was, had := f[name]
		is, has := after[name]
		return had == has && bytes.Equal(was, is)
	})
}

// Diff returns the differences, as git does. A file that is moved unchanged is one line.
func (f Files) Diff(after Files) (lines []string) {
	changed := f.Differing(after)
	for _, name := range changed {
		if was, had := f[name]; had && after[name] == nil {
			if to := slices.IndexFunc(changed, func(other string) bool { return f[other] == nil && bytes.Equal(after[other], was) }); to >= 0 {
				lines = append(lines, fmt.Sprintf("git mv %s %s", name, changed[to]))
				changed[to] = "" // it has been printed
				continue
			}
		}
		if name == "" {
			continue
		}
		text := udiff.Unified("a/"+name, "b/"+name, string(f[name]), string(after[name]))
		lines = append(lines, strings.Split(strings.TrimSuffix(text, "\n"), "\n")...)
	}
	return lines
}
