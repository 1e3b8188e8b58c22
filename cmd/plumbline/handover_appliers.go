package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	udiff "github.com/aymanbagabas/go-udiff"
	"github.com/dustin/go-humanize/english"
	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/provision/owners"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/approval"
	"github.com/plumbline-dev/plumbline/reconcile/handover"
	"github.com/plumbline-dev/plumbline/reconcile/watch"
	"github.com/plumbline-dev/plumbline/render"
)

// applier is a Kustomization or an Application.
type applier struct {
	owners.Owner
	// folder is what it applies, in its repository; empty if that is not one.
	folder string
	// several are the folders of an Application with more than one source that has one; folder is empty then.
	several []string
	// set is the ApplicationSet that makes an Application, and with are the others that it makes from the same folder.
	set  string
	with []string
	// deep reports whether it applies what is in folders below as well.
	deep bool
	// lists are the definitions that it applies.
	lists map[render.Ref]bool
	// trouble is why it applies nothing now; empty if it does.
	trouble string
	// wake are the objects to annotate so that it looks at Git now, and how.
	wake []*unstructured.Unstructured
	key  string
}

// ownerOfTool is what applies objects in a tool.
func ownerOfTool(from string) owners.Owner {
	if from == "argocd" {
		return owners.Owner{Tool: "Argo CD", Kind: "Application"}
	}
	return owners.Owner{Tool: "Flux", Kind: "Kustomization"}
}

// The kinds of the objects by which Flux and Argo CD apply others.
var (
	kustomizationKind = schema.GroupVersionKind{Group: "kustomize.toolkit.fluxcd.io", Version: "v1", Kind: "Kustomization"}
	applicationKind   = schema.GroupVersionKind{Group: "argoproj.io", Version: "v1alpha1", Kind: "Application"}
)

// listOf reads all objects of a kind.
func listOf(ctx context.Context, c client.Reader, kind schema.GroupVersionKind) (*unstructured.UnstructuredList, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	return list, c.List(ctx, list)
}

// appliers reads all of a tool.
func (h *handing) appliers(ctx context.Context, from string) ([]applier, error) {
	kind, read := kustomizationKind, kustomization
	if from == "argocd" {
		kind, read = applicationKind, application
	}
	list, err := listOf(ctx, h, kind)
	if apimeta.IsNoMatchError(err) {
		return nil, fmt.Errorf("this cluster has no %ss (%s): --from names the tool that applies the definitions", kind.Kind, kind.Group)
	} else if err != nil {
		return nil, explain(err, "list "+kind.Kind+"s")
	}
	found := make([]applier, 0, len(list.Items))
	for i := range list.Items {
		one := read(&list.Items[i])
		one.Owner = ownerOfTool(from)
		one.Namespace, one.Name = list.Items[i].GetNamespace(), list.Items[i].GetName()
		if list.Items[i].GetDeletionTimestamp() != nil {
			one.trouble = "is being deleted"
		}
		found = append(found, one)
	}
	shareFolders(found)
	return found, nil
}

// kustomization reads one of Flux.
func kustomization(object *unstructured.Unstructured) applier {
	a := applier{deep: true, lists: map[render.Ref]bool{}, key: "reconcile.fluxcd.io/requestedAt"}
	a.folder, _, _ = unstructured.NestedString(object.Object, "spec", "path")
	a.folder = path.Clean("./" + a.folder)
	entries, _, _ := unstructured.NestedSlice(object.Object, "status", "inventory", "entries")
	for _, entry := range entries {
		fields, _ := entry.(map[string]any)
		id, _ := fields["id"].(string)
		if parts := strings.Split(id, "_"); len(parts) == 4 { // namespace_name_group_kind
			a.list(parts[2], parts[3], parts[1])
		}
	}
	suspended, _, _ := unstructured.NestedBool(object.Object, "spec", "suspend")
	if suspended {
		a.trouble = fmt.Sprintf("is suspended: flux resume kustomization %s --namespace %s", object.GetName(), object.GetNamespace())
	} else if why := notReady(object); why != "" {
		a.trouble = "is not Ready: " + why
		if strings.Contains(why, "path not found") {
			a.trouble += fmt.Sprintf(" (Git has no empty folders: put an empty file %s into %s, and push that)", handover.KeepFile, a.folder)
		}
	}
	source := &unstructured.Unstructured{}
	kind, _, _ := unstructured.NestedString(object.Object, "spec", "sourceRef", "kind")
	name, _, _ := unstructured.NestedString(object.Object, "spec", "sourceRef", "name")
	namespace, _, _ := unstructured.NestedString(object.Object, "spec", "sourceRef", "namespace")
	source.SetGroupVersionKind(schema.GroupVersionKind{Group: "source.toolkit.fluxcd.io", Version: "v1", Kind: kind})
	source.SetName(name)
	if source.SetNamespace(namespace); namespace == "" {
		source.SetNamespace(object.GetNamespace())
	}
	a.wake = []*unstructured.Unstructured{source, object}
	return a
}

// nested reports whether a file that moves between its folder and another one would stay in the first:
// one of them is the other, or in it, as all are in the root.
func (a *applier) nested(other string) bool {
	return slices.ContainsFunc(append([]string{a.folder}, a.several...), func(folder string) bool {
		theirs, ours := strings.TrimSuffix(path.Join("/", folder, "x"), "x"), strings.TrimSuffix(path.Join("/", other, "x"), "x")
		return folder != "" && (a.deep && strings.HasPrefix(ours, theirs) || strings.HasPrefix(theirs, ours))
	})
}

// list notes a definition.
func (a *applier) list(group, kind, name string) {
	if known, ok := render.KindOf(kind); ok && known.GVK.Group == group {
		a.lists[render.Ref{Kind: kind, Name: name}] = true
	}
}

func notReady(object *unstructured.Unstructured) string {
	all, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, condition := range all {
		fields, _ := condition.(map[string]any)
		if fields["type"] == "Ready" && fields["status"] == "False" {
			return fmt.Sprint(fields["message"])
		}
	}
	return ""
}

// applierOf is the one that an object is handed over by, or goes to: by its name, by the object's
// marks, or as it lists it. nil if there is none.
func (h *handing) applierOf(appliers []applier, ref render.Ref, live *unstructured.Unstructured) (*applier, error) {
	if h.owner != "" {
		for i := range appliers {
			if a := &appliers[i]; h.owner == a.Name || h.owner == a.Namespace+"/"+a.Name {
				return a, nil
			}
		}
		return nil, fmt.Errorf("--owner %s: there is no such %s", h.owner, ownerOfTool(h.from).Kind)
	}
	var found *applier
	for i := range appliers {
		a := &appliers[i]
		marked := slices.ContainsFunc(owners.All(live), func(owner owners.Owner) bool {
			return owner.Kind == a.Kind && owner.Name == a.Name && (owner.Namespace == a.Namespace || owner.Namespace == "")
		})
		switch {
		case marked && a.lists[ref]:
			return a, nil
		case marked, a.lists[ref] && found == nil:
			found = a
		}
	}
	return found, nil
}

// nudge has the other tool and plumbline look at Git now. Who may not write to them waits for
// their intervals.
func (h *handing) nudge(ctx context.Context, r *handoverReport) {
	nudged := map[string]bool{}
	for i := range r.Objects {
		by := r.Objects[i].by
		if by == nil || nudged[by.String()] {
			continue
		}
		nudged[by.String()] = true
		value := time.Now().Format(time.RFC3339Nano)
		if by.Kind == "Application" {
			value = "normal"
		}
		for _, object := range by.wake {
			patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, by.key, value))
			_ = h.Patch(ctx, object.DeepCopy(), patch) // it is only faster
		}
	}
	_, _ = watch.Request(ctx, h, client.ObjectKeyFromObject(r.sync), time.Now()) // likewise
}

// waitsFor says what an object waits for.
func (h *handing) waitsFor(sync *v1alpha1.NodeSync, o *handedObject) string {
	ours, theirs := saysOurs(sync), o.owner.String()
	if o.by != nil && o.by.trouble != "" {
		theirs += ", which " + o.by.trouble
	}
	from, to := theirs, ours
	if h.back {
		from, to = ours, theirs
	}
	switch {
	case o.Step == handover.Mark:
		return fmt.Sprintf("the annotation of %s is committed: waiting for %s", o.ref, from)
	case o.Step == handover.Unmark:
		return fmt.Sprintf("the annotation is taken out of the file of %s: waiting for %s", o.ref, to)
	case h.back && o.state.From.Applies && holds(sync, o.ref):
		return fmt.Sprintf("NodeSync %s/%s holds that %s leaves it until people approve that: %s", sync.Namespace, sync.Name, o.ref, approval.Command(sync, sync.Status.Held.Digest))
	case h.back && o.state.From.Applies, !h.back && !o.state.To.Applies:
		return fmt.Sprintf("the file of %s has moved: waiting for %s", o.ref, ours)
	}
	return fmt.Sprintf("the file of %s has moved: waiting for %s", o.ref, theirs)
}

// saysOurs names a NodeSync, and says why it is not Ready.
func saysOurs(sync *v1alpha1.NodeSync) string {
	ours := fmt.Sprintf("NodeSync %s/%s", sync.Namespace, sync.Name)
	if is := resting(sync); is != "" {
		return fmt.Sprintf("%s, which is %s: plumbline resume %s", ours, is, sync.Name)
	}
	if !conditions.IsReady(sync) {
		return ours + ": " + oneLine(conditions.GetMessage(sync, meta.ReadyCondition))
	}
	return ours
}

// application reads one of Argo CD. A resource that is to be pruned has left its folder.
func application(object *unstructured.Unstructured) applier {
	a := applier{lists: map[render.Ref]bool{}, key: "argocd.argoproj.io/refresh", wake: []*unstructured.Unstructured{object}}
	a.readSources(object)
	for _, owner := range object.GetOwnerReferences() {
		if owner.Kind == "ApplicationSet" {
			a.set = owner.Name
		}
	}
	resources, _, _ := unstructured.NestedSlice(object.Object, "status", "resources")
	for _, resource := range resources {
		fields, _ := resource.(map[string]any)
		group, _ := fields["group"].(string)
		kind, _ := fields["kind"].(string)
		name, _ := fields["name"].(string)
		if pruned, _ := fields["requiresPruning"].(bool); !pruned {
			a.list(group, kind, name)
		}
	}
	_, automated, _ := unstructured.NestedMap(object.Object, "spec", "syncPolicy", "automated")
	if enabled, set, _ := unstructured.NestedBool(object.Object, "spec", "syncPolicy", "automated", "enabled"); !automated || set && !enabled {
		a.trouble = "is not synced automatically: argocd app sync " + object.GetName()
		if a.set != "" {
			a.trouble += fmt.Sprintf(", or set spec.template.spec.syncPolicy.automated of ApplicationSet %s, which makes it", a.set)
		}
	}
	return a
}

// readSources reads the folders of spec.sources, or of spec.source. Charts, and sources that others only
// refer to (ref), have none.
func (a *applier) readSources(object *unstructured.Unstructured) {
	sources, _, _ := unstructured.NestedSlice(object.Object, "spec", "sources")
	if one, ok, _ := unstructured.NestedMap(object.Object, "spec", "source"); ok && len(sources) == 0 {
		sources = []any{one}
	}
	for _, source := range sources {
		fields, _ := source.(map[string]any)
		folder, _ := fields["path"].(string)
		if chart, _ := fields["chart"].(string); folder == "" || chart != "" {
			continue
		}
		recurse, _, _ := unstructured.NestedBool(fields, "directory", "recurse")
		a.several, a.deep = append(a.several, folder), a.deep || recurse
	}
	if len(a.several) == 1 {
		a.folder, a.several = a.several[0], nil
	}
}

// shareFolders notes of each Application which others its ApplicationSet makes from the same folder.
func shareFolders(all []applier) {
	for i := range all {
		for j := range all {
			a, b := &all[i], &all[j]
			if i != j && a.set != "" && a.set == b.set && a.Namespace == b.Namespace && a.folder != "" && path.Clean(a.folder) == path.Clean(b.folder) {
				a.with = append(a.with, b.Name)
			}
		}
	}
}

// words name it, and what makes it.
func (a *applier) words() string {
	if a.set != "" {
		return a.String() + ", made by ApplicationSet " + a.set
	}
	return a.String()
}

// refuse says why what it applies cannot be handed over by files that move.
func (a *applier) refuse(ref render.Ref) error {
	switch {
	case len(a.with) > 0:
		return fmt.Errorf("%s is made by ApplicationSet %s, which makes %s from the same folder %s: a file that moves would leave all of their clusters; "+
			"first give this one a folder of its own in the ApplicationSet's template (spec.template.spec.source.path)", a, a.set, strings.Join(a.with, ", "), a.folder)
	case a.Kind == "Application" && a.folder == "" && len(a.several) == 0:
		return fmt.Errorf("%s applies no folder of a repository, only charts: hand %s over by hand, as docs/how-to/beside-flux-or-argo-cd.md says", a, ref)
	}
	return nil
}

// located are the folders that files are read of, after that of each object is found whose Application has several.
func (h *handing) located(ctx context.Context, r *handoverReport) ([]string, error) {
	folders := []string{r.sync.Spec.Path}
	for i := range r.Objects {
		o := &r.Objects[i]
		if err := h.locate(ctx, r, o); err != nil {
			return nil, err
		}
		folders = append(folders, o.both(r)...)
	}
	return folders, nil
}

// locate finds of an Application with several folders the one that has the file of an object.
func (h *handing) locate(ctx context.Context, r *handoverReport, o *handedObject) error {
	if o.by == nil || len(o.by.several) == 0 {
		return nil
	}
	files, err := h.clone.files(ctx, append([]string{r.sync.Spec.Path}, o.by.several...))
	if err != nil {
		return err
	}
	var having []string
	for _, folder := range o.by.several {
		has, err := files.Has(folder, o.ref)
		if err != nil {
			return err
		}
		if has && !slices.Contains(having, folder) {
			having = append(having, folder)
		}
	}
	ours, err := files.Has(r.sync.Spec.Path, o.ref)
	switch {
	case err != nil:
		return err
	case len(having) == 1:
		o.folder = having[0]
	case len(having) > 1:
		return fmt.Errorf("%s of %s is in more than one folder of its sources: %s; leave it in one", o.ref, o.by, strings.Join(having, ", "))
	case !ours:
		return fmt.Errorf("%s of %s is in none of the folders of its sources in %s: %s; give a clone of the repository that has it", o.ref, o.by, h.clone.root, strings.Join(o.by.several, ", "))
	case r.back:
		return fmt.Errorf("%s has sources with several folders (%s): move the file of %s, as it is and with the annotation, from %s to the right one, and run this again",
			o.by, strings.Join(o.by.several, ", "), o.ref, r.sync.Spec.Path)
	}
	return nil
}

// applies names what applies the folder that an object leaves.
func (r *handoverReport) applies(o *handedObject) string {
	if r.back {
		return "NodeSync " + r.NodeSync
	}
	return o.owner.String()
}

// keeps says why a commit leaves a file in a folder that has no other; nothing where it leaves none.
func (r *handoverReport) keeps(after handover.Files) []string {
	for _, name := range differing(r.files, after) {
		if path.Base(name) == handover.KeepFile && r.files[name] == nil {
			return []string{"", fmt.Sprintf("Nothing else is left in %s, and Git has no empty folders: without %s, %s would fail, since its path is gone.",
				path.Dir(name), handover.KeepFile, r.applies(r.due()[0]))}
		}
	}
	return nil
}

// keepByHand says likewise what to do in a commit by hand.
func (r *handoverReport) keepByHand(o *handedObject) string {
	from, _ := o.folders(r)
	return fmt.Sprintf("Where it is the last file in %s, put an empty file %s there in the same commit: Git has no empty folders, and %s would fail, since its path is gone.",
		folderWord(from), handover.KeepFile, r.applies(o))
}

// clone is a user's clone of a repository. Git is the user's own program, with its
// identity, hooks and credentials.
type clone struct{ root, branch, remote string }

// openClone finds the branch that is checked out, and where it is pushed to.
func openClone(ctx context.Context, folder string) (*clone, error) {
	c := &clone{root: folder}
	root, err := c.git(ctx, "rev-parse", "--show-toplevel")
	if err != nil {
		return nil, fmt.Errorf("--repo %s is no clone of a repository: %w", folder, err)
	}
	c.root = root
	if c.branch, err = c.git(ctx, "symbolic-ref", "--short", "HEAD"); err != nil {
		return nil, fmt.Errorf("--repo %s has no branch checked out: git switch BRANCH", folder)
	}
	if c.remote, err = c.git(ctx, "config", "branch."+c.branch+".remote"); err != nil {
		c.remote = "origin" // as git has it where nothing is set
	}
	return c, nil
}

// git runs it in the clone, and returns what it prints.
func (c *clone) git(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	var out, errs bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = c.root, &out, &errs
	if err := cmd.Run(); err != nil {
		if text := strings.TrimSpace(errs.String()); text != "" {
			err = errors.New(text)
		}
		return "", fmt.Errorf("git %s: %w", args[0], err)
	}
	return strings.TrimSpace(out.String()), nil
}

// pull gets what others have pushed. It merges nothing.
func (c *clone) pull(ctx context.Context) error {
	if _, err := c.git(ctx, "pull", "--quiet", "--ff-only", c.remote, c.branch); err != nil {
		return fmt.Errorf("bring %s up to date: %w", c.root, err)
	}
	return nil
}

// push pushes the branch, and forces nothing. An interrupted run may have left a commit.
func (c *clone) push(ctx context.Context) error {
	if _, err := c.git(ctx, "push", "--quiet", c.remote, "HEAD:refs/heads/"+c.branch); err != nil {
		return fmt.Errorf("push %s to %s: %w", c.branch, c.remote, err)
	}
	return nil
}

// files are those in some folders, as they are committed; of others than YAML only that they are there.
func (c *clone) files(ctx context.Context, folders []string) (handover.Files, error) {
	found := handover.Files{}
	for _, folder := range folders {
		if !filepath.IsLocal(filepath.Clean(strings.TrimPrefix(folder, "/"))) {
			return nil, fmt.Errorf("the folder %s is not one of a repository", folder)
		}
		folder = filepath.Clean(strings.TrimPrefix(folder, "/"))
		changed, err := c.git(ctx, "status", "--porcelain", "--", folder)
		if err != nil {
			return nil, err
		}
		if changed != "" {
			return nil, fmt.Errorf("%s has changes below %s that are not committed: commit them, or put them aside (git stash) first", c.root, folder)
		}
		names, err := c.git(ctx, "ls-files", "-z", "--", folder)
		if err != nil {
			return nil, err
		}
		for name := range strings.SplitSeq(names, "\x00") {
			if name == "" {
				continue
			}
			if found[name], err = c.read(name); err != nil {
				return nil, fmt.Errorf("read %s in %s: %w", folder, c.root, err)
			}
		}
	}
	return found, nil
}

// read is the text of a file that is read; of any other, and of links, it is empty.
func (c *clone) read(name string) ([]byte, error) {
	file := filepath.Join(c.root, filepath.FromSlash(name))
	info, err := os.Lstat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist): // a sparse checkout has not all of them
		return []byte{}, nil
	case err != nil:
		return nil, err
	case info.Mode().IsRegular() && handover.Reads(name):
		return os.ReadFile(file)
	}
	return []byte{}, nil
}

// ahead is how many commits of the clone are not pushed yet.
func (c *clone) ahead(ctx context.Context) int {
	for _, pushed := range []string{"refs/remotes/" + c.remote + "/" + c.branch, "@{upstream}"} {
		if count, err := c.git(ctx, "rev-list", "--count", pushed+"..HEAD"); err == nil {
			n, _ := strconv.Atoi(count) // git counts in digits
			return n
		}
	}
	return 0
}

// unpushed reports that commits are not pushed yet; nothing where they are.
func (c *clone) unpushed(ctx context.Context) []string {
	n := c.ahead(ctx)
	if n == 0 {
		return nil
	}
	return []string{fmt.Sprintf("Branch %s of %s is %s ahead of %s/%[1]s: push that first, or have it merged by a pull request:\n\n  git -C %[2]s push %[4]s %[1]s\n",
		c.branch, c.root, english.Plural(n, "commit", "commits"), c.remote)}
}

// commit writes what differs, and commits just that.
func (c *clone) commit(ctx context.Context, before, after handover.Files, message string) error {
	changed := differing(before, after)
	for _, name := range changed {
		file := filepath.Join(c.root, filepath.FromSlash(name))
		text, stays := after[name]
		if !stays {
			if err := os.Remove(file); err != nil {
				return fmt.Errorf("edit %s: %w", file, err)
			}
			continue
		}
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return fmt.Errorf("edit %s: %w", file, err)
		}
		if err := os.WriteFile(file, text, 0o644); err != nil {
			return fmt.Errorf("edit %s: %w", file, err)
		}
	}
	if _, err := c.git(ctx, append([]string{"add", "--all", "--"}, changed...)...); err != nil {
		return err
	}
	_, err := c.git(ctx, append([]string{"commit", "--quiet", "--message", message, "--"}, changed...)...)
	return err
}

// differing are the files that differ.
func differing(before, after handover.Files) []string {
	names := map[string]bool{}
	for name := range before {
		names[name] = true
	}
	for name := range after {
		names[name] = true
	}
	return slices.DeleteFunc(slices.Sorted(maps.Keys(names)), func(name string) bool {
		was, had := before[name]
		is, has := after[name]
		return had == has && bytes.Equal(was, is)
	})
}

// diff shows what differs, as git does. A file that moves as it is is one line.
func diff(before, after handover.Files) (lines []string) {
	changed := differing(before, after)
	for _, name := range changed {
		if was, had := before[name]; had && after[name] == nil {
			if to := slices.IndexFunc(changed, func(other string) bool { return before[other] == nil && bytes.Equal(after[other], was) }); to >= 0 {
				lines = append(lines, fmt.Sprintf("git mv %s %s", name, changed[to]))
				changed[to] = "" // it has been printed
				continue
			}
		}
		if name == "" {
			continue
		}
		text := udiff.Unified("a/"+name, "b/"+name, string(before[name]), string(after[name]))
		lines = append(lines, strings.Split(strings.TrimSuffix(text, "\n"), "\n")...)
	}
	return lines
}
