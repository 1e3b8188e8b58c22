package owners

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Owner keeps an object in its state, or wrote it last.
type Owner struct {
	// Tool reconciles the object, such as Flux or Argo CD; empty if none does.
	Tool string `json:"tool,omitempty"`
	// Kind, Namespace and Name identify what it belongs to: a HelmRelease, Kustomization or
	// Application, or a Release of Helm itself. Argo CD's marks do not always contain the
	// namespace.
	Kind      string `json:"kind,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	// Manager is the field manager that wrote its spec last, or that identifies a tool which
	// left no other mark.
	Manager string `json:"manager,omitempty"`
}

// ReleaseKind is the Kind of a release that only Helm knows.
const ReleaseKind = "Release"

// Reconciles reports whether a tool would revert any change.
func (o Owner) Reconciles() bool { return o.Tool != "" }

// IsRelease reports whether an object belongs to a Helm release that no tool reconciles.
func (o Owner) IsRelease(name, namespace string) bool {
	return o.Tool == "" && o.Kind == ReleaseKind && o.Name == name && o.Namespace == namespace
}

// String returns the owner's name for messages.
func (o Owner) String() string {
	name := strings.TrimPrefix(o.Namespace+"/"+o.Name, "/")
	switch {
	case o.Tool != "" && o.Kind != "":
		return fmt.Sprintf("%s's %s %s", o.Tool, o.Kind, name)
	case o.Tool == eks:
		return "managed by EKS"
	case o.Tool != "":
		return fmt.Sprintf("%s (field manager %s)", o.Tool, o.Manager)
	case o.Kind == ReleaseKind:
		return "Helm release " + name
	case o.Manager != "":
		return "managed by " + o.Manager
	}
	return "managed by an unknown client"
}

// Of returns the owner that takes precedence by an object's labels and annotations. If the object has no mark of
// any tool, it returns the client that wrote it last.
func Of(object metav1.Object) Owner {
	if found := marked(object); len(found) > 0 {
		return found[0]
	}
	return Owner{Manager: lastManager(object)}
}

// All returns the tools that apply an object: those with marks, in the order of Of, then those that
// only a field manager identifies, by name.
func All(object metav1.Object) []Owner {
	found := marked(object)
	known := map[string]bool{}
	for _, owner := range found {
		known[owner.tool()] = true
	}
	var managers []Owner
	for _, entry := range object.GetManagedFields() {
		tool, ok := Applier(entry.Manager)
		if !ok || known[tool] {
			continue
		}
		known[tool] = true
		managers = append(managers, Owner{Tool: tool, Manager: entry.Manager})
	}
	slices.SortFunc(managers, func(a, b Owner) int { return strings.Compare(a.Tool, b.Tool) })
	return append(found, managers...)
}

// tool returns the name of the tool that keeps the object; Helm, too, for its own releases.
func (o Owner) tool() string {
	if o.Kind == ReleaseKind {
		return helm
	}
	return o.Tool
}

// lastManager returns the field manager that wrote the spec last. If no entry has a spec, it returns the one that
// wrote the object last, ignoring the status. The spec decides because Karpenter annotates each NodePool, and Kubernetes each
// Deployment, after the client that applies it.
func lastManager(object metav1.Object) string {
	var last metav1.ManagedFieldsEntry
	for _, entry := range object.GetManagedFields() {
		if entry.Subresource == "" && (last.Manager == "" || counts(entry, last)) {
			last = entry
		}
	}
	return last.Manager
}

// counts reports whether an entry is better evidence of who applies an object than another one.
func counts(entry, than metav1.ManagedFieldsEntry) bool {
	if writesSpec(entry) != writesSpec(than) {
		return writesSpec(entry)
	}
	return than.Time == nil || entry.Time != nil && than.Time.Before(entry.Time)
}

func writesSpec(entry metav1.ManagedFieldsEntry) bool {
	return entry.FieldsV1 != nil && strings.Contains(entry.FieldsV1.GetRawString(), `"f:spec"`)
}

// Tools mark what they reconcile with these labels and annotations.
const (
	// Argo CD sets an annotation. Its older method uses a label, by default one that charts set as
	// well: https://argo-cd.readthedocs.io/en/stable/user-guide/resource_tracking/.
	argoTracking = "argocd.argoproj.io/tracking-id"
	argoInstance = "argocd.argoproj.io/instance"
	instance     = "app.kubernetes.io/instance"

	// These make an object Helm's: pkg/action/validate.go of Helm.
	managedBy        = "app.kubernetes.io/managed-by"
	releaseName      = "meta.helm.sh/release-name"
	releaseNamespace = "meta.helm.sh/release-namespace"
)

const (
	flux   = "Flux"
	argoCD = "Argo CD"
	helm   = "Helm"
	eks    = "EKS"
)

// fluxKinds returns the kinds of Flux that apply objects, and the group of each, which is the prefix
// of the labels on them: https://fluxcd.io/flux/components/helm/helmreleases/ and
// https://fluxcd.io/flux/components/kustomize/kustomizations/.
func fluxKinds() []struct{ group, kind string } {
	return []struct{ group, kind string }{
		{"helm.toolkit.fluxcd.io", "HelmRelease"},
		{"kustomize.toolkit.fluxcd.io", "Kustomization"},
	}
}

// marked returns the owners that an object has marks of, first the one that reconciles it: a HelmRelease's
// objects, and those of an Application from a chart, look like Helm's, too, and EKS writes CRDs that a chart created.
func marked(object metav1.Object) []Owner {
	labels, annotations := object.GetLabels(), object.GetAnnotations()
	var found []Owner
	if ofEKS(object) {
		found = append(found, Owner{Tool: eks})
	}
	for _, of := range fluxKinds() {
		if name := labels[of.group+"/name"]; name != "" {
			found = append(found, Owner{Tool: flux, Kind: of.kind, Namespace: labels[of.group+"/namespace"], Name: name})
		}
	}
	if application := argoApplication(object); application != "" {
		owner := Owner{Tool: argoCD, Kind: "Application", Name: application}
		// An Application outside of Argo CD's own namespace has its namespace in its mark.
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

// argoApplication returns the name of an Application from an object's marks, by each of Argo
// CD's three methods: annotation, label, and both, of which the annotation counts. The label's key
// can be configured; charts set the default one as well, so it counts only on objects that Argo CD wrote.
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

// manager is one row of the tables of field managers.
type manager struct {
	name string
	// prefix reports whether the row matches every manager that begins with name.
	prefix bool
	// tool is the tool's common name.
	tool string
}

// appliers returns the managers that keep an object as their own source defines it. If plumbline
// changed a field of one, both would revert each other without end.
//
// Each row cites where its tool sets its name. A client that sets none is named after its user agent, up to
// the first slash, which is the name of its program if it sets none either (apiserver
// pkg/endpoints/handlers/create.go managerOrUserAgent, client-go rest.DefaultKubernetesUserAgent).
func appliers() []manager {
	return []manager{
		// fluxcd/kustomize-controller main.go controllerName, 1.9.5.
		{name: "kustomize-controller", tool: flux},
		// fluxcd/helm-controller main.go controllerName, Helm's kube.ManagedFieldsManager there, 1.6.1.
		{name: "helm-controller", tool: flux},
		// fluxcd/flux2 internal/utils/apply.go (flux install, flux bootstrap), 2.7.
		{name: "flux", tool: flux},
		// argoproj/argo-cd common/common.go ArgoCDSSAManager; client-side it is the program's name, 3.2.
		{name: "argocd", prefix: true, tool: argoCD},
		// helm/helm pkg/kube/client.go getManagedFieldsManager: the program's name, 3.22.
		{name: "helm", tool: helm},
		// hashicorp/terraform-provider-kubernetes manifest/provider/apply.go, kubernetes_manifest, 2.38.
		{name: "Terraform", prefix: true, tool: "Terraform"},
		// Helm in hashicorp/terraform-provider-helm: the program's name, terraform-provider-helm_v…, 1.3.2.
		{name: "terraform", prefix: true, tool: "Terraform"},
		// hashicorp/terraform-provider-kubernetes kubernetes/provider.go, user agent HashiCorp/1.0, 2.38.
		{name: "HashiCorp", tool: "Terraform"},
		// opentofu/opentofu internal/httpclient/useragent.go, 1.10: from a client of its own. Providers that
		// it runs set the names of Terraform's, above.
		{name: "OpenTofu", prefix: true, tool: "OpenTofu"},
		// pulumi/pulumi-kubernetes provider/pkg/provider/provider.go fieldManagerName, 4.0: with a random suffix.
		{name: "pulumi", prefix: true, tool: "Pulumi"},
		// carvel-dev/kapp the flag --ssa-field-manager, 0.40; else the program's name.
		{name: "kapp", prefix: true, tool: "kapp"},
		// crossplane/crossplane internal/controller/apiextensions/composite/composition_functions.go
		// FieldOwnerComposedPrefix, 1.14.
		{name: "apiextensions.crossplane.io/", prefix: true, tool: "Crossplane"},
		// Crossplane before 1.14, and crossplane-contrib/provider-kubernetes: their programs' names.
		{name: "crossplane", prefix: true, tool: "Crossplane"},
		// AWS, EKS user guide, kubernetes-field-management: EKS overwrites the fields that it manages.
		{name: eksManager, tool: eks},
		// rancher/fleet: its agent's program, fleetagent, 0.5.
		{name: "fleet", prefix: true, tool: "Rancher Fleet"},
		// GoogleContainerTools/kpt-config-sync pkg/api/configsync/register.go FieldManager, 1.14.
		{name: "configsync", prefix: true, tool: "Config Sync"},
	}
}

// interactive returns the managers that people use by hand. plumbline adopts the fields that they wrote into a
// spec, so that it removes those that Git does not contain.
func interactive() []manager {
	return []manager{
		{name: "kubectl", prefix: true},
		// kube-apiserver uses this name for the manager that wrote before the first apply
		// (apimachinery pkg/util/managedfields/internal/skipnonapplied.go).
		{name: "before-first-apply"},
		{name: "k9s"},
		{name: "lens"},
		{name: "Lens"},
		{name: "OpenLens"},
		{name: "Freelens"},
		{name: "headlamp", prefix: true},
		// Web dashboards and Lens write under the name of their HTTP client.
		{name: "Mozilla"},
		{name: "node-fetch"},
		{name: "dashboard", prefix: true},
		{name: "curl"},
	}
}

// Applier returns the tool of a field manager that keeps objects in their state by itself.
func Applier(name string) (tool string, ok bool) {
	row, ok := find(appliers(), name)
	return row.tool, ok
}

// Interactive reports whether a person uses a field manager by hand.
func Interactive(name string) bool {
	_, ok := find(interactive(), name)
	return ok
}

func find(rows []manager, name string) (manager, bool) {
	for _, row := range rows {
		if row.name == name || (row.prefix && strings.HasPrefix(name, row.name)) {
			return row, true
		}
	}
	return manager{}, false
}

// Mark is an annotation that makes a tool keep an object in the cluster when the object is removed from its source.
// Each tool reads it from the live object when it prunes.
type Mark struct {
	Key string
	// Words must all be in the value, which may contain others.
	Words []string
}

// marks returns the mark of each kind that applies objects: deleteObjects in kustomize-controller 1.9.5; pruneObject
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

// Mark returns the mark that this owner reads; ok is false if it reads none.
func (o Owner) Mark() (mark Mark, ok bool) {
	mark, ok = marks()[o.Kind]
	return mark, ok
}

// Kept returns the mark that an object has; ok is false if it has none.
func Kept(object metav1.Object) (mark Mark, ok bool) {
	for _, kind := range []string{"Kustomization", "Application", ReleaseKind} {
		if mark := marks()[kind]; mark.On(object) {
			return mark, true
		}
	}
	return Mark{}, false
}

// On reports whether an object has the mark.
func (m Mark) On(object metav1.Object) bool { return m.In(object.GetAnnotations()[m.Key]) }

// In reports whether a value of the annotation contains the words.
func (m Mark) In(value string) bool {
	there := words(value)
	return !slices.ContainsFunc(m.Words, func(word string) bool { return !slices.Contains(there, word) })
}

// With returns a value of the annotation with the words.
func (m Mark) With(value string) string {
	return strings.Join(slices.Concat(m.others(value), m.Words), ",")
}

// Without returns a value of the annotation without the words; empty if it contains nothing else.
func (m Mark) Without(value string) string { return strings.Join(m.others(value), ",") }

func (m Mark) others(value string) []string {
	return slices.DeleteFunc(words(value), func(word string) bool { return slices.Contains(m.Words, word) })
}

// String returns the annotation as people write it.
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

// Left returns the labels and annotations of an object that identify the owner.
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
		// An Application outside of Argo CD's own namespace has that namespace before its name in the label.
		if value := object.GetLabels()[key]; value != "" && (value == o.Name || value == o.Namespace+"_"+o.Name) {
			labels = append(labels, key)
		}
	}
	return labels, annotations
}
