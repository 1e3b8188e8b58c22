package handover

import (
	"bytes"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/provision/owners"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
	"github.com/plumbline-dev/plumbline/render/document"
)

// Step is the next step of a handover.
type Step string

// The steps, in order.
const (
	// Mark annotates the definition in its file, so that no tool removes it.
	Mark Step = "Mark"
	// Move moves its file, in one commit.
	Move Step = "Move"
	// LetGo waits until the old tool stops applying it, and the new one applies it.
	LetGo Step = "LetGo"
	// Release removes what the old tool left on the object: labels, annotations, fields.
	Release Step = "Release"
	// Unmark removes the annotation.
	Unmark Step = "Unmark"
	// Done means that nothing is left to do.
	Done Step = "Done"
)

// Steps returns all steps, in order.
func Steps() []Step { return []Step{Mark, Move, LetGo, Release, Unmark, Done} }

// Side is the state of a definition in one of the two tools.
type Side struct {
	// Applies reports whether the tool applies the object: Flux lists it in its inventory, Argo CD among the resources
	// of its folder, and plumbline has its label on it.
	Applies bool
	// Has reports whether the object's file is in the tool's folder; only known with a clone.
	Has bool
	// Left reports whether the object has labels, annotations or managed fields of the tool.
	Left bool
}

// Object is the state of one definition.
type Object struct {
	Ref render.Ref
	// Kept reports whether the object in the cluster has the mark, where tools read it.
	Kept bool
	// From is the old tool, and To the new one.
	From, To Side
	// Cloned reports whether the files are known, and Marked whether the object's file has the mark.
	Cloned, Marked bool
}

// Next returns the next step of an object. waits reports whether there is nothing to do but wait: the step is done in
// Git, or another tool has to act.
func (o Object) Next() (step Step, waits bool) {
	switch {
	case !o.Kept && (o.From.Applies || o.From.Has):
		return Mark, o.Marked
	case o.Cloned && (o.From.Has || !o.To.Has), !o.Cloned && o.From.Applies && !o.To.Applies:
		return Move, false
	case o.From.Applies || !o.To.Applies:
		return LetGo, true
	case o.From.Left:
		return Release, false
	case o.Kept:
		return Unmark, false
	}
	return Done, false
}

// Operation is one operation of a JSON patch (RFC 6902).
type Operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// ReleaseTheirs returns the patch that removes what a tool left on an object: its labels, its annotations, and its
// entries in managedFields. No field of the spec changes. It is empty if nothing is left.
func ReleaseTheirs(object *unstructured.Unstructured, by owners.Owner) []Operation {
	labels, annotations := by.Left(object)
	return release(object, labels, annotations, func(manager string) bool {
		tool, _ := owners.Applier(manager)
		return tool == by.Tool
	})
}

// ReleaseOurs does the same for what plumbline left on an object that no NodeSync owns.
func ReleaseOurs(object *unstructured.Unstructured) []Operation {
	var labels []string
	if object.GetLabels()[v1alpha1.OrphanedLabel] != "" {
		labels = append(labels, v1alpha1.OrphanedLabel)
	}
	return release(object, labels, nil, func(manager string) bool {
		return slices.Contains([]string{v1alpha1.FieldManager, v1alpha1.RemovalFieldManager, v1alpha1.BrakeFieldManager}, manager)
	})
}

// Unannotate returns the patch that removes the mark from an object whose file does not have it.
func Unannotate(object *unstructured.Unstructured, mark owners.Mark) []Operation {
	value := object.GetAnnotations()[mark.Key]
	if !mark.In(value) {
		return nil
	}
	at := Operation{Op: "remove", Path: "/metadata/annotations/" + escape(mark.Key)}
	if rest := mark.Without(value); rest != "" {
		at.Op, at.Value = "replace", rest
	}
	return append(asSeen(object), at)
}

func release(object *unstructured.Unstructured, labels, annotations []string, theirs func(manager string) bool) []Operation {
	var patch []Operation
	for _, key := range labels {
		patch = append(patch, Operation{Op: "remove", Path: "/metadata/labels/" + escape(key)})
	}
	for _, key := range annotations {
		patch = append(patch, Operation{Op: "remove", Path: "/metadata/annotations/" + escape(key)})
	}
	entries := object.GetManagedFields()
	for i := len(entries) - 1; i >= 0; i-- { // in reverse, so that the other indexes stay valid
		if entry(entries[i]) && theirs(entries[i].Manager) {
			patch = append(patch, Operation{Op: "remove", Path: "/metadata/managedFields/" + strconv.Itoa(i)})
		}
	}
	if len(patch) == 0 {
		return nil
	}
	return append(asSeen(object), patch...)
}

// entry reports whether an entry is of the object itself, not of a subresource.
func entry(e metav1.ManagedFieldsEntry) bool { return e.Subresource == "" }

// asSeen makes a patch fail if the object has changed since it was read.
func asSeen(object *unstructured.Unstructured) []Operation {
	return []Operation{
		{Op: "test", Path: "/metadata/uid", Value: string(object.GetUID())},
		{Op: "test", Path: "/metadata/resourceVersion", Value: object.GetResourceVersion()},
	}
}

func escape(key string) string {
	return strings.ReplaceAll(strings.ReplaceAll(key, "~", "~0"), "/", "~1")
}

// kustomization returns the kustomization file of a folder; empty if there is none.
func (f Files) kustomization(folder string) string {
	for _, name := range []string{"kustomization.yaml", "kustomization.yml", "Kustomization"} {
		if _, ok := f[path.Join(folder, name)]; ok {
			return path.Join(folder, name)
		}
	}
	return ""
}

// resources returns the resources that a kustomization lists.
func (f Files) resources(file string) ([]string, error) {
	documents, err := document.Parse(f[file])
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	var found []string
	for _, one := range documents {
		fields, _ := one.Value.(map[string]any)
		items, _ := fields["resources"].([]any)
		for _, item := range items {
			found = append(found, fmt.Sprint(item))
		}
	}
	return found, nil
}

// unlist removes a deleted file from the kustomizations above it, up to a folder, and deletes those that become empty.
func (f Files) unlist(folder, file string) error {
	for above := path.Dir(file); below(folder, path.Join(above, "x")); above = path.Dir(above) {
		if in := f.kustomization(above); in != "" {
			name := strings.TrimPrefix(file, above+"/")
			line := regexp.MustCompile(`(?m)^[ ]*-[ ]+["']?(\./)?` + regexp.QuoteMeta(name) + `["']?[ ]*(#.*)?\r?\n?`)
			was := len(f[in])
			if err := f.relist(in, line.ReplaceAllLiteral(f[in], nil), name, false); err != nil {
				return err
			}
			if len(f[in]) != was && f.dropEmpty(in) {
				file = above // the kustomization above this one lists its folder
			}
		}
		if above == "." {
			break
		}
	}
	return nil
}

// list adds a new file to the kustomization of its folder, if there is one.
func (f Files) list(folder, file string) error {
	in := f.kustomization(path.Clean(folder))
	if in == "" {
		return nil
	}
	name := strings.TrimPrefix(file, path.Clean(folder)+"/")
	at := regexp.MustCompile(`(?m)^resources:[ ]*(#.*)?\r?\n([ ]*)-`).FindSubmatchIndex(f[in])
	if at == nil {
		return byHand(in, name, true)
	}
	item := at[4] // where the line of the first item starts
	line := append(append([]byte{}, f[in][at[4]:at[5]]...), "- "+name+"\n"...)
	return f.relist(in, bytes.Join([][]byte{f[in][:item], line, f[in][item:]}, nil), name, true)
}

// relist replaces the text of a kustomization, after which it must list exactly one file more, or less.
func (f Files) relist(in string, text []byte, name string, more bool) error {
	before, err := f.resources(in)
	if err != nil {
		return err
	}
	named := false
	for _, one := range before {
		named = named || path.Clean(one) == name
	}
	if named == more {
		return nil
	}
	was := f[in]
	f[in] = text
	after, err := f.resources(in)
	if change := len(after) - len(before); err != nil || more && change != 1 || !more && change != -1 {
		f[in] = was
		return byHand(in, name, more)
	}
	return nil
}

func byHand(in, name string, more bool) error {
	if more {
		return fmt.Errorf("%s must list %s in its resources, but its format is not supported: make this commit by hand", in, name)
	}
	return fmt.Errorf("%s lists %s in its resources, but not on a line of its own: make this commit by hand", in, name)
}

const (
	// KeepFile keeps a folder without other files in Git: Git has no empty folders, and Flux and Argo CD fail if the
	// path that they apply does not exist. Neither applies the file itself.
	KeepFile = ".gitkeep"
	keepText = "# Keeps this folder in Git, since its path is applied. Written by plumbline adopt.\n"
)

// Reads reports whether the text of a file matters. For other files, only their existence does.
func Reads(file string) bool {
	return slices.Contains([]string{".yaml", ".yml"}, path.Ext(file)) || slices.Contains([]string{"Kustomization", KeepFile}, path.Base(file))
}

// keep keeps a folder in Git after its last file was moved.
func (f Files) keep(folder string) {
	if !f.any(folder) {
		f[path.Join(folder, KeepFile)] = []byte(keepText)
	}
}

// unkeep removes the file that keep added from a folder that has files again, and no file of others.
func (f Files) unkeep(folder string) {
	if in := path.Join(folder, KeepFile); string(f[in]) == keepText {
		delete(f, in)
	}
}

// any reports whether there is a file in a folder, or below it.
func (f Files) any(folder string) bool {
	for file := range f {
		if below(folder, file) {
			return true
		}
	}
	return false
}

// dropEmpty deletes a kustomization without content: kustomize fails with an empty one. It stays if there are other
// files, because without it these would be applied.
func (f Files) dropEmpty(in string) bool {
	documents, err := document.Parse(f[in])
	if err != nil || len(documents) > 1 {
		return false
	}
	for _, one := range documents {
		fields, _ := one.Value.(map[string]any)
		for key, value := range fields {
			if items, _ := value.([]any); key != "apiVersion" && key != "kind" && (key != "resources" || len(items) > 0) {
				return false
			}
		}
	}
	text := f[in]
	if delete(f, in); f.any(path.Dir(in)) {
		f[in] = text
		return false
	}
	return true
}
