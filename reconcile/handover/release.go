package handover

import (
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/provision/owners"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// Operation is one of a JSON patch (RFC 6902).
type Operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// ReleaseTheirs is the patch that takes off an object what a tool has left on it: its labels and
// annotations, and its entries in managedFields. No field of the spec changes. It is empty where nothing
// is left.
func ReleaseTheirs(object *unstructured.Unstructured, by owners.Owner) []Operation {
	labels, annotations := by.Left(object)
	return release(object, labels, annotations, func(manager string) bool {
		tool, _ := owners.Applier(manager)
		return tool == by.Tool
	})
}

// ReleaseOurs is likewise that of what plumbline has left on an object that no NodeSync has.
func ReleaseOurs(object *unstructured.Unstructured) []Operation {
	var labels []string
	if object.GetLabels()[v1alpha1.OrphanedLabel] != "" {
		labels = append(labels, v1alpha1.OrphanedLabel)
	}
	return release(object, labels, nil, func(manager string) bool {
		return slices.Contains([]string{v1alpha1.FieldManager, v1alpha1.RemovalFieldManager, v1alpha1.BrakeFieldManager}, manager)
	})
}

// Unannotate is the patch that takes the mark off an object whose file does not have it.
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
	for i := len(entries) - 1; i >= 0; i-- { // the last first: the others stay where they are
		if entry(entries[i]) && theirs(entries[i].Manager) {
			patch = append(patch, Operation{Op: "remove", Path: "/metadata/managedFields/" + strconv.Itoa(i)})
		}
	}
	if len(patch) == 0 {
		return nil
	}
	return append(asSeen(object), patch...)
}

// entry says that an entry is of the object itself, and not of its status.
func entry(e metav1.ManagedFieldsEntry) bool { return e.Subresource == "" }

// asSeen has a patch hold for just that object as it was seen.
func asSeen(object *unstructured.Unstructured) []Operation {
	return []Operation{
		{Op: "test", Path: "/metadata/uid", Value: string(object.GetUID())},
		{Op: "test", Path: "/metadata/resourceVersion", Value: object.GetResourceVersion()},
	}
}

func escape(key string) string {
	return strings.ReplaceAll(strings.ReplaceAll(key, "~", "~0"), "/", "~1")
}
