package plan_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

// pod returns a pod on a node, with the kind and name of its controller; empty for none.
func pod(name, node, kind, owner string, change ...func(*corev1.Pod)) corev1.Pod {
	p := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: name, Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{NodeName: node}, Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
	if kind != "" {
		yes := true
		p.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: owner, UID: types.UID(kind + owner), Controller: &yes}}
	}
	for _, c := range change {
		c(&p)
	}
	return p
}

func budget(name string, allowed int32, app string) policyv1.PodDisruptionBudget {
	b := policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: name}, Status: policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: allowed}}
	if app != "" {
		b.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
	}
	return b
}

// strict requires every pod to be healthy.
func strict(b policyv1.PodDisruptionBudget) policyv1.PodDisruptionBudget {
	b.Status.ExpectedPods, b.Status.CurrentHealthy, b.Status.DesiredHealthy = 1, 1, 1
	return b
}

func TestImpact(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	began := func(ago time.Duration) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Status.StartTime = &metav1.Time{Time: now.Add(-ago)} }
	}
	phase := func(phase corev1.PodPhase) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Status.Phase = phase } }
	annotated := func(value string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Annotations = map[string]string{"karpenter.sh/do-not-disrupt": value} }
	}
	hashed := func(p *corev1.Pod) { p.Labels["pod-template-hash"] = "5d4" }
	var many []corev1.Pod
	for i := range 7 {
		many = append(many, pod(fmt.Sprintf("bare-%d", i), "n1", "", ""))
	}
	for name, c := range map[string]struct {
		pods    []corev1.Pod
		budgets []policyv1.PodDisruptionBudget
		want    plan.Impact
	}{
		"none":                           {},
		"on another node":                {pods: []corev1.Pod{pod("a", "n3", "", "")}},
		"none of these are evicted":      {pods: []corev1.Pod{pod("a", "n1", "DaemonSet", "cni"), pod("b", "n1", "Node", "n1"), pod("c", "n1", "Job", "j", phase(corev1.PodSucceeded)), pod("d", "n1", "", "", phase(corev1.PodFailed))}},
		"two of a workload":              {pods: []corev1.Pod{pod("a", "n1", "ReplicaSet", "web-5d4"), pod("b", "n2", "ReplicaSet", "web-5d4")}, want: plan.Impact{Pods: 2, Nodes: 2}},
		"the other one is elsewhere":     {pods: []corev1.Pod{pod("a", "n1", "ReplicaSet", "web-5d4"), pod("b", "n3", "ReplicaSet", "web-5d4")}, want: plan.Impact{Nodes: 1, Pods: 1}},
		"the other one has failed":       {pods: []corev1.Pod{pod("a", "n1", "ReplicaSet", "web-5d4", hashed), pod("b", "n3", "ReplicaSet", "web-5d4", phase(corev1.PodFailed))}, want: plan.Impact{Nodes: 1, Pods: 1, Single: plan.Pods{Count: 1, Names: []string{"web/web"}}}},
		"the only one of a StatefulSet":  {pods: []corev1.Pod{pod("db-0", "n1", "StatefulSet", "db")}, want: plan.Impact{Nodes: 1, Pods: 1, Single: plan.Pods{Count: 1, Names: []string{"web/db"}}}},
		"a Job starts again":             {pods: []corev1.Pod{pod("j-1", "n1", "Job", "j")}, want: plan.Impact{Nodes: 1, Pods: 1}},
		"not to be disrupted":            {pods: []corev1.Pod{pod("j-1", "n1", "Job", "j", annotated("true")), pod("j-2", "n1", "Job", "j", annotated("false"))}, want: plan.Impact{Nodes: 1, Pods: 2, DoNotDisrupt: plan.Pods{Count: 1, Names: []string{"web/j-1"}}}},
		"not to be disrupted for a time": {pods: []corev1.Pod{pod("j-1", "n1", "Job", "j", annotated("1h"), began(time.Minute)), pod("j-2", "n1", "Job", "j", annotated("1h"), began(2*time.Hour)), pod("j-3", "n1", "Job", "j", annotated("odd"))}, want: plan.Impact{Nodes: 1, Pods: 3, DoNotDisrupt: plan.Pods{Count: 1, Names: []string{"web/j-1"}}}},
		"bare ones, a few are named":     {pods: many, want: plan.Impact{Nodes: 1, Pods: 7, Bare: plan.Pods{Count: 7, Names: []string{"web/bare-0", "web/bare-1", "web/bare-2", "web/bare-3", "web/bare-4"}}}},
		"a budget that allows none":      {pods: []corev1.Pod{pod("j-1", "n1", "Job", "j"), pod("j-2", "n3", "Job", "j")}, budgets: []policyv1.PodDisruptionBudget{budget("web", 0, "web")}, want: plan.Impact{Nodes: 1, Blocked: 1, Pods: 1, Budgets: []plan.Budget{{Name: "web/web", Pods: 1}}}},
		"a budget that can never allow one": {
			pods:    []corev1.Pod{pod("j-1", "n1", "Job", "j"), pod("j-2", "n2", "Job", "j", func(p *corev1.Pod) { p.Labels["app"] = "other" })},
			budgets: []policyv1.PodDisruptionBudget{strict(budget("web", 0, "web"))},
			want:    plan.Impact{Nodes: 2, Undrainable: 1, Blocked: 1, Pods: 2, Budgets: []plan.Budget{{Name: "web/web", Pods: 1, Never: true}}},
		},
		"budgets and an annotation, and a terminationGracePeriod": {
			pods:    []corev1.Pod{pod("j-1", "bounded", "Job", "j"), pod("j-2", "n2", "Job", "j"), pod("j-3", "bounded", "Job", "j", annotated("true"))},
			budgets: []policyv1.PodDisruptionBudget{strict(budget("web", 0, "web"))},
			want: plan.Impact{
				Nodes: 2, Undrainable: 1, Blocked: 1, Overridden: 1, Pods: 3, Budgets: []plan.Budget{{Name: "web/web", Pods: 3, Never: true}},
				DoNotDisrupt: plan.Pods{Count: 1, Names: []string{"web/j-3"}},
			},
		},
		"an annotation, and a terminationGracePeriod": {
			pods: []corev1.Pod{pod("j-1", "bounded", "Job", "j", annotated("true")), pod("j-2", "n2", "Job", "j")},
			want: plan.Impact{Nodes: 2, Overridden: 1, Pods: 2, DoNotDisrupt: plan.Pods{Count: 1, Names: []string{"web/j-1"}}},
		},
		"a budget that allows one":       {pods: []corev1.Pod{pod("j-1", "n1", "Job", "j")}, budgets: []policyv1.PodDisruptionBudget{budget("web", 1, "web")}, want: plan.Impact{Nodes: 1, Pods: 1}},
		"a budget of others":             {pods: []corev1.Pod{pod("j-1", "n1", "Job", "j")}, budgets: []policyv1.PodDisruptionBudget{budget("web", 0, "db")}, want: plan.Impact{Nodes: 1, Pods: 1}},
		"a budget that selects nothing":  {pods: []corev1.Pod{pod("j-1", "n1", "Job", "j")}, budgets: []policyv1.PodDisruptionBudget{budget("web", 0, "")}, want: plan.Impact{Nodes: 1, Pods: 1}},
		"a budget of another namespace":  {pods: []corev1.Pod{pod("j-1", "n1", "Job", "j", func(p *corev1.Pod) { p.Namespace = "db" })}, budgets: []policyv1.PodDisruptionBudget{budget("web", 0, "web")}, want: plan.Impact{Nodes: 1, Pods: 1}},
		"one that is ending counts not":  {pods: []corev1.Pod{pod("a", "n1", "", "", func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} })}},
		"two budgets, sorted by name":    {pods: []corev1.Pod{pod("j-1", "n1", "Job", "j")}, budgets: []policyv1.PodDisruptionBudget{budget("z", 0, "web"), budget("a", 0, "web")}, want: plan.Impact{Nodes: 1, Blocked: 1, Pods: 1, Budgets: []plan.Budget{{Name: "web/a", Pods: 1}, {Name: "web/z", Pods: 1}}}},
		"one that is not yet on a node":  {pods: []corev1.Pod{pod("a", "", "", "")}},
		"one that waits for its volumes": {pods: []corev1.Pod{pod("j-1", "n1", "Job", "j", phase(corev1.PodPending))}, want: plan.Impact{Nodes: 1, Pods: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			got := plan.WorkloadsOf(plan.Drains{"n1": "", "n2": "", "bounded": "1h"}, c.pods, c.budgets, now)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestWords(t *testing.T) {
	i := plan.Impact{
		Pods: 7, Budgets: []plan.Budget{{Name: "web/a", Pods: 1}, {Name: "web/b", Pods: 2}},
		DoNotDisrupt: plan.Pods{Count: 1, Names: []string{"web/j"}}, Single: plan.Pods{Count: 7, Names: []string{"web/a", "web/b"}}, Bare: plan.Pods{Count: 1, Names: []string{"web/c"}},
	}
	want := []string{
		"7 pods are evicted from these nodes",
		"PodDisruptionBudget web/a allows no disruption now: 1 of these pods waits for it",
		"PodDisruptionBudget web/b allows no disruption now: 2 of these pods wait for it",
		"karpenter.sh/do-not-disrupt: web/j",
		"workloads with a single pod, unavailable until a new pod runs: web/a, web/b and 5 more",
		"pods without a controller, which are not recreated: web/c",
	}
	if diff := cmp.Diff(want, i.Words()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if words := (plan.Impact{}).Words(); words != nil {
		t.Errorf("of nothing: %v", words)
	}
}

// TestOverriddenWords: nodes with a terminationGracePeriod drain whatever the budgets allow.
func TestOverriddenWords(t *testing.T) {
	i := plan.Impact{Pods: 3, Nodes: 3, Overridden: 2, Budgets: []plan.Budget{{Name: "web/a", Pods: 2, Never: true}}}
	want := []string{
		"3 pods are evicted from these nodes",
		"1 PodDisruptionBudget can never allow an eviction: web/a",
		"2 of 3 nodes drain all the same once their terminationGracePeriod is over: it overrides PodDisruptionBudgets and karpenter.sh/do-not-disrupt",
	}
	if diff := cmp.Diff(want, i.Words()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if words := i.Blocks(); words != "" {
		t.Errorf("blocks: %q", words)
	}
}

// TestManyBudgets are one line, after the line about undrainable nodes.
func TestManyBudgets(t *testing.T) {
	i := plan.Impact{Pods: 46, Nodes: 4, Undrainable: 4}
	for n := range 40 {
		i.Budgets = append(i.Budgets, plan.Budget{Name: fmt.Sprintf("web/never-%02d", n), Pods: 1, Never: true})
	}
	for n := range 6 {
		i.Budgets = append(i.Budgets, plan.Budget{Name: fmt.Sprintf("web/now-%d", n), Pods: 1})
	}
	want := []string{
		"46 pods are evicted from these nodes",
		"0 of 4 nodes can drain: 40 PodDisruptionBudgets can never allow an eviction: web/never-00, web/never-01, web/never-02, web/never-03, web/never-04 and 35 more; add replicas or change the budgets (only a terminationGracePeriod overrides them)",
		"6 PodDisruptionBudgets allow no disruption now: web/now-0, web/now-1, web/now-2, web/now-3, web/now-4 and 1 more",
	}
	if diff := cmp.Diff(want, i.Words()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
