package owners_test

import (
	"testing"

	"github.com/plumbline-dev/plumbline/provision/owners"
)

func TestManagers(t *testing.T) {
	tests := map[string]struct {
		tool        string
		interactive bool
	}{
		"kustomize-controller":              {tool: "Flux"},
		"helm-controller":                   {tool: "Flux"},
		"argocd-controller":                 {tool: "Argo CD"},
		"argocd-application-controller":     {tool: "Argo CD"},
		"helm":                              {tool: "Helm"},
		"Terraform":                         {tool: "Terraform"},
		"HashiCorp":                         {tool: "Terraform"},
		"terraform-provider-helm_v1.3.2_x5": {tool: "Terraform"},
		"flux":                              {tool: "Flux"},
		"OpenTofu":                          {tool: "OpenTofu"},
		"pulumi-kubernetes-1a2b3c4d":        {tool: "Pulumi"},
		"kapp-server-side-apply":            {tool: "kapp"},
		"apiextensions.crossplane.io/composed/ef08e4db35abd8b4": {tool: "Crossplane"},
		"crossplane-kubernetes-provider":                        {tool: "Crossplane"},
		"fleetagent":                                            {tool: "Rancher Fleet"},
		"configsync.gke.io":                                     {tool: "Config Sync"},
		"kubectl":                                               {interactive: true},
		"kubectl-client-side-apply":                             {interactive: true},
		"kubectl-edit":                                          {interactive: true},
		"before-first-apply":                                    {interactive: true},
		"k9s":                                                   {interactive: true},
		"Mozilla":                                               {interactive: true},
		"karpenter":                                             {},
		"plumbline":                                             {},
		"plumbline-removal":                                     {},
		"helmsman-of-our-own":                                   {},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if tool, _ := owners.Applier(name); tool != test.tool {
				t.Errorf("applier is %q, want %q", tool, test.tool)
			}
			if got := owners.Interactive(name); got != test.interactive {
				t.Errorf("interactive is %t", got)
			}
		})
	}
}
