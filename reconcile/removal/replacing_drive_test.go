package removal

import (
	"strings"
	"testing"
	"time"

	"github.com/awslabs/operatorpkg/status"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// replaced returns a stage on which Karpenter replaces the nodes of a removed pool, which has disruption budgets and
// nodes with its hash.
func replaced(t *testing.T, labels map[string]any, nodes ...string) (*stage, *unstructured.Unstructured) {
	t.Helper()
	spec := map[string]any{
		"limits":     map[string]any{"cpu": "100"},
		"disruption": map[string]any{"budgets": []any{map[string]any{"nodes": "20%"}}},
		"template":   map[string]any{"metadata": map[string]any{"labels": labels}, "spec": map[string]any{}},
	}
	if labels == nil {
		delete(spec["template"].(map[string]any), "metadata")
	}
	batch := pool("batch", "batch-uid", spec)
	s := pacedPool(t, batch)
	s.pace.Replaces = true
	s.find(render.NodePool, "batch", "batch-uid")
	for _, name := range nodes {
		s.launch(name, "batch", "batch-uid")
		s.claim(name, func(c *karpv1.NodeClaim) {
			c.Annotations = map[string]string{karpv1.NodePoolHashAnnotationKey: "1"}
		})
	}
	return s, batch
}

// claim changes a NodeClaim as Karpenter does.
func (s *stage) claim(name string, change func(*karpv1.NodeClaim)) {
	s.t.Helper()
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if !s.exists(claim) {
		s.t.Fatalf("there is no NodeClaim %s", name)
	}
	change(claim)
	if err := s.client.Update(s.t.Context(), claim); err != nil {
		s.t.Fatal(err)
	}
}

// asItIs returns the preconditions of a NodeClaim's deletion.
func (s *stage) asItIs(name string) client.Preconditions {
	s.t.Helper()
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}}
	s.exists(claim)
	return preconditions(claim.UID, claim.ResourceVersion)
}

func (s *stage) passes(want string) {
	s.t.Helper()
	if got := strings.Join(s.pass(), ", "); got != want {
		s.t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestKarpenterReplacesNodes checks that Karpenter replaces the nodes of a removed pool one at a time, the next when
// the pods of the previous one run, and that the node that it cannot replace is terminated last.
func TestKarpenterReplacesNodes(t *testing.T) {
	s, batch := replaced(t, nil, "a", "b")
	s.replica("web-1", "web", "node-a")
	s.replica("job-1", "job", "node-b")
	job := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "job-1"}}
	s.exists(job)
	job.Annotations = map[string]string{karpv1.DoNotDisruptAnnotationKey: "true"}
	if err := s.client.Update(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	s.passes("batch Pacing")
	s.passes("batch Pacing, stop growth")
	s.passes("batch Draining, have Karpenter replace 1 at a time")
	s.exists(batch)
	if r := replacingOf(batch, s.now); r == nil || r.Nodes != 1 || r.Until.Sub(s.now) > leaseDuration {
		t.Fatalf("%+v", r)
	}
	s.passes("batch Draining")
	s.claim("a", func(c *karpv1.NodeClaim) {
		c.Status.Conditions = []status.Condition{{Type: karpv1.ConditionTypeDisruptionReason, Status: metav1.ConditionTrue, LastTransitionTime: metav1.NewTime(s.now)}}
	})
	s.passes("batch Draining, have Karpenter replace 0 at a time")
	s.evict("web-1")
	s.replica("web-2", "web", "")
	s.claim("a", func(c *karpv1.NodeClaim) { c.Finalizers = nil })
	if err := s.client.Delete(t.Context(), &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, s.asItIs("a")); err != nil {
		t.Fatal(err)
	}
	s.passes("batch Draining")
	if r := s.last.Removals[0]; r.Reason != ReasonPodsPending {
		t.Errorf("%s: %s", r.Reason, r.Message)
	}
	s.evict("web-2")
	s.replica("web-3", "web", "node-z")
	s.passes("batch Draining, delete NodeClaim/b")
}

// TestWhatKarpenterReplacesIsLent checks that the budget for replacements expires, and is renewed by reconciles.
func TestWhatKarpenterReplacesIsLent(t *testing.T) {
	s, batch := replaced(t, nil, "a")
	for range 3 {
		s.pass()
	}
	s.exists(batch)
	first := replacingOf(batch, s.now)
	s.now = first.Until.Add(-renewBefore)
	s.passes("batch Draining, have Karpenter replace 1 at a time")
	s.exists(batch)
	if next := replacingOf(batch, s.now); !next.Until.After(first.Until) {
		t.Errorf("%s, and before %s", next.Until, first.Until)
	}
	if at := s.last.Again; at.IsZero() || at.After(s.now.Add(leaseDuration)) {
		t.Errorf("the next pass is wanted at %s", at)
	}
}

// TestLetGoOfAReplacedPool checks that the pool's nodes match it again, and that its limits and budgets are restored.
func TestLetGoOfAReplacedPool(t *testing.T) {
	for name, labels := range map[string]map[string]any{"without labels": nil, "with a label": {"team": "a"}} {
		for _, lost := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				s, batch := replaced(t, labels, "a")
				for range 3 {
					s.pass()
				}
				if s.exists(batch); replacingOf(batch, s.now) == nil {
					t.Fatal("it is not replaced")
				}
				// To the real API server, all labels of a template are one field, so all of them must be applied.
				if fields := batch.GetManagedFields()[restrained(batch)].FieldsV1.String(); labels != nil && !strings.Contains(fields, `"f:team"`) {
					t.Errorf("applied: %s", fields)
				}
				if lost {
					if err := s.client.Delete(t.Context(), s.recorded(), preconditions(s.recorded().UID, s.recorded().ResourceVersion)); err != nil {
						t.Fatal(err)
					}
				}
				if done, err := OrphanAll(t.Context(), s.world(), s.sync, prod{}); !done || err != nil {
					t.Fatalf("done %v, error %v", done, err)
				}
				s.exists(batch)
				left, has, _ := unstructured.NestedMap(batch.Object, "spec", "template", "metadata", "labels")
				if diff := cmp.Diff(labels, left); has != (labels != nil) || labels != nil && diff != "" {
					t.Errorf("labels %v", left)
				}
				want := []any{map[string]any{"nodes": "20%"}}
				if lost {
					want = []any{map[string]any{"nodes": "20%", "reasons": []any{"Empty", "Underutilized"}}}
				}
				if diff := cmp.Diff(want, plan.BudgetsOf(batch)); diff != "" {
					t.Errorf("budgets (-want +got):\n%s", diff)
				}
				if restrained(batch) >= 0 || batch.GetLabels()[v1alpha1.OwnerLabel] != "" {
					t.Errorf("%v %v", batch.GetManagedFields(), batch.GetLabels())
				}
			})
		}
	}
}

// TestRevertedWhileKarpenterReplaces checks that a node that Karpenter has started to replace counts until it is gone.
func TestRevertedWhileKarpenterReplaces(t *testing.T) {
	s, _ := replaced(t, nil, "a", "b")
	for range 3 {
		s.pass()
	}
	s.claim("a", func(c *karpv1.NodeClaim) {
		c.Status.Conditions = []status.Condition{{Type: karpv1.ConditionTypeDisruptionReason, Status: metav1.ConditionTrue, LastTransitionTime: metav1.NewTime(s.now)}}
	})
	p := Pass{Now: s.now.Add(time.Second), Sync: s.sync, Pace: s.pace}
	if _, err := Unrecord(t.Context(), s.world(), p, s.sync.Status.Removals...); err != nil {
		t.Fatal(err)
	}
	kept, err := loadRecords(t.Context(), s.live, s.sync)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]types.UID{"uid-a"}, kept.entries[revertedKey("batch-uid")].Leaving); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestAPoolThatWasReplacedStops checks that Karpenter does not use the budgets from Git to replace nodes that are
// drifted because of a reverted removal: these budgets are restored once there are no such nodes. Nodes that had
// drifted before do not count.
func TestAPoolThatWasReplacedStops(t *testing.T) {
	for name, git := range map[string][]any{
		"some at a time":  {map[string]any{"nodes": "20%"}},
		"none by drift":   {map[string]any{"nodes": "30%"}, map[string]any{"nodes": "0", "reasons": []any{drifted}}},
		"before a window": {map[string]any{"nodes": "0", "schedule": "0 3 * * *", "duration": "1h0m0s"}, map[string]any{"nodes": "100%"}},
	} {
		t.Run(name, func(t *testing.T) {
			s, batch := replaced(t, nil, "a", "b")
			s.exists(batch)
			if err := unstructured.SetNestedSlice(batch.Object, git, "spec", "disruption", "budgets"); err != nil {
				t.Fatal(err)
			}
			if err := s.client.Update(t.Context(), batch); err != nil {
				t.Fatal(err)
			}
			drifts := func(claim string, since time.Time, is metav1.ConditionStatus) {
				s.claim(claim, func(c *karpv1.NodeClaim) {
					c.Status.Conditions = []status.Condition{{Type: karpv1.ConditionTypeDrifted, Status: is, Reason: plan.DriftOfPool, LastTransitionTime: metav1.NewTime(since)}}
				})
			}
			drifts("b", s.now.Add(-time.Hour), metav1.ConditionTrue)
			for range 3 {
				s.pass()
			}
			budgets := func() []any {
				s.exists(batch)
				return plan.BudgetsOf(batch)
			}
			drifts("a", s.now.Add(time.Second), metav1.ConditionTrue)
			open := s.successor
			s.successor = Gate{Message: "NodePool/new is not Ready"}
			for range 2 {
				s.passes("batch Draining, restore growth, and disruption budgets later")
				if diff := cmp.Diff(pacedBudgets(git, 0, time.Time{}), budgets()); diff != "" || replacingOf(batch, s.now) != nil {
					t.Fatalf("replacing %v, budgets (-want +got):\n%s", replacingOf(batch, s.now), diff)
				}
				if s.last.Again.After(s.now.Add(time.Minute)) || s.last.Again.IsZero() {
					t.Errorf("the next pass is wanted at %s", s.last.Again)
				}
			}
			drifts("a", s.now.Add(time.Second), metav1.ConditionFalse)
			s.passes("batch Draining, restore growth")
			if diff := cmp.Diff(git, budgets()); diff != "" {
				t.Errorf("budgets (-want +got):\n%s", diff)
			}
			s.passes("batch Draining")
			s.successor = open
			s.passes("batch Draining, stop growth")
			s.passes("batch Draining, have Karpenter replace 1 at a time")
		})
	}
}
