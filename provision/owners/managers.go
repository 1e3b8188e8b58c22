package owners

import "strings"

// manager is one row of the tables of field managers.
type manager struct {
	name string
	// prefix says that every manager beginning with name is meant.
	prefix bool
	// tool is what people call it.
	tool string
}

// appliers keep an object as their own source says. Taking a field from one
// starts a fight that nobody wins.
//
// Each row has where its tool says its name. A client that says none is called after its user agent, up to
// the first slash, which is the name of its program where it sets none either (apiserver
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
		// opentofu/opentofu internal/httpclient/useragent.go, 1.10: of a client of its own. Providers under
		// it say the names of Terraform's, above.
		{name: "OpenTofu", prefix: true, tool: "OpenTofu"},
		// pulumi/pulumi-kubernetes provider/pkg/provider/provider.go fieldManagerName, 4.0: with a random end.
		{name: "pulumi", prefix: true, tool: "Pulumi"},
		// carvel-dev/kapp the flag --ssa-field-manager, 0.40; else the program's name.
		{name: "kapp", prefix: true, tool: "kapp"},
		// crossplane/crossplane internal/controller/apiextensions/composite/composition_functions.go
		// FieldOwnerComposedPrefix, 1.14.
		{name: "apiextensions.crossplane.io/", prefix: true, tool: "Crossplane"},
		// Crossplane before 1.14, and crossplane-contrib/provider-kubernetes: their programs' names.
		{name: "crossplane", prefix: true, tool: "Crossplane"},
		// rancher/fleet: its agent's program, fleetagent, 0.5.
		{name: "fleet", prefix: true, tool: "Rancher Fleet"},
		// GoogleContainerTools/kpt-config-sync pkg/api/configsync/register.go FieldManager, 1.14.
		{name: "configsync", prefix: true, tool: "Config Sync"},
	}
}

// interactive are people at work. What they wrote into a spec becomes ours, so
// that it goes where Git does not have it.
func interactive() []manager {
	return []manager{
		{name: "kubectl", prefix: true},
		// What kube-apiserver calls the manager that wrote before the first apply
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

// Applier returns the tool behind a field manager that keeps objects by itself.
func Applier(name string) (tool string, ok bool) {
	row, ok := find(appliers(), name)
	return row.tool, ok
}

// Interactive says whether a field manager is a person at work.
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
