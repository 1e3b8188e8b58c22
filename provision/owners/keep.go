package owners

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Mark is an annotation with which a tool leaves an object in the cluster that leaves its source.
// Each tool reads it from the object as it lives, at the time of its prune.
type Mark struct {
	Key string
	// Words are those that its value has, which may have others beside them.
	Words []string
}

// marks of the kinds that apply objects: deleteObjects in kustomize-controller 1.9.5; pruneObject
// in gitops-engine, and shouldBeDeleted in Argo CD 3.2 for an Application that is deleted;
// pkg/kube/resource_policy.go of Helm.
func marks() map[string]Mark {
	helms := Mark{Key: "helm.sh/resource-policy", Words: []string{"keep"}}
	return map[string]Mark{
		"Kustomization": {Key: "kustomize.toolkit.fluxcd.io/prune", Words: []string{"disabled"}},
		"Application":   {Key: "argocd.argoproj.io/sync-options", Words: []string{"Prune=false", "Delete=false"}},
		"HelmRelease":   helms,
		ReleaseKind:     helms,
	}
}

// Mark is the one that this owner reads; ok is false where it has none.
func (o Owner) Mark() (mark Mark, ok bool) {
	mark, ok = marks()[o.Kind]
	return mark, ok
}

// Kept is the mark that an object has; ok is false where it has none.
func Kept(object metav1.Object) (mark Mark, ok bool) {
	for _, kind := range []string{"Kustomization", "Application", ReleaseKind} {
		if mark := marks()[kind]; mark.On(object) {
			return mark, true
		}
	}
	return Mark{}, false
}

// On says whether an object has the mark.
func (m Mark) On(object metav1.Object) bool { return m.In(object.GetAnnotations()[m.Key]) }

// In says whether a value of the annotation has the words.
func (m Mark) In(value string) bool {
	there := words(value)
	return !slices.ContainsFunc(m.Words, func(word string) bool { return !slices.Contains(there, word) })
}

// With is a value of the annotation with the words.
func (m Mark) With(value string) string {
	return strings.Join(slices.Concat(m.others(value), m.Words), ",")
}

// Without is a value of the annotation without them; empty where nothing else is in it.
func (m Mark) Without(value string) string { return strings.Join(m.others(value), ",") }

func (m Mark) others(value string) []string {
	return slices.DeleteFunc(words(value), func(word string) bool { return slices.Contains(m.Words, word) })
}

// String is the annotation as people write it.
func (m Mark) String() string { return m.Key + ": " + strings.Join(m.Words, ",") }

func words(value string) []string {
	var found []string
	for word := range strings.SplitSeq(value, ",") {
		if word = strings.TrimSpace(word); word != "" {
			found = append(found, word)
		}
	}
	return found
}

// Left are the labels and annotations by which an owner is recognised, as an object has them.
func (o Owner) Left(object metav1.Object) (labels, annotations []string) {
	for _, of := range fluxKinds() {
		if of.kind != o.Kind {
			continue
		}
		for _, key := range []string{of.group + "/name", of.group + "/namespace"} {
			if object.GetLabels()[key] != "" {
				labels = append(labels, key)
			}
		}
	}
	if o.Kind != "Application" {
		return labels, nil
	}
	if object.GetAnnotations()[argoTracking] != "" {
		annotations = append(annotations, argoTracking)
	}
	for _, key := range []string{argoInstance, instance} {
		// That of an Application outside of Argo CD's own namespace has it before its name.
		if value := object.GetLabels()[key]; value != "" && (value == o.Name || value == o.Namespace+"_"+o.Name) {
			labels = append(labels, key)
		}
	}
	return labels, annotations
}
