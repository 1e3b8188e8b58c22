package reconcile

import (
	"testing"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/apply"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
)

// TestStillAllowed shows that what is done after an error does not depend on its class, but on what was written and
// checked before it.
func TestStillAllowed(t *testing.T) {
	served := func(change func(*outcome)) outcome {
		var out outcome
		out.Charts.CRDs.Ready = true
		change(&out)
		return out
	}
	looked := func(out *outcome) { out.Nodes.SawRollout, out.Nodes.Terminations = true, []v1alpha1.Termination{} }
	for name, c := range map[string]struct {
		out  outcome
		want allowed
	}{
		"no error":                {served(looked), allowed{leases: true}},
		"suspended":               {served(func(out *outcome) { out.mode = suspended }), allowed{}},
		"the CRDs are not served": {outcome{}, allowed{}},
	} {
		if got := actionsAfter(c.out); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
	for _, class := range []fault.Class{fault.Superseded, fault.Waiting, fault.Transient, fault.Terminal} {
		failed := func(change func(*outcome)) outcome {
			return served(func(out *outcome) { change(out); out.fault = &fault.Error{Class: class} })
		}
		wrote := func(out *outcome) { out.Work.Written = []apply.Written{{}} }
		for name, c := range map[string]struct {
			out  outcome
			want allowed
		}{
			"before anything":                {failed(func(*outcome) {}), allowed{brake: true, check: true}},
			"after definitions were written": {failed(wrote), allowed{check: true}},
			"after the look":                 {failed(looked), allowed{}},
		} {
			if got := actionsAfter(c.out); got != c.want {
				t.Errorf("%s, %s: %+v, want %+v", class, name, got, c.want)
			}
		}
	}
}
