package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// leaving is a Plan by which a pool of two nodes leaves.
func leaving() *planned {
	return &planned{
		Plan: &plan.Plan{Removals: []plan.Candidate{{Ref: render.Ref{Kind: render.NodePool, Name: "batch"}, Nodes: 2}}},
		live: plan.Live{NodeClaims: []plan.NodeClaim{{Name: "batch-1", UID: "1", Pool: "batch", Node: "n1"}, {Name: "batch-2", UID: "2", Pool: "batch"}, {Name: "web-1", UID: "3", Pool: "web", Node: "n3"}}},
	}
}

func running(name, node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: name, Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{NodeName: node}, Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
}

// TestAPlanSaysWhatRuns on the nodes that it is on, in each form, with the rights of who asks.
func TestAPlanSaysWhatRuns(t *testing.T) {
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "web"}, Spec: policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{}}}
	c := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(running("a", "n1"), running("b", "n3"), budget).Build()
	p := leaving()
	p.seePods(t.Context(), c, time.Now())
	report := newPlanReport(p)
	var text, md strings.Builder
	if err := errors.Join(report.print(&text), report.printMarkdown(&md)); err != nil {
		t.Fatal(err)
	}
	for form, out := range map[string]string{"text": text.String(), "markdown": md.String()} {
		for _, want := range []string{"NodePool/batch: 1 pod is evicted from these nodes", "NodePool/batch: PodDisruptionBudget web/web allows no disruption now: 1 of these pods waits for it", "which nothing recreates: web/a"} {
			if !strings.Contains(out, want) {
				t.Errorf("%s lacks %q:\n%s", form, want, out)
			}
		}
	}
	if len(report.Pods) != 1 || report.Pods[0].Pods != 1 || report.Pods[0].Budgets[0].Name != "web/web" {
		t.Errorf("%+v", report.Pods)
	}
}

// TestPodsThatMayNotBeRead are a warning that names the right; where no node is touched they are not
// asked for.
func TestPodsThatMayNotBeRead(t *testing.T) {
	asked := 0
	c := interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme.Scheme).Build(), interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			asked++
			return errors.New("forbidden")
		},
	})
	p := leaving()
	p.seePods(t.Context(), c, time.Now())
	if asked != 1 || len(p.pods) > 0 || !slices.ContainsFunc(p.Warnings, func(w string) bool {
		return strings.Contains(w, "is unavailable") && strings.Contains(w, "ask for the right to list both")
	}) {
		t.Errorf("%d asked, %v: %v", asked, p.pods, p.Warnings)
	}
	p = leaving()
	p.Removals = nil
	if p.seePods(t.Context(), c, time.Now()); asked != 1 || len(p.Warnings) > 0 {
		t.Errorf("nothing is touched: %d asked, %v", asked, p.Warnings)
	}
}

// TestAPlanSaysThatTheDaemonSimulates of a removal with pods, where it does not do so itself.
func TestAPlanSaysThatTheDaemonSimulates(t *testing.T) {
	c := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(running("a", "n1")).Build()
	for name, test := range map[string]struct {
		change    func(*planned)
		guard     v1alpha1.UnschedulablePods
		simulates bool
		says      bool
	}{
		"a removal":             {says: true},
		"with --what-if":        {simulates: true},
		"where it is ignored":   {guard: v1alpha1.UnschedulablePodsIgnore},
		"of a pool that stays":  {change: func(p *planned) { p.Removals[0].Held = true }},
		"of nodes without pods": {change: func(p *planned) { p.live.NodeClaims = p.live.NodeClaims[1:] }},
	} {
		t.Run(name, func(t *testing.T) {
			p := leaving()
			if test.change != nil {
				test.change(p)
			}
			p.seePods(t.Context(), c, time.Now())
			p.noteLanding(v1alpha1.Guard{UnschedulablePods: test.guard}, test.simulates)
			if says := slices.ContainsFunc(p.Warnings, func(w string) bool { return strings.HasPrefix(w, "where the pods of NodePool/batch go is simulated") }); says != test.says {
				t.Errorf("%q", p.Warnings)
			}
		})
	}
}
