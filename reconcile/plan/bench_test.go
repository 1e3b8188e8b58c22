package plan_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/apply/applytest"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// applied is a Set of a class and NodePools, and the cluster in which all of it
// is as Git says.
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

// timed plans once and returns how long that took.
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

// BenchmarkUnchanged plans 400 NodePools that are as Git says, as a pass does
// that follows another. The ratio is to the first pass, which compares all.
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

// BenchmarkNodeClaims plans a change of 100 NodePools that have 10,000
// NodeClaims. The ratio is to the same change without any.
func BenchmarkNodeClaims(b *testing.B) {
	server := applytest.New(b)
	set, live := applied(b, server, 100)
	for i := 1; i < len(set.Objects); i++ {
		name := set.Objects[i].Ref.Name
		set.Objects[i] = server.Definition(b, pool(name, "default", "weight: 3"))
	}
	_, without := timed(b, set, live, server)
	for i := range 10_000 {
		live.NodeClaims = append(live.NodeClaims, plan.NodeClaim{Name: fmt.Sprint(i), Pool: set.Objects[1+i%100].Ref.Name, Class: "default"})
	}
	for b.Loop() {
		p, took := timed(b, set, live, server)
		if len(p.Changes) != 100 || took > time.Second {
			b.Fatalf("%d changes in %s", len(p.Changes), took)
		}
	}
	b.ReportMetric((float64(b.Elapsed())/float64(b.N))/float64(without), "with/without")
}
