package plan_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"testing"
	"time"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/internal/usage"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/apply/applytest"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// applied returns a Set of a class and NodePools, and a cluster in which everything matches Git.
func applied(b *testing.B, server *applytest.Server, pools int) (*render.Set, plan.Live) {
	b.Helper()
	set := &render.Set{Revision: "main@sha1:1"}
	set.Objects = append(set.Objects, server.Definition(b, class("default")))
	for i := range pools {
		set.Objects = append(set.Objects, server.Definition(b, pool(fmt.Sprintf("pool-%05d", i), "default")))
	}
	for _, object := range set.Objects {
		if err := server.ApplyAs(b.Context(), plan.Desired(object, owner), v1alpha1.FieldManager, true); err != nil {
			b.Fatal(err)
		}
	}
	return set, plan.Live{Objects: plan.NewObjects(server.Objects())}
}

// timed plans once and returns the duration.
func timed(b *testing.B, set *render.Set, live plan.Live, schema plan.Schema) (*plan.Plan, time.Duration) {
	b.Helper()
	policy := plan.Policy{Owner: owner, Adopt: v1alpha1.AdoptIfIdentical, NewRevision: true}
	began := time.Now()
	p, err := plan.Make(b.Context(), set, live, policy, schema)
	if err != nil {
		b.Fatal(err)
	}
	return p, time.Since(began)
}

// BenchmarkUnchanged plans 400 NodePools that match Git, in a reconcile after another one. The ratio is to the first
// reconcile, which compares everything.
func BenchmarkUnchanged(b *testing.B) {
	server := applytest.New(b)
	set, live := applied(b, server, 400)
	first, whole := timed(b, set, live, server)
	live.Memo = first.Memo
	for b.Loop() {
		if p, _ := timed(b, set, live, server); !p.Empty() {
			b.Fatalf("%d changes", len(p.Changes))
		}
	}
	b.ReportMetric(float64(whole)/(float64(b.Elapsed())/float64(b.N)), "first/this")
}

var fleetClaims = flag.Int("claims", 10_000, "number of NodeClaims of BenchmarkFleet")

// BenchmarkFleet plans a commit that changes each of 100 NodePools with 10,000 NodeClaims, from the watch cache:
// without the Memo of an earlier plan, as after a start; again, as each reconcile does while the commit is held; and
// with policies. CPU-ns is processor time, decode/plan is the ratio to decoding the LIST of these NodeClaims once, as
// client-go does, and B-peak is the peak memory of the process.
func BenchmarkFleet(b *testing.B) {
	f := newFleet(b, 100, *fleetClaims)
	decode := decoding(b, f.list)
	policies := []v1alpha1.Policy{
		{Name: "few-nodes-at-a-time", Expression: "plan.totals.disruptedNodes <= plan.totals.nodes", Message: "too many", Action: v1alpha1.PolicyHold},
		{Name: "pools-have-limits", Expression: "change.kind != 'NodePool' || has(change.spec.limits.cpu)", Message: "no limit", Action: v1alpha1.PolicyDeny},
		{Name: "little-spot", Expression: "plan.nodeClaims.filter(n, n.capacityType == 'spot' && n.zone == 'us-east-1a').size() * 4 <= plan.nodeClaims.size()", Message: "too much spot", Action: v1alpha1.PolicyHold},
	}
	read := &cluster.Definitions{}
	for _, c := range []struct {
		name     string
		fresh    bool
		policies []v1alpha1.Policy
	}{{"first", true, nil}, {"again", false, nil}, {"policies", false, policies}} {
		b.Run(c.name, func(b *testing.B) {
			last := f.plan(b, read, plan.Memo{}, c.policies...).Memo
			peak, began := usage.Peak(), usage.CPU()
			for b.Loop() {
				memo, known := last, read
				if c.fresh {
					memo, known = plan.Memo{}, &cluster.Definitions{}
				}
				if p := f.plan(b, known, memo, c.policies...); len(p.Changes) != f.pools+fleetClassChanges || p.Nodes != f.claims {
					b.Fatalf("%d changes, %d nodes", len(p.Changes), p.Nodes)
				}
			}
			cpu := float64(usage.CPU()-began) / float64(b.N)
			b.ReportMetric(cpu, "CPU-ns")
			b.ReportMetric(float64(decode)/cpu, "decode/plan")
			b.ReportMetric(float64(peak()), "B-peak")
		})
	}
}

// decoding returns the processor time to decode a LIST of NodeClaims.
func decoding(b *testing.B, list []byte) time.Duration {
	b.Helper()
	began := usage.CPU()
	if err := json.Unmarshal(list, &karpv1.NodeClaimList{}); err != nil {
		b.Fatal(err)
	}
	return usage.CPU() - began
}
