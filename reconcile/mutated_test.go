package reconcile

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/reconcile/apply"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// TestWhatIsMutatedIsNotWrittenAgainAndAgain: it is reported until the retry interval is
// over, and written sooner where Git or the object has changed.
func TestWhatIsMutatedIsNotWrittenAgainAndAgain(t *testing.T) {
	ref := render.Ref{Kind: render.NodePool, Name: "general"}
	git := &unstructured.Unstructured{Object: map[string]any{}}
	live := func(generation int64) *unstructured.Unstructured {
		u := &unstructured.Unstructured{Object: map[string]any{}}
		u.SetGeneration(generation)
		return u
	}
	cases := map[string]struct {
		object, live *unstructured.Unstructured
		after        time.Duration
		writes       bool
	}{
		"a moment later":            {object: git, live: live(2), after: time.Second},
		"after the retry interval":  {object: git, live: live(2), after: time.Minute, writes: true},
		"Git has changed":           {object: &unstructured.Unstructured{Object: map[string]any{}}, live: live(2), after: time.Second, writes: true},
		"the object has changed":    {object: git, live: live(3), after: time.Second, writes: true},
		"the object is missing now": {object: git, after: time.Second, writes: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, nodeSync(unchanged))
			p := b.pass()
			p.stages.CRDs.Ready, p.stages.Controller.Ready = true, true
			p.want.Set = setWith("general")
			change := plan.Change{Ref: ref, Action: plan.Update, Drift: true, Object: render.Object{Ref: ref, Defaulted: git}, Live: live(2)}
			p.plan.Plan = &plan.Plan{Changes: []plan.Change{change}}
			failed := &apply.MutatedError{Ref: ref, Fields: []plan.Field{{Path: "spec.limits.cpu", From: "77", To: "200"}}, Object: live(2)}
			p.applied = apply.Result{Failed: []apply.Failure{{Ref: ref, Err: failed}}}
			p.noteMutated()

			b.clock.forward(c.after)
			p.now, p.applied = b.clock.now(), apply.Result{}
			change.Object.Defaulted, change.Live = c.object, c.live
			p.plan.Plan = &plan.Plan{Changes: []plan.Change{change}}
			if got := len(p.due()) == 1; got != c.writes {
				t.Errorf("written again: %t", got)
			}
			if err := p.failedWrites(); err != nil {
				t.Fatal(err)
			}
			if c.writes == (p.Unwritten != nil) || !c.writes && p.sync.Status.LastAppliedRevision != "" {
				t.Errorf("reported: %v, applied %q", p.Unwritten, p.sync.Status.LastAppliedRevision)
			}
			if !c.writes && p.WakeAt.IsZero() {
				t.Error("nothing wakes the next try")
			}
		})
	}
}
