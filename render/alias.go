package render

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/render/document"
)

// AliasChange replaces the AMI alias From by To.
type AliasChange struct{ From, To string }

// SetAliases returns the files of a Snapshot, with their new text, in which AMI aliases are replaced, so that each
// EC2NodeClass of the path that selects From selects To. Only the alias changes in a file: comments, order and white
// space stay. It finds the files that a kustomization reads outside of the path, patches, and variables of
// plumbline.yaml, and changes only those that are needed. The changed files are rendered to verify that no other field
// of the Set changes. An alias that no EC2NodeClass selects needs no change. The options are those of Render.
//
// It returns an *AliasError if the form of the files does not allow it.
func SetAliases(ctx context.Context, snap Snapshot, name string, changes []AliasChange, options ...Option) (map[string][]byte, error) {
	files, now := map[string][]byte{}, snap
	for _, change := range changes {
		karpenter, err := ReadKarpenter(now, name)
		if err != nil {
			return nil, err
		}
		set, err := Render(ctx, now, name, karpenter, nil, options...)
		if err != nil {
			return nil, err
		}
		e := &aliasEdit{snap: now, name: name, set: set, from: change.From, to: change.To, options: options}
		edited, err := e.run(ctx)
		if err != nil {
			return nil, err
		}
		maps.Copy(files, edited)
		now.FS = overlaid{under: snap.FS, files: files}
	}
	return files, nil
}

// AliasError reports that an alias cannot be replaced in the files.
type AliasError struct {
	From, To string
	// Files are those that contain it.
	Files  []string
	Reason string
}

// Error says what to do.
func (e *AliasError) Error() string {
	in := ""
	if len(e.Files) > 0 {
		in = " in " + strings.Join(e.Files, ", ")
	}
	return fmt.Sprintf("replace alias %s by %s%s: %s: change it by hand", e.From, e.To, in, e.Reason)
}

// aliasEdit is the state of SetAlias.
type aliasEdit struct {
	snap     Snapshot
	name     string
	set      *Set
	from, to string
	options  []Option

	// names are the files that contain the alias, in the order in which they are left out if they are not needed, and
	// edited is their new text.
	names  []string
	edited map[string][]byte
	// variables are those of plumbline.yaml that contain it, and kept those that are not needed.
	variables []string
	kept      map[string]bool
	// unfit are the errors of files that contain the alias in a form that cannot be edited.
	unfit []error
}

// run replaces one alias.
func (e *aliasEdit) run(ctx context.Context) (map[string][]byte, error) {
	selects := func(o Object) bool { return o.Ref.Kind == EC2NodeClass && slices.Contains(aliases(o.Desired), e.from) }
	if !slices.ContainsFunc(e.set.Objects, selects) {
		return nil, nil
	}
	if err := e.findCandidates(); err != nil {
		return nil, err
	}
	if err := e.verify(ctx, e.edited); err != nil {
		return nil, &AliasError{From: e.from, To: e.to, Files: e.names, Reason: errors.Join(append(e.unfit, err)...).Error()}
	}
	files, err := e.fewest(ctx, maps.Clone(e.edited))
	if err != nil {
		return nil, err
	}
	return files, e.fewestVariables(ctx, files)
}

// aliases returns the aliases of an EC2NodeClass.
func aliases(class *unstructured.Unstructured) (found []string) {
	terms, _, _ := unstructured.NestedSlice(class.Object, "spec", "amiSelectorTerms")
	for _, term := range terms {
		if fields, ok := term.(map[string]any); ok {
			if alias, ok := fields["alias"].(string); ok {
				found = append(found, alias)
			}
		}
	}
	return found
}

// findCandidates edits all files that contain the alias. plumbline.yaml may contain only its version, as a variable.
func (e *aliasEdit) findCandidates() error {
	e.edited = map[string][]byte{}
	config := ConfigFile(e.name)
	for _, name := range e.inputs(config) {
		data, err := fs.ReadFile(e.snap.FS, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}
		change := e.inDefinitions
		if name == config {
			change = e.inVariables
		}
		edited, replaced, err := document.ReplaceAll(data, change)
		switch {
		case err != nil && bytes.Contains(data, []byte(e.from)):
			e.unfit = append(e.unfit, textError(name, err))
		case err == nil && replaced > 0:
			e.names, e.edited[name] = append(e.names, name), edited
		}
	}
	return nil
}

// inputs returns the files that were read, those furthest from the path first: they may also belong to other clusters.
func (e *aliasEdit) inputs(config string) (names []string) {
	folder := path.Dir(config)
	below := func(name string) bool { return folder == "." || strings.HasPrefix(name, folder+"/") }
	var inside []string
	for name, identity := range e.set.Inputs {
		ext := path.Ext(name)
		switch {
		case identity == absent || identity == isFile || identity == isFolder || ext != ".yaml" && ext != ".yml" && ext != ".json":
		case slices.Contains(e.set.Linked, name): // its text is elsewhere
		case below(name):
			inside = append(inside, name)
		default:
			names = append(names, name)
		}
	}
	slices.Sort(names)
	slices.Sort(inside)
	return append(names, inside...)
}

// inDefinitions replaces the alias in terms of an EC2NodeClass or of a patch for one, and as the value of a JSON patch.
func (e *aliasEdit) inDefinitions(keys []string, value string) (string, bool) {
	last := len(keys) - 1
	is := last == 0 && keys[0] == "value" || last > 0 && keys[last] == "alias" && (keys[last-1] == "amiSelectorTerms" || keys[last-1] == "value")
	return e.to, is && value == e.from
}

// inVariables replaces the alias, or its version, in the variables of plumbline.yaml.
func (e *aliasEdit) inVariables(keys []string, value string) (string, bool) {
	if len(keys) != 2 || keys[0] != "substitute" || e.kept[keys[1]] {
		return "", false
	}
	text, is := e.asVariable(value)
	if is {
		e.variables = append(e.variables, keys[1])
	}
	return text, is
}

func (e *aliasEdit) asVariable(value string) (string, bool) {
	_, version, _ := strings.Cut(e.from, "@")
	_, next, _ := strings.Cut(e.to, "@")
	switch value {
	case e.from:
		return e.to, true
	case version:
		return next, true
	}
	return "", false
}

// fewest leaves out each file that is not needed, so that a base that other clusters share changes only if it must.
func (e *aliasEdit) fewest(ctx context.Context, files map[string][]byte) (map[string][]byte, error) {
	for _, name := range e.names {
		if len(files) == 1 {
			break
		}
		text := files[name]
		delete(files, name)
		if err := e.verify(ctx, files); err != nil {
			files[name] = text
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// fewestVariables leaves out each variable that is not needed.
func (e *aliasEdit) fewestVariables(ctx context.Context, files map[string][]byte) error {
	config := ConfigFile(e.name)
	if files[config] == nil {
		return nil
	}
	data, err := fs.ReadFile(e.snap.FS, config)
	if err != nil {
		return fmt.Errorf("read %s: %w", config, err)
	}
	e.kept = map[string]bool{}
	for _, name := range slices.Clone(e.variables) {
		text := files[config]
		e.kept[name] = true
		edited, replaced, err := document.ReplaceAll(data, e.inVariables)
		if err != nil || replaced == 0 {
			delete(e.kept, name)
			continue
		}
		if files[config] = edited; e.verify(ctx, files) != nil {
			delete(e.kept, name)
			files[config] = text
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

// verify renders the changed files, and returns an error unless exactly the alias of each class has changed.
func (e *aliasEdit) verify(ctx context.Context, files map[string][]byte) error {
	changed := e.snap
	changed.FS = overlaid{under: e.snap.FS, files: files}
	karpenter, err := ReadKarpenter(changed, e.name)
	if err != nil {
		return err
	}
	set, err := Render(ctx, changed, e.name, karpenter, nil, e.options...)
	if err != nil {
		return err
	}
	if len(set.Objects) != len(e.set.Objects) {
		return errors.New("the number of definitions would change")
	}
	was := map[Ref]*unstructured.Unstructured{}
	for i := range e.set.Objects {
		was[e.set.Objects[i].Ref] = e.set.Objects[i].Desired
	}
	for i := range set.Objects {
		now := &set.Objects[i]
		if was[now.Ref] == nil {
			return fmt.Errorf("%s would be new", now.Ref)
		}
		if !reflect.DeepEqual(e.wanted(was[now.Ref]), now.Desired.Object) {
			return fmt.Errorf("%s would not change as it must", now.Ref)
		}
	}
	return nil
}

// wanted returns what an object must be after the change.
func (e *aliasEdit) wanted(was *unstructured.Unstructured) map[string]any {
	if was.GetKind() != EC2NodeClass || !slices.Contains(aliases(was), e.from) {
		return was.Object
	}
	next := was.DeepCopy()
	terms, _, _ := unstructured.NestedSlice(next.Object, "spec", "amiSelectorTerms")
	for _, term := range terms {
		if fields, ok := term.(map[string]any); ok && fields["alias"] == e.from {
			fields["alias"] = e.to
		}
	}
	_ = unstructured.SetNestedSlice(next.Object, terms, "spec", "amiSelectorTerms") // the fields were just read
	return next.Object
}
