package render

import (
	"bytes"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/redact"
	"github.com/plumbline-dev/plumbline/render/kustomize"
)

// A definition that is gone from Git is a removal, and a removal ends nodes. A file that
// lost its text by accident must not look like one that a person has taken out.

// isEmptied says whether a file has no text at all, as a bad merge or a full disk leaves it.
func isEmptied(data []byte) bool {
	return len(bytes.TrimSpace(bytes.TrimPrefix(data, []byte("\ufeff")))) == 0
}

func emptied(name string) Error {
	return Error{File: name, Message: "the file is empty, and its definitions would be removed with their nodes: restore its text, or delete the file to remove them"}
}

// withoutDefinition warns of a file with comments and nothing else.
func withoutDefinition(name string) string {
	return redact.VisibleName(name) + ": the file has no definition, only comments or empty documents: what was defined there counts as removed; delete the file if that is meant"
}

// withoutObject warns of a kustomization that makes nothing.
func withoutObject(name string) string {
	return redact.VisibleName(name) + ": the kustomization renders no object: what it had counts as removed; take its folder out if that is meant"
}

// isLocal says whether kustomize would leave an object out.
func isLocal(d draft) bool {
	object, _ := d.value.(map[string]any)
	value, found, err := unstructured.NestedFieldNoCopy(object, "metadata", "annotations", kustomize.LocalAnnotation)
	return err == nil && found && value != "false"
}

// refuseLocal refuses the definitions that kustomize would leave out. Objects of other kinds
// serve a build (as the source of a replacement, say), and are none of ours.
func refuseLocal(drafts []draft) Errors {
	var errs Errors
	for _, d := range drafts {
		if !isLocal(d) {
			continue
		}
		object, _ := d.value.(map[string]any)
		apiVersion, _ := object["apiVersion"].(string)
		kind, _ := object["kind"].(string)
		if _, refusal := classify(apiVersion, kind); refusal != "" {
			continue
		}
		name, _, _ := unstructured.NestedString(object, "metadata", "name")
		errs = append(errs, Error{
			File: d.origin.File, Line: d.lineOf("metadata.annotations"),
			Message: fmt.Sprintf("%s/%s has the annotation %s, by which kustomize leaves it out, and its nodes would be drained: remove the annotation to keep it, or take the definition out of Git to remove it", kind, name, kustomize.LocalAnnotation),
		})
	}
	return errs
}

// onlyComments says whether a YAML file has nothing but comments and separators.
func onlyComments(data []byte) bool {
	for line := range bytes.Lines(data) {
		line = bytes.TrimSpace(line)
		if len(line) > 0 && line[0] != '#' && !bytes.Equal(line, []byte("---")) {
			return false
		}
	}
	return true
}
