package changes

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/reconcile/apply"
	"github.com/plumbline-dev/plumbline/reconcile/observe"
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
			change := plan.Change{Ref: ref, Action: plan.Update, Drift: true, Object: render.Object{Ref: ref, Defaulted: git}, Live: live(2)}
			memory, now := &Memory{}, time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
			step := func() *Step {
				return &Step{
					Plan: &plan.Plan{Changes: []plan.Change{change}}, Set: &render.Set{}, Controller: observe.Readiness{Ready: true},
					Memory: memory, Now: now, Retry: time.Minute,
				}
			}
			failed := &apply.MutatedError{Ref: ref, Fields: []plan.Field{{Path: "spec.limits.cpu", From: "77", To: "200"}}, Object: live(2)}
			s := step()
			s.applied = apply.Result{Failed: []apply.Failure{{Ref: ref, Err: failed}}}
			s.noteMutated()

			now = now.Add(c.after)
			change.Object.Defaulted, change.Live = c.object, c.live
			s = step()
			if got := len(s.Due()) == 1; got != c.writes {
				t.Errorf("written again: %t", got)
			}
			if unwritten := s.failedWrites(); c.writes == (unwritten != nil) {
				t.Errorf("reported: %v", unwritten)
			}
			if s.wholeWritten() {
				t.Error("it counts as written")
			}
			if !c.writes && s.WakeAt.IsZero() {
				t.Error("nothing wakes the next try")
			}
		})
	}
}
