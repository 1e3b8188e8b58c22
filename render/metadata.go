package render

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// ownerKey is the label, and for long names the annotation, that plumbline
// writes onto every object; a copied object must not bring it along.
const ownerKey = "plumbline.dev/nodesync"

// rescuesKey is the annotation by which a copy of an EC2NodeClass that was deleted in use is known: in
// Git it would have the NodePools of another class pointed at this one.
const rescuesKey = "plumbline.dev/rescues"

// orphanedKey is the annotation by which a NodePool is known that was left to itself, and leavingKey the label
// by which the nodes of one that leaves have drifted: plumbline writes another value of it onto the template.
const (
	orphanedKey = "plumbline.dev/orphaned"
	leavingKey  = "plumbline.dev/leaving"
)

// serverFields are the fields of metadata that are the API server's, or a
// controller's, to write.
var serverFields = []string{
	"creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "finalizers", "generateName",
	"generation", "managedFields", "ownerReferences", "resourceVersion", "selfLink", "uid",
}

// foreignAnnotations are written onto live objects by Karpenter and kubectl,
// and come along where an object is copied out of a cluster.
var foreignAnnotations = []string{
	"karpenter.sh/nodepool-hash",
	"karpenter.sh/nodepool-hash-version",
	"karpenter.k8s.aws/ec2nodeclass-hash",
	"karpenter.k8s.aws/ec2nodeclass-hash-version",
	"kubectl.kubernetes.io/last-applied-configuration",
}

// checkMetadata finds what a definition cannot say about itself.
func checkMetadata(kind Kind, object map[string]any) []problem {
	var found []problem
	add := func(path, format string, args ...any) {
		found = append(found, problem{path, fmt.Sprintf(format, args...)})
	}
	metadata, ok := object["metadata"].(map[string]any)
	if !ok {
		return []problem{{"", kind.GVK.Kind + " has no metadata: it needs a name"}}
	}
	if name, _ := metadata["name"].(string); name == "" {
		add("metadata", "%s has no metadata.name", kind.GVK.Kind)
	}
	for _, name := range slices.Sorted(maps.Keys(metadata)) {
		if slices.Contains(serverFields, name) {
			add("metadata."+name, "metadata.%s is not for Git to say: leave it out", name)
		}
	}
	if _, given := object["status"]; given {
		add("status", "status is Karpenter's to write: leave it out")
	}
	labels, _ := metadata["labels"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	for _, key := range []string{ownerKey, orphanedKey} {
		if _, given := labels[key]; given {
			add("metadata.labels["+key+"]", "the label %s is plumbline's to write: leave it out", key)
		}
	}
	for _, of := range []string{"labels", "annotations"} {
		if _, given, _ := unstructured.NestedFieldNoCopy(object, "spec", "template", "metadata", of, leavingKey); given {
			add("spec.template.metadata."+of+"["+leavingKey+"]", "%s is plumbline's to write, onto the template of a NodePool that is removed: leave it out", leavingKey)
		}
	}
	for _, key := range append([]string{ownerKey, rescuesKey, orphanedKey}, foreignAnnotations...) {
		if _, given := annotations[key]; given {
			add("metadata.annotations["+key+"]", "the annotation %s was copied out of a cluster: leave it out", key)
		}
	}
	if value, given := annotations[SubstituteAnnotation]; given && value != "disabled" && value != "enabled" {
		add("metadata.annotations["+SubstituteAnnotation+"]", "%s is %v, and has to be disabled or enabled", SubstituteAnnotation, value)
	}
	return found
}

// dropNamespace leaves the namespace out, which the API server drops of a kind that belongs to the whole
// cluster: kustomize and templates write it on all that they make. It returns a sentence on it; empty where there was none.
func dropNamespace(kind Kind, object map[string]any) string {
	metadata, _ := object["metadata"].(map[string]any)
	namespace, given := metadata["namespace"]
	if !given {
		return ""
	}
	delete(metadata, "namespace")
	return fmt.Sprintf("%s belongs to the whole cluster: metadata.namespace %v is left out", kind.GVK.Kind, namespace)
}

// dropEmpty leaves out what generators write and nobody means: nulls, and an
// empty status.
func dropEmpty(object map[string]any) {
	dropNulls(object)
	if status, ok := object["status"].(map[string]any); ok && len(status) == 0 {
		delete(object, "status")
	}
}

func dropNulls(value any) {
	switch v := value.(type) {
	case map[string]any:
		maps.DeleteFunc(v, func(_ string, entry any) bool { return entry == nil })
		for _, entry := range v {
			dropNulls(entry)
		}
	case []any:
		for _, entry := range v {
			dropNulls(entry)
		}
	}
}
