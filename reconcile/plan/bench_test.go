package plan_test

import (
	"fmt"
	"testing"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/apply/applytest"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// BenchmarkUnchanged plans 400 NodePools that are as Git says.
func BenchmarkUnchanged(b *testing.B) {
	server := applytest.New(b)
	set := &render.Set{Revision: "main@sha1:1"}
	set.Objects = append(set.Objects, server.Definition(b, class("default")))
	for i := range 400 {
		set.Objects = append(set.Objects, server.Definition(b, pool(fmt.Sprintf("pool-%03d", i), "default")))
	}
	for _, object := range set.Objects {
		if err := server.ApplyAs(b.Context(), plan.Desired(object, owner), v1alpha1.FieldManager, true); err != nil {
			b.Fatal(err)
		}
	}
	live := plan.Live{Objects: server.Objects()}
	policy := plan.Policy{Owner: owner, Adopt: v1alpha1.AdoptIfIdentical}
	for b.Loop() {
		p, err := plan.Make(b.Context(), set, live, policy, server)
		if err != nil {
			b.Fatal(err)
		}
		if !p.Empty() {
			b.Fatalf("%d changes", len(p.Changes))
		}
	}
}
