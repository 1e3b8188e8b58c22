package owners

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The labels and annotations by which tools mark what they reconcile.
const (
	// Argo CD annotates, or in its older way takes a label, by default one that charts have as
	// well: https://argo-cd.readthedocs.io/en/stable/user-guide/resource_tracking/.
	argoTracking = "argocd.argoproj.io/tracking-id"
	argoInstance = "argocd.argoproj.io/instance"
	instance     = "app.kubernetes.io/instance"

	// What makes an object Helm's: pkg/action/validate.go of Helm.
	managedBy        = "app.kubernetes.io/managed-by"
	releaseName      = "meta.helm.sh/release-name"
	releaseNamespace = "meta.helm.sh/release-namespace"
)

const (
	flux   = "Flux"
	argoCD = "Argo CD"
	helm   = "Helm"
)

// fluxKinds are the kinds of Flux that apply objects, and the group of each, which is the prefix
// of the labels on them: https://fluxcd.io/flux/components/helm/helmreleases/ and
// https://fluxcd.io/flux/components/kustomize/kustomizations/.
func fluxKinds() []struct{ group, kind string } {
	return []struct{ group, kind string }{
		{"helm.toolkit.fluxcd.io", "HelmRelease"},
		{"kustomize.toolkit.fluxcd.io", "Kustomization"},
	}
}

// marked are the owners that an object has marks of, what reconciles it first: a HelmRelease's
// objects, and those of an Application from a chart, look like Helm's, too.
func marked(object metav1.Object) []Owner {
	labels, annotations := object.GetLabels(), object.GetAnnotations()
	var found []Owner
	for _, of := range fluxKinds() {
		if name := labels[of.group+"/name"]; name != "" {
			found = append(found, Owner{Tool: flux, Kind: of.kind, Namespace: labels[of.group+"/namespace"], Name: name})
		}
	}
	if application := argoApplication(object); application != "" {
		owner := Owner{Tool: argoCD, Kind: "Application", Name: application}
		// An Application outside of Argo CD's own namespace has it in its mark.
		if namespace, name, ok := strings.Cut(application, "_"); ok {
			owner.Namespace, owner.Name = namespace, name
		}
		found = append(found, owner)
	}
	if labels[managedBy] == helm && annotations[releaseName] != "" {
		found = append(found, Owner{Kind: ReleaseKind, Namespace: annotations[releaseNamespace], Name: annotations[releaseName]})
	}
	return found
}

// argoApplication is the name of an Application as an object's marks have it, by each of Argo
// CD's three methods: annotation, label, and both, of which the annotation counts. The label's key
// can be set; the default one is a chart's as well, and counts only on what Argo CD wrote.
func argoApplication(object metav1.Object) string {
	annotations, labels := object.GetAnnotations(), object.GetLabels()
	if id, _, ok := strings.Cut(annotations[argoTracking], ":"); ok {
		return id
	}
	if name := labels[argoInstance]; name != "" {
		return name
	}
	written := slices.ContainsFunc(object.GetManagedFields(), func(m metav1.ManagedFieldsEntry) bool {
		tool, _ := Applier(m.Manager)
		return tool == argoCD
	})
	if written {
		return labels[instance]
	}
	return ""
}
