package survey

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Owner is what keeps an object as it is, or wrote it last.
type Owner struct {
	// Tool that reconciles it: Flux or Argo CD; empty where none does.
	Tool string `json:"tool,omitempty"`
	// Kind, Namespace and Name of what it belongs to: a HelmRelease, Kustomization or
	// Application, or a Release of Helm's own. Argo CD's marks do not always have the
	// namespace.
	Kind      string `json:"kind,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	// Manager is the field manager that wrote its spec last.
	Manager string `json:"manager,omitempty"`
}

// releaseKind is the Kind of a release that only Helm knows.
const releaseKind = "Release"

// Reconciles says that a tool would revert any change.
func (o Owner) Reconciles() bool { return o.Tool != "" }

// isRelease says that an object belongs to a Helm release that no tool reconciles.
func (o Owner) isRelease(name, namespace string) bool {
	return o.Tool == "" && o.Kind == releaseKind && o.Name == name && o.Namespace == namespace
}

// String names the owner in messages.
func (o Owner) String() string {
	name := strings.TrimPrefix(o.Namespace+"/"+o.Name, "/")
	switch {
	case o.Tool != "":
		return fmt.Sprintf("%s's %s %s", o.Tool, o.Kind, name)
	case o.Kind == releaseKind:
		return "helm release " + name
	case o.Manager != "":
		return "managed by " + o.Manager
	}
	return "managed by an unknown client"
}

// The labels and annotations by which tools mark what they reconcile.
const (
	// Flux labels what its controllers make: https://fluxcd.io/flux/components/helm/helmreleases/,
	// https://fluxcd.io/flux/components/kustomize/kustomizations/.
	fluxHelmGroup      = "helm.toolkit.fluxcd.io"
	fluxKustomizeGroup = "kustomize.toolkit.fluxcd.io"
	// Argo CD annotates, or in its older way takes a label that charts have as well:
	// https://argo-cd.readthedocs.io/en/stable/user-guide/resource_tracking/.
	argoTracking = "argocd.argoproj.io/tracking-id"
	argoInstance = "argocd.argoproj.io/instance"
	instance     = "app.kubernetes.io/instance"

	managedBy        = "app.kubernetes.io/managed-by"
	releaseName      = "meta.helm.sh/release-name"
	releaseNamespace = "meta.helm.sh/release-namespace"
)

// argoManagers are the field managers of Argo CD's application controller.
var argoManagers = []string{"argocd-controller", "argocd-application-controller"}

// OwnerOf reads an object's owner from its labels, annotations and managed fields.
func OwnerOf(object metav1.Object) Owner {
	labels, annotations := object.GetLabels(), object.GetAnnotations()
	for _, flux := range []struct{ group, kind string }{{fluxHelmGroup, "HelmRelease"}, {fluxKustomizeGroup, "Kustomization"}} {
		if name := labels[flux.group+"/name"]; name != "" {
			return Owner{Tool: "Flux", Kind: flux.kind, Namespace: labels[flux.group+"/namespace"], Name: name}
		}
	}
	if application := argoApplication(object); application != "" {
		owner := Owner{Tool: "Argo CD", Kind: "Application", Name: application}
		// An Application outside of Argo CD's own namespace has it in its mark.
		if namespace, name, ok := strings.Cut(application, "_"); ok {
			owner.Namespace, owner.Name = namespace, name
		}
		return owner
	}
	// What makes an object Helm's: pkg/action/validate.go of Helm.
	if labels[managedBy] == "Helm" && annotations[releaseName] != "" {
		return Owner{Kind: releaseKind, Namespace: annotations[releaseNamespace], Name: annotations[releaseName]}
	}
	return Owner{Manager: lastManager(object)}
}

// argoApplication is the name of an Application as an object's marks have it.
func argoApplication(object metav1.Object) string {
	if id, _, ok := strings.Cut(object.GetAnnotations()[argoTracking], ":"); ok {
		return id
	}
	if name := object.GetLabels()[argoInstance]; name != "" {
		return name
	}
	written := slices.ContainsFunc(object.GetManagedFields(), func(m metav1.ManagedFieldsEntry) bool {
		return slices.Contains(argoManagers, m.Manager)
	})
	if written {
		return object.GetLabels()[instance]
	}
	return ""
}

// lastManager is the field manager that wrote the object last, its status aside.
func lastManager(object metav1.Object) string {
	var last metav1.ManagedFieldsEntry
	for _, entry := range object.GetManagedFields() {
		if entry.Subresource == "" && (last.Time == nil || entry.Time != nil && last.Time.Before(entry.Time)) {
			last = entry
		}
	}
	return last.Manager
}
