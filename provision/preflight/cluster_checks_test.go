package preflight

import (
	"errors"
	"testing"

	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// forbidden is an error of the API server about a resource.
func forbidden(resource string) error {
	return apierrors.NewForbidden(schema.GroupResource{Group: "policy", Resource: resource}, "", errors.New("no"))
}

func TestPlacement(t *testing.T) {
	karpenter := func(change func([]Place)) func(*Observed) {
		return func(o *Observed) { change(o.Workloads.Of[0].Pods) }
	}
	run(t, "placement", map[string]looked{
		"Karpenter on its own node": {
			karpenter(func(p []Place) { p[1].Pool = "general" }), Problem,
			"Karpenter's controller runs on nodes that Karpenter owns: kube-system/karpenter-2 on Node/b of NodePool/general", "kubectl rollout restart deployment karpenter -n kube-system", "",
		},
		"Karpenter in one zone": {karpenter(func(p []Place) { p[1].Zone = "eu-west-1a" }), Warning, "all 2 pods of Karpenter's controller run in eu-west-1a", "rollout restart", ""},
		"nodes in one zone": {func(o *Observed) {
			karpenter(func(p []Place) { p[1].Zone = "eu-west-1a" })(o)
			o.SystemZones = []string{"eu-west-1a"}
		}, Warning, "the chart's spread has no effect", "add nodes in another zone", ""},
		"one pod": {func(o *Observed) { o.Workloads.Of[0].Pods = o.Workloads.Of[0].Pods[:1] }, Warning, "has one pod", "--replicas=2", ""},
		"CoreDNS on Karpenter's nodes": {
			func(o *Observed) { o.Workloads.Of[1].Pods[0].Pool = "general" }, Warning,
			"all pods of CoreDNS run on nodes that Karpenter owns", "karpenter.sh/nodepool", "",
		},
		"it is scaled to 0": {func(o *Observed) { o.Workloads.Of[0].Pods = nil }, OK, "", "", ""},
		"denied":            {func(o *Observed) { o.Workloads = Value[[]Workload]{Err: forbidden("pods")} }, Unknown, "the API server denies", "kubectl auth can-i", "pods.policy"},
	})
}

func TestOtherControllers(t *testing.T) {
	run(t, "other-controllers", map[string]looked{
		"the name of another cluster": {
			func(o *Observed) { o.Controllers.Of[0].Environment["CLUSTER_NAME"] = "test" }, Problem,
			"deployment/karpenter in kube-system has the name of another cluster, test (CLUSTER_NAME)", "kubectl scale deployment karpenter -n kube-system --replicas=0", "",
		},
		"a name that is unknown": {
			func(o *Observed) { delete(o.Controllers.Of[0].Environment, "CLUSTER_NAME") }, Unknown, "has no plain value of CLUSTER_NAME", "", "",
		},
		"two, of which the other is named first": {func(o *Observed) {
			o.Controllers.Of = append([]Controller{{Namespace: "a", Name: "karpenter", Replicas: 1, Environment: map[string]string{"CLUSTER_NAME": "test"}}}, o.Controllers.Of...)
		}, Problem, "several controllers of Karpenter run", "to stop one first: kubectl scale deployment karpenter -n a --replicas=0", ""},
		"a second Karpenter": {func(o *Observed) {
			o.Controllers.Of = append(o.Controllers.Of, Controller{Namespace: "karpenter", Name: "karpenter", Replicas: 1, Version: "0.37.0"})
		}, Problem, "deployment/karpenter in karpenter (version 0.37.0, cluster )", "kubectl scale deployment karpenter -n karpenter --replicas=0", ""},
		"one that is stopped": {func(o *Observed) {
			o.Controllers.Of = append(o.Controllers.Of, Controller{Namespace: "karpenter", Name: "karpenter"})
		}, OK, "", "", ""},
		"the Cluster Autoscaler": {func(o *Observed) {
			o.Autoscalers.Of = []Autoscaler{{Namespace: "kube-system", Name: "cluster-autoscaler", Replicas: 1}}
		}, Warning, "the Cluster Autoscaler (deployment/cluster-autoscaler in kube-system)", "kubectl scale deployment cluster-autoscaler", ""},
		"a stopped one": {func(o *Observed) { o.Autoscalers.Of = []Autoscaler{{Name: "cluster-autoscaler"}} }, OK, "", "", ""},
		"a webhook": {func(o *Observed) {
			o.Webhooks.Of = []Webhook{{Kind: "ValidatingWebhookConfiguration", Name: "validation.webhook.karpenter.sh"}}
		}, Problem, "is left from an older version", "kubectl delete validatingwebhookconfiguration validation.webhook.karpenter.sh", ""},
		"a webhook of a version that has them": {func(o *Observed) {
			o.Version, o.Webhooks.Of = "1.0.8", []Webhook{{Kind: "ValidatingWebhookConfiguration", Name: "validation.webhook.karpenter.sh"}}
		}, OK, "", "", ""},
		"a conversion":        {func(o *Observed) { o.CRDs.Of[0].Converts = true }, Problem, "converts its objects by a webhook", "karpenter-crd", ""},
		"an old version":      {func(o *Observed) { o.CRDs.Of[0].Stored = []string{"v1beta1", "v1"} }, Problem, "still contains v1beta1", "kubectl patch crd nodepools.karpenter.sh", ""},
		"a legacy CRD":        {func(o *Observed) { o.CRDs.Of[0].Name = "provisioners.karpenter.sh" }, Warning, "without objects", "kubectl delete crd provisioners.karpenter.sh", ""},
		"with legacy objects": {func(o *Observed) { o.CRDs.Of[0] = CRD{Name: "machines.karpenter.sh", Objects: 1} }, Warning, "has objects that no controller manages", "kubectl get", ""},
		"a CRD of another version": {
			func(o *Observed) { o.CRDs.Of[0].Missing = []string{"nodepools.karpenter.sh v1: spec.replicas"} }, Problem,
			"crd nodepools.karpenter.sh is of another version than Karpenter 1.15.0, and the API server drops these fields: nodepools.karpenter.sh v1: spec.replicas", "karpenter-crd, of version 1.15.0", "",
		},
		"CRDs that are not compared": {
			func(o *Observed) { o.Uncompared = errors.New("public.ecr.aws does not answer") }, Unknown,
			"the CRDs were not compared with those of Karpenter 1.15.0: public.ecr.aws does not answer", "registry", "",
		},
		"old nodes": {func(o *Observed) { o.OldNodes.Of = []string{"ip-10-0-0-9"} }, Warning, "before 0.32, and no controller terminates them: ip-10-0-0-9", "drain", ""},
		"denied":    {func(o *Observed) { o.Webhooks = Value[[]Webhook]{Err: forbidden("webhooks")} }, Unknown, "the API server denies", "", "webhooks.policy"},
	})
}

func TestUndrainable(t *testing.T) {
	budget := func(change func(*policyv1.PodDisruptionBudget)) func(*Observed) {
		return func(o *Observed) { change(&o.Budgets.Of[0]) }
	}
	run(t, "undrainable-pods", map[string]looked{
		"a budget that never allows it": {
			budget(func(b *policyv1.PodDisruptionBudget) { b.Status.DesiredHealthy = 3 }), Problem,
			"PodDisruptionBudget web/web never allows an eviction (3 of 3 pods must be healthy): web-1", "kubectl patch poddisruptionbudget web -n web", "",
		},
		"of pods elsewhere": {func(o *Observed) {
			o.Budgets.Of[0].Status.DesiredHealthy, o.Pods.Of = 3, nil
		}, OK, "", "", ""},
		"without a selector": {budget(func(b *policyv1.PodDisruptionBudget) { b.Spec.Selector, b.Status.DesiredHealthy = nil, 3 }), OK, "", "", ""},
		"two budgets": {func(o *Observed) {
			other := o.Budgets.Of[0]
			other.Name = "all"
			o.Budgets.Of = append(o.Budgets.Of, other)
		}, Problem, "pod web/web-1 has several PodDisruptionBudgets (web, all)", "at most one", ""},
		"an annotation": {func(o *Observed) { o.Pods.Of[0].Undisrupted = true }, Warning, "without an end, and belong to no Job: web/web-1", "terminationGracePeriod", ""},
		"pods denied":   {func(o *Observed) { o.Pods = Value[[]Pod]{Err: forbidden("pods")} }, Unknown, "the API server denies", "", "pods.policy"},
		"budgets denied": {func(o *Observed) {
			o.Budgets = Value[[]policyv1.PodDisruptionBudget]{Err: forbidden("poddisruptionbudgets")}
		}, Unknown, "the API server denies", "", "poddisruptionbudgets.policy"},
	})
}
