package main

import (
	"bytes"
	"context"
	"errors"
	"io"
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

	"github.com/plumbline-dev/plumbline/cmd/plumbline/display"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/plan/planjson"
	"github.com/plumbline-dev/plumbline/reconcile/review"
	"github.com/plumbline-dev/plumbline/redact"
	"github.com/plumbline-dev/plumbline/render"
)

// aPlan returns a report with a row of each kind.
func aPlan() planReport {
	return planReport{
		Plan: planjson.Plan{
			Revision: "main@sha1:0123",
			Changes: []planjson.Change{
				{Object: "EC2NodeClass/default", Action: "Create", Effect: "None"},
				{Object: "NodePool/f2", Action: "Create", Effect: "None"},
				{Object: "NodePool/g2", Action: "Create", Effect: "None"},
				{Object: "NodePool/a", Action: "Update", Effect: "None", Message: "NodePool/a differs at spec.limits.cpu", Fields: []planjson.Field{{Path: "spec.limits.cpu", From: "100", To: "200"}, {Path: "spec.weight", To: "10"}}},
				{Object: "NodePool/b", Action: "Update", Effect: "Replace", Nodes: 3, UpTo: true, Fields: []planjson.Field{{Path: "spec.template.spec.taints", From: "", To: "a\u202eb|c"}}},
				{Object: "NodePool/c", Action: "Hold", Effect: "Replace", Nodes: 4, Message: "4 nodes would be disrupted, but guard.maxDisruptedNodes allows 3: set it to 4"},
			},
			Removals: []planjson.Removal{
				{Object: "NodePool/d", Nodes: 2},
				{Object: "NodePool/e", Nodes: 1, Held: true, Message: "one more than guard.maxRemovedPools"},
				{Object: "NodePool/f", Kind: "NodePool", Nodes: 12, MovesTo: []string{"f2"}},
				{Object: "NodePool/g", Kind: "NodePool", Nodes: 1, MovesTo: []string{"g2"}, Held: true, Message: "two more than guard.maxRemovedPools"},
			},
		},
		Warnings: []string{"its disruption budgets let Karpenter disrupt all"},
		Held:     3,
	}
}

func TestPlanPrints(t *testing.T) {
	for name, print := range map[string]func(planReport, io.Writer) error{"plan.table": planReport.print, "plan.md": planReport.printMarkdown} {
		var out bytes.Buffer
		if err := print(aPlan(), &display.Visible{Writer: &out}); err != nil {
			t.Fatal(err)
		}
		golden(t, name, out.String())
		if !redact.IsVisible(out.String()) {
			t.Errorf("%s shows not all that it has: %q", name, out.String())
		}
	}
}

func TestPlanSummary(t *testing.T) {
	for want, report := range map[string]planReport{
		"no change": {},
		"2 to create, 2 to change, 1 to move, 1 to remove, 3 held; up to 17 nodes drain or are replaced": aPlan(),
		"1 to remove; 1 node drains or is replaced":                                                      {Plan: planjson.Plan{Removals: []planjson.Removal{{Nodes: 1}}}},
		"1 refused; 0 nodes drain or are replaced":                                                       {Plan: planjson.Plan{Changes: []planjson.Change{{Action: "Refuse", Effect: "Blocked"}}}},
		"": {Stopped: "refused"},
	} {
		if got := report.summary(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// leaving returns a Plan that removes a pool of two nodes.
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

// TestAPlanSaysWhatRuns on the affected nodes, in each format, with the user's permissions.
func TestAPlanSaysWhatRuns(t *testing.T) {
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "web"}, Spec: policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{}}}
	c := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(running("a", "n1"), running("b", "n3"), budget).Build()
	p := leaving()
	p.pods, _ = podsOnNodes(t.Context(), c, p.Plan, p.live, time.Now())
	report := newPlanReport(p)
	var text, md strings.Builder
	if err := errors.Join(report.print(&text), report.printMarkdown(&md)); err != nil {
		t.Fatal(err)
	}
	for form, out := range map[string]string{"text": text.String(), "markdown": md.String()} {
		for _, want := range []string{"NodePool/batch: 1 pod is evicted from these nodes", "NodePool/batch: PodDisruptionBudget web/web allows no disruption now: 1 of these pods waits for it", "which are not recreated: web/a"} {
			if !strings.Contains(out, want) {
				t.Errorf("%s lacks %q:\n%s", form, want, out)
			}
		}
	}
	if len(report.Pods) != 1 || report.Pods[0].Pods != 1 || report.Pods[0].Budgets[0].Name != "web/web" {
		t.Errorf("%+v", report.Pods)
	}
}

// TestPodsThatMayNotBeRead: a warning names the permission; if no node is affected, pods are not read.
func TestPodsThatMayNotBeRead(t *testing.T) {
	asked := 0
	c := interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme.Scheme).Build(), interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			asked++
			return errors.New("forbidden")
		},
	})
	p := leaving()
	pods, warning := podsOnNodes(t.Context(), c, p.Plan, p.live, time.Now())
	if asked != 1 || len(pods) > 0 || !strings.Contains(warning, "are unknown") || !strings.Contains(warning, "need permission to list both") {
		t.Errorf("%d asked, %v: %q", asked, pods, warning)
	}
	p = leaving()
	p.Removals = nil
	if _, warning := podsOnNodes(t.Context(), c, p.Plan, p.live, time.Now()); asked != 1 || warning != "" {
		t.Errorf("nothing is touched: %d asked, %q", asked, warning)
	}
}

// TestAPlanSaysThatTheDaemonSimulates a removal with pods, if the plan does not do so itself.
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
			pods, _ := podsOnNodes(t.Context(), c, p.Plan, p.live, time.Now())
			warning := review.NotSimulated(p.Plan, pods, v1alpha1.Guard{UnschedulablePods: test.guard}, test.simulates)
			if says := strings.HasPrefix(warning, "the daemon simulates where the pods of NodePool/batch can be scheduled"); says != test.says || !says && warning != "" {
				t.Errorf("%q", warning)
			}
		})
	}
}

// TestAListThatChanges is shown by the removed and the added items.
func TestAListThatChanges(t *testing.T) {
	plain := func(words string) string { return words }
	for name, c := range map[string]struct{ from, to, want string }{
		"an entry more":  {`[{"key":"a","operator":"In"},{"key":"b","operator":"In"}]`, `[{"key":"a","operator":"In"},{"key":"c","operator":"In"},{"key":"b","operator":"In"}]`, `added {"key":"c","operator":"In"}`},
		"another entry":  {`["spot"]`, `["on-demand","reserved"]`, "removed spot, added on-demand, reserved"},
		"an entry fewer": {`["a","b"]`, `["b"]`, "removed a"},
		"another order":  {`["a","b"]`, `["b","a"]`, `["a","b"] → ["b","a"]`},
		"a new list":     {"", `["a"]`, `– → ["a"]`},
		"a text":         {"[a", "b", "[a → b"},
	} {
		if got := fieldWords(c.from, c.to, plain, plain); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
