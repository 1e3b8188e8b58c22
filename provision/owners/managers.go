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
func appliers() []manager {
	return []manager{
		{name: "kustomize-controller", tool: flux},
		{name: "helm-controller", tool: flux},
		{name: "flux", tool: flux},
		{name: "argocd", prefix: true, tool: argoCD},
		{name: "helm", tool: helm},
		{name: "Terraform", prefix: true, tool: "Terraform"},
		{name: "terraform", prefix: true, tool: "Terraform"},
		{name: "HashiCorp", tool: "Terraform"},
		{name: "OpenTofu", prefix: true, tool: "OpenTofu"},
		{name: "pulumi", prefix: true, tool: "Pulumi"},
		{name: "kapp", prefix: true, tool: "kapp"},
		{name: "crossplane", prefix: true, tool: "Crossplane"},
		{name: "fleet", prefix: true, tool: "Rancher Fleet"},
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
