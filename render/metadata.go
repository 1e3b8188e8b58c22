package render

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/plumbline-dev/plumbline/render/legacy"
)

// ownerKey is the label, and for long names the annotation, that plumbline writes onto every object; a copied object
// must not contain it.
const ownerKey = "plumbline.dev/nodesync"

// rescuesKey is the annotation that marks the copy of an EC2NodeClass that was deleted in use. In Git it would redirect
// the NodePools of another class to this one.
const rescuesKey = "plumbline.dev/rescues"

// orphanedKey is the annotation that marks an orphaned NodePool. leavingKey is the label whose value plumbline changes
// in the template of a NodePool that is removed, so that its nodes drift.
const (
	orphanedKey = "plumbline.dev/orphaned"
	leavingKey  = "plumbline.dev/leaving"
)

// allowDeletionKey is the annotation that disables the deletion guard for an object: a person sets it in the cluster,
// right before the deletion. In Git it would disable the guard permanently.
const allowDeletionKey = "plumbline.dev/allow-deletion"

// serverFields are the fields of metadata that only the API server or a controller writes.
var serverFields = []string{
	"creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "finalizers", "generateName",
	"generation", "managedFields", "ownerReferences", "resourceVersion", "selfLink", "uid",
}

// foreignAnnotations are written onto live objects by Karpenter and kubectl, and are copied along when an object is
// copied from a cluster.
var foreignAnnotations = []string{
	"karpenter.sh/nodepool-hash",
	"karpenter.sh/nodepool-hash-version",
	"karpenter.k8s.aws/ec2nodeclass-hash",
	"karpenter.k8s.aws/ec2nodeclass-hash-version",
	"kubectl.kubernetes.io/last-applied-configuration",
}

// karpentersGroups are the domains of Karpenter's annotations, and templateAnnotations those that a template may have.
var (
	karpentersGroups    = []string{"karpenter.sh", "karpenter.k8s.aws"}
	templateAnnotations = []string{"karpenter.sh/do-not-disrupt", "karpenter.sh/do-not-repair", "karpenter.sh/do-not-consolidate", "karpenter.sh/do-not-evict"}
)

// isWrittenByKarpenter reports whether Karpenter itself writes an annotation onto NodeClaims. Each NodeClaim gets the
// annotations of its template: with karpenter.sh/nodeclaim-termination-timestamp its drain would override every
// PodDisruptionBudget, or never complete.
func isWrittenByKarpenter(annotation string) bool {
	domain, _, _ := strings.Cut(annotation, "/")
	isOf := func(group string) bool { return domain == group || strings.HasSuffix(domain, "."+group) }
	return slices.ContainsFunc(karpentersGroups, isOf) && !slices.Contains(templateAnnotations, annotation)
}

// checkMetadata reports metadata that a definition must not set.
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
	if namespace, _ := metadata["namespace"].(string); kind.Namespaced && namespace == "" {
		add("metadata", "%s has no metadata.namespace: it belongs to that of its pod template or workload", kind.GVK.Kind)
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
	return append(append(found, checkTemplate(object)...), checkAnnotations(annotations)...)
}

// checkTemplate reports metadata that the template of a NodePool must not set on its NodeClaims.
func checkTemplate(object map[string]any) (found []problem) {
	for _, of := range []string{"labels", "annotations"} {
		if _, given, _ := unstructured.NestedFieldNoCopy(object, "spec", "template", "metadata", of, leavingKey); given {
			found = append(found, problem{
				"spec.template.metadata." + of + "[" + leavingKey + "]",
				leavingKey + " is plumbline's to write, onto the template of a NodePool that is removed: leave it out",
			})
		}
	}
	template, _, _ := unstructured.NestedMap(object, "spec", "template", "metadata", "annotations")
	for _, key := range slices.Sorted(maps.Keys(template)) {
		if isWrittenByKarpenter(key) {
			found = append(found, problem{
				"spec.template.metadata.annotations[" + key + "]",
				"the annotation " + key + " is Karpenter's to write onto NodeClaims: leave it out",
			})
		}
	}
	return found
}

// checkAnnotations reports annotations that Git must not set.
func checkAnnotations(annotations map[string]any) (found []problem) {
	add := func(key, format string, args ...any) {
		found = append(found, problem{"metadata.annotations[" + key + "]", fmt.Sprintf(format, args...)})
	}
	for _, key := range append([]string{ownerKey, rescuesKey, orphanedKey}, foreignAnnotations...) {
		if _, given := annotations[key]; given {
			add(key, "the annotation %s was copied out of a cluster: leave it out", key)
		}
	}
	if _, given := annotations[allowDeletionKey]; given {
		add(allowDeletionKey, "the annotation %s opens the deletion guard, and is not for Git to set: leave it out, and set it by kubectl annotate right before a deletion", allowDeletionKey)
	}
	if value, given := annotations[SubstituteAnnotation]; given && value != "disabled" && value != "enabled" {
		add(SubstituteAnnotation, "%s is %v, but must be disabled or enabled", SubstituteAnnotation, value)
	}
	return found
}

// dropNamespace removes the namespace, which the API server drops for a cluster-scoped kind: kustomize and templates
// add it to everything. It returns a sentence about it; empty if there was none, or if the kind has one.
func dropNamespace(kind Kind, object map[string]any) string {
	metadata, _ := object["metadata"].(map[string]any)
	namespace, given := metadata["namespace"]
	if !given || kind.Namespaced {
		return ""
	}
	delete(metadata, "namespace")
	return fmt.Sprintf("%s belongs to the whole cluster: metadata.namespace %v is left out", kind.GVK.Kind, namespace)
}

// dropEmpty removes what generators write without meaning: nulls, and an empty status.
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

// classify returns the kind of an object, or why it is refused.
func classify(apiVersion, kind string) (Kind, string) {
	group, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return Kind{}, fmt.Sprintf("apiVersion %q is not one: %v", apiVersion, err)
	}
	gvk := group.WithKind(kind)
	kinds := Kinds()
	if i := slices.IndexFunc(kinds, func(k Kind) bool { return k.GVK == gvk }); i >= 0 {
		return kinds[i], ""
	}
	if now, ok := legacy.SuccessorOf(gvk); ok {
		why := fmt.Sprintf("%s %s became %s %s: %s", apiVersion, kind, now.APIVersion, now.Kind, now.Hint)
		if kind != "Machine" {
			why += "; `plumbline convert` converts it"
		}
		return Kind{}, why
	}
	if why, ok := notYet[gvk.GroupKind()]; ok {
		return Kind{}, fmt.Sprintf("%s is refused: %s", kind, why)
	}
	if i := slices.IndexFunc(kinds, func(k Kind) bool { return k.GVK.GroupKind() == gvk.GroupKind() }); i >= 0 {
		return Kind{}, fmt.Sprintf("%s is not known in version %s: write %s", kind, gvk.Version, kinds[i].GVK.GroupVersion())
	}
	if misspelt(gvk.GroupKind()) {
		return Kind{}, fmt.Sprintf("%s (%s) is no kind of Karpenter's: definitions are %s", kind, apiVersion, names(kinds))
	}
	return Kind{}, fmt.Sprintf("%s (%s) is refused: plumbline is for %s; leave it to the tool that applies the rest, or name %[1]s under ignoreKinds in %[4]s to pass over it", kind, apiVersion, names(kinds), FileName)
}

// notYet are Karpenter's other kinds, and kinds of other tools that are easily mistaken for definitions.
var notYet = map[schema.GroupKind]string{
	{Group: "karpenter.sh", Kind: "NodeClaim"}:                 "Karpenter makes NodeClaims itself, from NodePools",
	{Group: "config.plumbline.dev", Kind: "Karpenter"}:         "it belongs into " + FileName + " in the folder of the path",
	{Group: "kustomize.config.k8s.io", Kind: "Kustomization"}:  "name its folder under nodes, not the file",
	{Group: "kustomize.config.k8s.io", Kind: "Component"}:      "a component is used by a kustomization, not by itself",
	{Group: "plumbline.dev", Kind: "NodeSync"}:                 "it lives in the cluster, where the repository that it guards cannot change it",
	{Group: "source.toolkit.fluxcd.io", Kind: "GitRepository"}: "plumbline fetches by itself: see source in NodeSync",
}

func names(kinds []Kind) string {
	var all []string
	for _, k := range slices.Backward(kinds) {
		all = append(all, k.GVK.Kind)
	}
	return english.WordSeries(all, "and")
}

// inOrder sorts objects by Stage and name, wherever they were written.
func inOrder(objects []Object) {
	rank := map[string]int{}
	for i, kind := range Kinds() {
		rank[kind.GVK.Kind] = i
	}
	// Sort small structs: an object is large to move.
	places := make([]place, len(objects))
	for i := range objects {
		places[i] = place{stage: rank[objects[i].Ref.Kind], at: i, object: &objects[i]}
	}
	compare := func(a, b place) int {
		if order := cmp.Compare(a.stage, b.stage); order != 0 {
			return order
		}
		if order := strings.Compare(a.object.Ref.Name, b.object.Ref.Name); order != 0 {
			return order
		}
		return cmp.Or(
			strings.Compare(a.object.Origin.File, b.object.Origin.File),
			cmp.Compare(a.object.Origin.Line, b.object.Origin.Line),
			cmp.Compare(a.at, b.at),
		)
	}
	if slices.IsSortedFunc(places, compare) {
		return
	}
	slices.SortFunc(places, compare)
	sorted := make([]Object, len(objects))
	for i, p := range places {
		sorted[i] = *p.object
	}
	copy(objects, sorted)
}

// place is the position of an object.
type place struct {
	stage, at int
	object    *Object
}

// duplicates reports objects that are defined twice; objects are sorted.
func duplicates(objects []Object) Errors {
	var errs Errors
	for i := 1; i < len(objects); i++ {
		first, second := &objects[i-1], &objects[i]
		if first.Ref == second.Ref {
			errs = append(errs, Error{
				File: second.Origin.File, Line: second.Origin.Line,
				Message: fmt.Sprintf("%s is defined twice, first in %s", second.Ref, first.Origin),
			})
		}
	}
	return errs
}
