package plan_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

// TestBlockingBudgets: the first budget of a pod's namespace that selects it and allows no disruption.
func TestBlockingBudgets(t *testing.T) {
	budget := func(name string, allowed int32, selector *metav1.LabelSelector) policyv1.PodDisruptionBudget {
		b := policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: name}, Spec: policyv1.PodDisruptionBudgetSpec{Selector: selector}}
		b.Status.DisruptionsAllowed = allowed
		return b
	}
	of := func(labels map[string]string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: labels}
	}
	exists := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpExists}}}
	odd := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Odd"}}}
	for name, c := range map[string]struct {
		budgets []policyv1.PodDisruptionBudget
		labels  map[string]string
		want    string
	}{
		"its label":              {[]policyv1.PodDisruptionBudget{budget("a", 0, of(map[string]string{"app": "b"})), budget("b", 0, of(map[string]string{"app": "a"}))}, map[string]string{"app": "a"}, "b"},
		"two labels":             {[]policyv1.PodDisruptionBudget{budget("a", 0, of(map[string]string{"app": "a", "tier": "x"}))}, map[string]string{"app": "a", "tier": "x"}, "a"},
		"one of two labels":      {[]policyv1.PodDisruptionBudget{budget("a", 0, of(map[string]string{"app": "a", "tier": "x"}))}, map[string]string{"app": "a"}, ""},
		"the first of several":   {[]policyv1.PodDisruptionBudget{budget("a", 1, of(map[string]string{"app": "a"})), budget("b", 0, exists), budget("c", 0, of(map[string]string{"app": "a"}))}, map[string]string{"app": "a"}, "b"},
		"an empty selector":      {[]policyv1.PodDisruptionBudget{budget("a", 0, &metav1.LabelSelector{})}, nil, "a"},
		"no selector":            {[]policyv1.PodDisruptionBudget{budget("a", 0, nil)}, map[string]string{"app": "a"}, ""},
		"an invalid selector":    {[]policyv1.PodDisruptionBudget{budget("a", 0, odd)}, map[string]string{"app": "a"}, ""},
		"it allows a disruption": {[]policyv1.PodDisruptionBudget{budget("a", 1, exists)}, map[string]string{"app": "a"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			blocking, got := plan.BlockingBudgets(c.budgets), ""
			if first := blocking.First(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Labels: c.labels}}); first != nil {
				got = first.Name
			}
			if got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
			if blocking.First(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "db", Labels: c.labels}}) != nil {
				t.Error("a pod of another namespace")
			}
		})
	}
}

// TestTenThousandBudgets of one namespace, one for each pod: what the plan reports is short, and is found within seconds.
func TestTenThousandBudgets(t *testing.T) {
	const n = 10_000
	var pods []corev1.Pod
	var budgets []policyv1.PodDisruptionBudget
	nodes := plan.Drains{}
	for i := range n {
		labels, node := map[string]string{"app": fmt.Sprintf("web-%05d", i), "team": "web"}, fmt.Sprintf("node-%03d", i%100)
		nodes[node] = ""
		pods = append(pods, corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: labels["app"], Labels: labels}, Spec: corev1.PodSpec{NodeName: node}})
		b := policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: labels["app"]}}
		b.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": labels["app"]}}
		b.Status = policyv1.PodDisruptionBudgetStatus{ExpectedPods: 1, DesiredHealthy: 1}
		budgets = append(budgets, b)
	}
	began := time.Now()
	impact := plan.WorkloadsOf(nodes, pods, budgets, began)
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %s", took)
	}
	if impact.Pods != n || len(impact.Budgets) != n || impact.Undrainable != 100 {
		t.Errorf("%d pods, %d budgets, %d of %d nodes cannot drain", impact.Pods, len(impact.Budgets), impact.Undrainable, impact.Nodes)
	}
	length := len(impact.Blocks())
	for _, line := range impact.Words() {
		length += len(line)
	}
	if length > 1000 || len(impact.Words()) > 5 {
		t.Errorf("%d characters in %d lines", length, len(impact.Words()))
	}
}
