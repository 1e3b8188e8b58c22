package render

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/redact"
	"github.com/plumbline-dev/plumbline/render/kustomize"
)

// drawn is a tree that a build reads, which looks at the files that objects come from:
// kustomize passes over those without any.
type drawn struct {
	*tree

	kustomization *kustomize.Kustomization
	resources     map[string]bool
	// defined are the objects in the files of resources, by file.
	defined  map[string][]definedAs
	errs     Errors
	warnings []string
}

// ReadFile reads a file, and notes what kustomize does not tell of it.
func (d *drawn) ReadFile(name string) ([]byte, error) {
	data, err := d.tree.ReadFile(name)
	isResource, known := d.resources[name]
	if err != nil || known && !isResource {
		return data, err
	}
	d.resources[name] = false // once: a build reads some files again
	if known {
		d.lookAtResource(name, data)
	} else {
		d.lookBeside(name, data)
	}
	return data, nil
}

// lookBeside looks at a file that is no resource: a patch, most often.
func (d *drawn) lookBeside(name string, data []byte) {
	switch {
	case d.kustomization.IsPatch(name) && isEmptied(data):
		d.errs = append(d.errs, Error{File: name, Message: "the patch is empty, and what it set would be taken back: restore its text, or take it out of the kustomization"})
	case d.kustomization.IsPatch(name) && onlyComments(data):
		d.warnings = append(d.warnings, redact.VisibleName(name)+": the patch has only comments or empty documents: what it set counts as removed; take it out of the kustomization if that is meant")
	case !kustomize.IsKustomization(name):
		if why := kustomize.WhyReserved(data); why != "" {
			d.errs = append(d.errs, Error{File: name, Message: why})
		}
	}
}

// lookAtResource looks at a file that objects come from.
func (d *drawn) lookAtResource(name string, data []byte) {
	switch {
	case isEmptied(data):
		d.errs = append(d.errs, emptied(name))
	case onlyComments(data):
		d.warnings = append(d.warnings, withoutDefinition(name))
	default:
		if documents, err := parse(name, data); err == nil { // else kustomize says what is wrong
			drafts := draftsOf(name, documents)
			d.errs = append(d.errs, refuseLocal(drafts)...)
			d.define(name, drafts)
		}
	}
}

// definedAs is what a file calls an object.
type definedAs struct{ apiVersion, kind, name string }

func nameOf(value any) definedAs {
	object, _ := value.(map[string]any)
	var as definedAs
	as.apiVersion, _ = object["apiVersion"].(string)
	as.kind, _ = object["kind"].(string)
	as.name, _, _ = unstructured.NestedString(object, "metadata", "name")
	return as
}

// define notes what a file has.
func (d *drawn) define(file string, drafts []draft) {
	if d.defined == nil {
		d.defined = map[string][]definedAs{}
	}
	for _, one := range drafts {
		d.defined[file] = append(d.defined[file], nameOf(one.value))
	}
}

// has says whether a file defines an object, perhaps by a part of the name that a build has
// given it.
func (d *drawn) has(file string, object definedAs) bool {
	return slices.ContainsFunc(d.defined[file], func(as definedAs) bool {
		return as.apiVersion == object.apiVersion && as.kind == object.kind && strings.Contains(object.name, as.name)
	})
}

// fileOf is the file that an object is from; the kustomization where it names one that does
// not define it.
func (d *drawn) fileOf(made kustomize.Resource) string {
	if !d.has(made.File, nameOf(made.Object)) {
		return d.kustomization.File()
	}
	return made.File
}

// refuseChanged refuses objects of other kinds that are left out, and that no file
// has: they may have been definitions, and none that is missing is a removal.
func (d *drawn) refuseChanged(leftOut []draft, why string) Errors {
	var errs Errors
	for _, one := range leftOut {
		as := nameOf(one.value)
		_, refusal := classify(as.apiVersion, as.kind)
		if refusal == "" || d.has(one.origin.File, as) || d.kustomization.Generates(as.apiVersion, as.kind, as.name) {
			continue
		}
		errs = append(errs, Error{
			File: one.origin.File,
			Message: fmt.Sprintf("%s/%s %s, and no file has this %s: where the build changes a definition's kind, its nodes would be drained; take out what changes it",
				as.kind, as.name, why, as.kind),
		})
	}
	return errs
}
