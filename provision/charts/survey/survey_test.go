package survey

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/provision/owners"
)

func TestWhatMayBeTakenOver(t *testing.T) {
	helms := func(namespace, name string) owners.Owner {
		return owners.Owner{Kind: owners.ReleaseKind, Namespace: namespace, Name: name}
	}
	crd := func(owner owners.Owner) Object {
		return Object{Kind: crdKind, Name: "nodepools.karpenter.sh", Owner: owner}
	}
	controller := func(namespace, name, version string, owner owners.Owner) Object {
		return Object{Kind: controllerKind, Namespace: namespace, Name: name, Version: version, Owner: owner}
	}
	release := func(namespace, name, chart, version string) Release {
		return Release{Name: name, Namespace: namespace, Revision: 3, Chart: chart, Version: version}
	}
	both := Found{
		Releases:    []Release{release("kube-system", charts.CRDChart, charts.CRDChart, "1.8.6"), release("kube-system", charts.ControllerChart, charts.ControllerChart, "1.8.6")},
		CRDs:        []Object{crd(helms("kube-system", charts.CRDChart))},
		Controllers: []Object{controller("kube-system", "karpenter", "1.8.6", helms("kube-system", charts.ControllerChart))},
	}
	kubectl := owners.Owner{Manager: "kubectl"}
	flux := owners.Owner{Tool: "Flux", Kind: "HelmRelease", Namespace: "flux-system", Name: "karpenter"}
	tests := map[string]struct {
		found Found
		// unasked and asked are the errors without adopt and with it; nil for none.
		unasked, asked any
		says           string
	}{
		"nothing":                     {found: Found{}},
		"two releases":                {found: both, unasked: new(*ForeignReleaseError), says: "Helm release karpenter-crd (revision 3) was not installed by plumbline and is left unchanged: set adopt: true"},
		"CRDs by kubectl":             {found: Found{CRDs: []Object{crd(kubectl)}}, unasked: new(*ForeignObjectsError), says: "nodepools.karpenter.sh (managed by kubectl)"},
		"CRDs of the main release":    {found: Found{CRDs: []Object{crd(helms("kube-system", charts.ControllerChart))}}, unasked: new(*ForeignObjectsError), says: "management: External"},
		"a Deployment by kubectl":     {found: Found{Controllers: []Object{controller("kube-system", "karpenter", "1.8.6", kubectl)}}, unasked: new(*ForeignObjectsError), says: "Deployment kube-system/karpenter"},
		"Flux":                        {found: Found{CRDs: []Object{crd(flux)}, Controllers: both.Controllers}, unasked: new(*ReconciledError), asked: new(*ReconciledError), says: "Flux's HelmRelease flux-system/karpenter reconciles CustomResourceDefinition nodepools.karpenter.sh, which is left unchanged: set management: External in plumbline.yaml to leave the charts to it, or make it release them first, without deleting anything, and set adopt: true; NodePools that it applies are handed over with plumbline adopt --from flux, or stay with it if you remove them from Git"},
		"Argo CD":                     {found: Found{CRDs: []Object{crd(owners.Owner{Tool: "Argo CD", Kind: "Application", Name: "karpenter"})}}, unasked: new(*ReconciledError), asked: new(*ReconciledError), says: "handed over with plumbline adopt --from argocd"},
		"another namespace":           {found: Found{Controllers: []Object{controller("karpenter", "karpenter", "1.8.6", helms("karpenter", "karpenter"))}}, unasked: new(*ElsewhereError), asked: new(*ElsewhereError), says: "set namespace: karpenter in plumbline.yaml"},
		"by kubectl, elsewhere":       {found: Found{Controllers: []Object{controller("karpenter", "karpenter", "1.8.6", kubectl)}}, unasked: new(*ElsewhereError), asked: new(*ElsewhereError), says: "set namespace: karpenter in plumbline.yaml"},
		"CRDs of another namespace":   {found: Found{CRDs: []Object{crd(helms("default", charts.CRDChart))}}, unasked: new(*ElsewhereError), asked: new(*ElsewhereError), says: "set namespace: default in plumbline.yaml"},
		"another name":                {found: Found{Controllers: []Object{controller("kube-system", "karpenter-nodes", "1.8.6", helms("kube-system", "nodes"))}}, unasked: new(*ElsewhereError), asked: new(*ElsewhereError), says: "only releases named karpenter-crd and karpenter can be adopted"},
		"another name, by kubectl":    {found: Found{Controllers: []Object{controller("kube-system", "karpenter-2", "1.8.6", kubectl)}}, unasked: new(*ElsewhereError), asked: new(*ElsewhereError), says: "Deployment kube-system/karpenter-2"},
		"an umbrella chart":           {found: Found{Releases: []Release{release("kube-system", charts.ControllerChart, "platform", "0.1.0")}}, unasked: new(*OtherChartError), asked: new(*OtherChartError), says: "was made from chart platform"},
		"newer CRDs, by kubectl":      {found: Found{CRDs: []Object{crd(kubectl)}, Controllers: []Object{controller("kube-system", "karpenter", "1.15.0", kubectl)}}, unasked: new(*ForeignObjectsError), asked: new(*NewerError)},
		"a newer release":             {found: Found{Releases: []Release{release("kube-system", charts.CRDChart, charts.CRDChart, "1.15.0"), release("kube-system", charts.ControllerChart, charts.ControllerChart, "1.15.0")}, CRDs: both.CRDs}, unasked: new(*ForeignReleaseError)},
		"a release that nobody reads": {found: Found{Releases: []Release{{Name: charts.ControllerChart, Namespace: "kube-system", Revision: 2}}}, unasked: new(*ForeignReleaseError), says: "revision 2"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			for adopt, want := range map[bool]any{false: test.unasked, true: test.asked} {
				err := test.found.Check("kube-system", "1.14.1", adopt)
				if want == nil && err != nil || want != nil && (err == nil || !errors.As(err, want)) {
					t.Errorf("Check(adopt: %t) = %v, want %T", adopt, err, want)
				}
				if !adopt && err != nil && !strings.Contains(err.Error(), test.says) {
					t.Errorf("Check() = %v, want it to say %q", err, test.says)
				}
			}
		})
	}
}

func TestValuesThatGitHasNot(t *testing.T) {
	release := Release{Values: map[string]any{
		"replicas":  float64(2),
		"settings":  map[string]any{"clusterName": "prod-eu", "interruptionQueue": "prod-eu", "featureGates": map[string]any{"spotToSpotConsolidation": true}},
		"dnsPolicy": "Default",
	}}
	git := map[string]any{"replicas": 2, "dnsPolicy": "ClusterFirst", "settings": map[string]any{"interruptionQueue": "prod-eu"}}
	if diff := cmp.Diff([]string{"dnsPolicy", "settings.featureGates.spotToSpotConsolidation"}, release.ValuesNotIn(git)); diff != "" {
		t.Errorf("ValuesNotIn() (-want +got):\n%s", diff)
	}
	if paths := (Release{}).ValuesNotIn(nil); paths != nil {
		t.Errorf("of no values: %v", paths)
	}
}

// TestWhatIsTheSame: another notation of a quantity, or a status, is no difference.
func TestWhatIsTheSame(t *testing.T) {
	deployment := func(memory string, replicas int32) runtime.Object {
		return &appsv1.Deployment{Spec: appsv1.DeploymentSpec{
			Replicas: new(replicas),
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{
				Name: "controller", Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(memory)}},
			}}}},
		}}
	}
	crd := func(versions ...string) runtime.Object {
		made := &apiextensionsv1.CustomResourceDefinition{}
		for _, name := range versions {
			made.Spec.Versions = append(made.Spec.Versions, apiextensionsv1.CustomResourceDefinitionVersion{Name: name})
		}
		return made
	}
	role := func(verbs ...string) runtime.Object {
		return &rbacv1.ClusterRole{Rules: []rbacv1.PolicyRule{{Verbs: verbs}}}
	}
	tests := map[string]struct {
		wanted, live runtime.Object
		want         string
	}{
		"written otherwise": {deployment("1024Mi", 2), deployment("1Gi", 2), ""},
		"another":           {deployment("1024Mi", 2), deployment("2Gi", 2), `.spec.template.spec.containers[name="controller"].resources.limits.memory`},
		"a status": {
			&policyv1.PodDisruptionBudget{},
			&policyv1.PodDisruptionBudget{
				ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.Unix(1, 0)},
				Status:     policyv1.PodDisruptionBudgetStatus{CurrentHealthy: 2, ExpectedPods: 2},
			},
			"",
		},
		"a list has more":              {crd("v1"), crd("v1", "v2"), ""},
		"a list has less":              {crd("v1", "v2"), crd("v1"), `.spec.versions[name="v2"]`},
		"a list without names is less": {role("get", "list"), role("get"), ".rules"},
		"a list without names is more": {role("get"), role("get", "list"), ".rules"},
		"a list of another order":      {role("get", "list"), role("list", "get"), ".rules"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			fields, err := missingFields(test.wanted, test.live)
			got := ""
			for _, path := range fields {
				got += path.String()
			}
			if err != nil || got != test.want {
				t.Errorf("lacking() = %q, %v, want %q", got, err, test.want)
			}
		})
	}
}
