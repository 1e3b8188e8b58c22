package changes

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// TestAPoolStaysWithItsClassUntilTheNewOneIsReady: with a class that is not, it could launch no node.
func TestAPoolStaysWithItsClassUntilTheNewOneIsReady(t *testing.T) {
	class := func(name, ready string) *plan.Object {
		u := &unstructured.Unstructured{Object: map[string]any{"kind": render.EC2NodeClass, "status": map[string]any{
			"conditions": []any{map[string]any{"type": "Ready", "status": ready}},
		}}}
		u.SetName(name)
		return plan.NewObject(u)
	}
	for name, c := range map[string]struct {
		action   plan.Action
		reason   string
		from, to string
		was, is  string
		// class is what the same Plan does with the class that the pool is pointed at.
		class       plan.Action
		wantWritten bool
	}{
		"not Ready yet":             {action: plan.Update, from: "old", to: "new", was: "True", is: "False"},
		"it is not there":           {action: plan.Update, from: "old", to: "new", was: "True"},
		"adopted":                   {action: plan.Adopt, from: "old", to: "new", was: "True", is: "Unknown"},
		"Ready":                     {action: plan.Update, from: "old", to: "new", was: "True", is: "True", wantWritten: true},
		"neither is":                {action: plan.Update, from: "old", to: "new", was: "False", is: "False", wantWritten: true},
		"the same class":            {action: plan.Update, from: "new", to: "new", is: "False", wantWritten: true},
		"the brake ends":            {action: plan.TakeBack, reason: plan.ReasonBrakeEnds, from: "old", to: "new", was: "True", is: "False"},
		"the brake ends, Ready":     {action: plan.TakeBack, reason: plan.ReasonBrakeEnds, from: "old", to: "new", was: "True", is: "True", wantWritten: true},
		"the brake ends, one class": {action: plan.TakeBack, reason: plan.ReasonBrakeEnds, from: "new", to: "new", is: "False", wantWritten: true},
		"it is changed, too":        {action: plan.Update, from: "old", to: "new", was: "True", is: "True", class: plan.Update},
		"its change is held":        {action: plan.Update, from: "old", to: "new", was: "True", is: "True", class: plan.Hold, wantWritten: true},
		"the same class, changed":   {action: plan.Update, from: "new", to: "new", is: "True", class: plan.Update, wantWritten: true},
		"a removal taken back":      {action: plan.TakeBack, from: "old", to: "new", was: "True", is: "False", wantWritten: true},
		"a new pool":                {action: plan.Create, to: "new", is: "False", wantWritten: true},
	} {
		t.Run(name, func(t *testing.T) {
			server := &server{}
			s := newStep(server, plan.Change{Ref: pool("a"), Action: c.action, Reason: c.reason})
			if c.class != "" {
				ref := render.Ref{Kind: render.EC2NodeClass, Name: "new"}
				s.Plan.Changes = append(s.Plan.Changes, plan.Change{Ref: ref, Action: c.class, Object: render.Object{Ref: ref, Desired: object("new"), Defaulted: object("new")}, Live: object("new")})
			}
			change := &s.Plan.Changes[0]
			naming := func(u *unstructured.Unstructured, class string) {
				if err := unstructured.SetNestedField(u.Object, class, "spec", "template", "spec", "nodeClassRef", "name"); err != nil {
					t.Fatal(err)
				}
			}
			naming(change.Object.Desired, c.to)
			naming(change.Object.Defaulted, c.to)
			if change.Live != nil {
				naming(change.Live, c.from)
			}
			s.Live.Objects = map[render.Ref]*plan.Object{}
			for name, ready := range map[string]string{"old": c.was, "new": c.is} {
				if ready != "" {
					s.Live.Objects[render.Ref{Kind: render.EC2NodeClass, Name: name}] = class(name, ready)
				}
			}
			result := s.Run(t.Context())
			var waits []string
			for _, w := range s.Waits {
				waits = append(waits, w.On+": "+w.Message)
			}
			var want []string
			if !c.wantWritten {
				want = []string{"EC2NodeClass/new: NodePool/a stays with EC2NodeClass/old until EC2NodeClass/new is Ready"}
			}
			if written := slices.Contains(server.written, "a"); written != c.wantWritten || result.Whole != (c.wantWritten && c.class != plan.Hold) {
				t.Errorf("written %t, whole %t, want %t", written, result.Whole, c.wantWritten)
			}
			if diff := cmp.Diff(want, waits); diff != "" {
				t.Errorf("waits (-want +got):\n%s", diff)
			}
		})
	}
}
