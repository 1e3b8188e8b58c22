package plan_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// still is a cluster in which nothing known replaces a node within a week: one NodePool of the NodeSync fleet/prod with two
// nodes, without consolidation and expiry, whose EC2NodeClass pins its AMI.
func still() plan.Freeze {
	now := time.Date(2026, 12, 18, 12, 0, 0, 0, time.UTC)
	label, _ := plan.OwnerOf("fleet", "prod").Label()
	pool := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "karpenter.sh/v1", "kind": "NodePool",
		"metadata": map[string]any{"name": "general", "labels": map[string]any{v1alpha1.OwnerLabel: label}},
		"spec": map[string]any{
			"template": map[string]any{"spec": map[string]any{
				"expireAfter":  "Never",
				"nodeClassRef": map[string]any{"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
			}},
			"disruption": map[string]any{"consolidateAfter": "Never", "budgets": []any{map[string]any{"nodes": "10%"}}},
		},
	}}
	class := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": map[string]any{"name": "default"},
		"spec": map[string]any{"amiSelectorTerms": []any{map[string]any{"alias": "al2023@v20251002"}}},
	}}
	claim := func(name string) plan.NodeClaim {
		return plan.NodeClaim{Name: name, UID: types.UID(name), Pool: "general", Class: "default", Initialized: true, Created: now.Add(-time.Hour)}
	}
	return plan.Freeze{
		Now: now, Until: now.AddDate(0, 0, 7), Expires: map[types.UID]time.Time{},
		Live: plan.Live{Served: true, NodeClaims: []plan.NodeClaim{claim("a"), claim("b")}, Objects: map[render.Ref]*plan.Object{
			{Kind: render.NodePool, Name: "general"}: plan.NewObject(pool), {Kind: render.EC2NodeClass, Name: "default"}: plan.NewObject(class),
		}},
		Syncs: []v1alpha1.NodeSync{{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "prod"}, Status: v1alpha1.NodeSyncStatus{
			LastAttemptedRevision: "main@sha1:1", LastAppliedRevision: "main@sha1:1",
			Karpenter: &v1alpha1.KarpenterStatus{Version: "1.15.0"},
		}}},
	}
}

// set changes a field of the NodePool or the EC2NodeClass.
func set(f *plan.Freeze, kind string, value any, path ...string) {
	for ref, object := range f.Live.Objects {
		if ref.Kind == kind {
			changed := object.DeepCopy()
			_ = unstructured.SetNestedField(changed.Object, value, append([]string{"spec"}, path...)...)
			f.Live.Objects[ref] = plan.NewObject(changed)
		}
	}
}

// TestMovers: each cause that could replace a node within the period is found, and none that is excluded for the whole of it.
func TestMovers(t *testing.T) {
	if movers, err := still().Movers(); err != nil || len(movers) > 0 {
		t.Fatalf("%v, %v", movers, err)
	}
	ofBudget := func(fields map[string]any) []any { return []any{fields} }
	drifts := func(f *plan.Freeze) {
		f.Live.NodeClaims[0].Drifted, f.Live.NodeClaims[0].DriftReason = true, "AMIDrift"
	}
	latest := func(f *plan.Freeze) {
		set(f, render.EC2NodeClass, []any{map[string]any{"alias": "al2023@latest"}}, "amiSelectorTerms")
	}
	freeze := func(from, to string) func(*plan.Freeze) {
		return func(f *plan.Freeze) { f.Syncs[0].Spec.Guard.Freeze = []v1alpha1.GuardFreeze{{From: from, To: to}} }
	}
	for name, c := range map[string]struct {
		changes []func(*plan.Freeze)
		want    []string
	}{
		"drift": {[]func(*plan.Freeze){drifts}, []string{
			"Drift NodePool/general 1 now: NodePool/general: 1 node is Drifted, and disruption budgets allow a replacement",
		}},
		"drift, but no budget": {[]func(*plan.Freeze){drifts, func(f *plan.Freeze) {
			set(f, render.NodePool, ofBudget(map[string]any{"nodes": "0", "reasons": []any{"Drifted"}}), "disruption", "budgets")
		}}, nil},
		"drift, and a budget that opens in the night": {[]func(*plan.Freeze){drifts, func(f *plan.Freeze) {
			set(f, render.NodePool, ofBudget(map[string]any{"nodes": "0", "schedule": "0 6 * * *", "duration": "16h"}), "disruption", "budgets")
		}}, []string{"Drift NodePool/general 1 +10h0m0s: NodePool/general: 1 node is Drifted, and disruption budgets allow a replacement"}},
		"drift in a freeze":           {[]func(*plan.Freeze){drifts, freeze("2026-12-18", "2027-01-03")}, nil},
		"drift after a short freeze":  {[]func(*plan.Freeze){drifts, freeze("2026-12-18", "2026-12-19")}, []string{"Drift NodePool/general 1 +36h0m0s: NodePool/general: 1 node is Drifted, and disruption budgets allow a replacement"}},
		"drift of another's NodePool": {[]func(*plan.Freeze){drifts, freeze("2026-12-18", "2027-01-03"), func(f *plan.Freeze) { f.Syncs[0].Name = "other" }}, []string{"Drift NodePool/general 1 now: NodePool/general: 1 node is Drifted, and disruption budgets allow a replacement"}},
		"an alias that is not pinned": {[]func(*plan.Freeze){latest}, []string{
			"UnpinnedAMI NodePool/general 2 now: NodePool/general: EC2NodeClass/default selects AMIs by alias al2023@latest: a new AMI makes all nodes drift",
		}},
		"an alias that is not pinned, in a freeze": {[]func(*plan.Freeze){latest, freeze("2026-12-18", "2027-01-03")}, nil},
		"an AMI's ID": {[]func(*plan.Freeze){func(f *plan.Freeze) {
			set(f, render.EC2NodeClass, []any{map[string]any{"id": "ami-1"}}, "amiSelectorTerms")
		}}, nil},
		"AMIs by tags": {[]func(*plan.Freeze){func(f *plan.Freeze) {
			set(f, render.EC2NodeClass, []any{map[string]any{"tags": map[string]any{"a": "b"}}}, "amiSelectorTerms")
		}}, []string{"UnpinnedAMI NodePool/general 2 now: NodePool/general: EC2NodeClass/default selects AMIs by tags: a new AMI makes all nodes drift"}},
		"expiry, even in a freeze": {[]func(*plan.Freeze){freeze("2026-12-18", "2027-01-03"), func(f *plan.Freeze) { f.Expires["a"] = f.Now.Add(48 * time.Hour) }}, []string{
			"Expiry NodePool/general 1 +48h0m0s: NodePool/general: 1 node expires until Fri 25 Dec 12:00 UTC, whatever the disruption budgets allow; the first one at Sun 20 Dec 12:00 UTC",
		}},
		"expiry after the period": {[]func(*plan.Freeze){func(f *plan.Freeze) { f.Expires["a"] = f.Until.Add(time.Hour) }}, nil},
		"expiry of nodes to come": {[]func(*plan.Freeze){func(f *plan.Freeze) { set(f, render.NodePool, "24h", "template", "spec", "expireAfter") }}, []string{"Expiry NodePool/general 0 +24h0m0s: NodePool/general: expireAfter is 24h: each node that is launched now expires in the period"}},
		"consolidation":           {[]func(*plan.Freeze){func(f *plan.Freeze) { set(f, render.NodePool, "30s", "disruption", "consolidateAfter") }}, []string{"Consolidation NodePool/general 2 now: NodePool/general: Karpenter may consolidate nodes for reason Empty or Underutilized"}},
		"a node that terminates":  {[]func(*plan.Freeze){func(f *plan.Freeze) { f.Live.NodeClaims[0].Deleting = true }}, []string{"Terminating NodePool/general 1 now: NodePool/general: 1 node is being terminated now"}},
		"a held change": {[]func(*plan.Freeze){func(f *plan.Freeze) {
			f.Syncs[0].Status.Held = &v1alpha1.HeldPlan{Summary: "2 nodes replaced", Nodes: 2}
		}}, []string{"HeldChange nodesync/prod 2 now: nodesync/prod holds a change that an approval releases: 2 nodes replaced"}},
		"a held change in a freeze": {[]func(*plan.Freeze){freeze("2026-12-18", "2027-01-03"), func(f *plan.Freeze) { f.Syncs[0].Status.Held = &v1alpha1.HeldPlan{Nodes: 2} }}, nil},
		"a commit that waits for a window": {[]func(*plan.Freeze){freeze("2026-12-18", "2026-12-20"), func(f *plan.Freeze) { f.Syncs[0].Status.LastAttemptedRevision = "main@sha1:2" }}, []string{
			"PendingCommit nodesync/prod 0 +60h0m0s: nodesync/prod has not applied main@sha1:2 completely yet",
		}},
		"an upgrade": {[]func(*plan.Freeze){func(f *plan.Freeze) {
			f.Syncs[0].Status.Karpenter.Target = &v1alpha1.ChartTarget{Version: "1.16.0", Step: v1alpha1.ChartChecking}
		}}, []string{"PendingUpgrade nodesync/prod 0 now: nodesync/prod upgrades Karpenter 1.15.0 to 1.16.0, or waits to (step Checking): the new controller may find nodes drifted"}},
		"a removal": {[]func(*plan.Freeze){func(f *plan.Freeze) {
			f.Syncs[0].Status.Removals = []v1alpha1.Removal{{Kind: "NodePool", Name: "batch", Remaining: 3}}
		}}, []string{"Removal nodesync/prod 3 now: nodesync/prod removes NodePool/batch, which has 3 nodes left"}},
		"no nodes": {[]func(*plan.Freeze){latest, func(f *plan.Freeze) { f.Live.NodeClaims = nil }}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			f := still()
			for _, change := range c.changes {
				change(&f)
			}
			movers, err := f.Movers()
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, m := range movers {
				from := "now"
				if after := m.From.Sub(f.Now); after > 0 {
					from = "+" + after.String()
				}
				got = append(got, fmt.Sprintf("%s %s %d %s: %s", m.Kind, m.Object, m.Nodes, from, m.Message))
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
