package changes

import (
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/reconcile/apply"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// edit returns the correction of an edit of one field.
func edit(ref render.Ref, field string) plan.Change {
	return plan.Change{Ref: ref, Action: plan.Update, Drift: true, Fields: []plan.Field{{Path: field, From: "1h", To: "720h"}}, Editors: []string{"tuner"}}
}

// TestAFightOverNodesPauses: if another controller repeatedly changes a field whose correction replaces nodes,
// plumbline pauses.
func TestAFightOverNodesPauses(t *testing.T) {
	nodePool, class := pool("general"), render.Ref{Kind: render.EC2NodeClass, Name: "default"}
	for name, c := range map[string]struct {
		change plan.Change
		pauses bool
	}{
		"the template of a pool":          {edit(nodePool, "spec.template.spec.expireAfter"), true},
		"its requirements":                {edit(nodePool, "spec.template.spec.requirements"), true},
		"replicas":                        {edit(nodePool, "spec.replicas"), true},
		"a class":                         {edit(class, "spec.userData"), true},
		"a limit, which no node hangs on": {edit(nodePool, "spec.limits.cpu"), false},
		"a commit in each pass":           {plan.Change{Ref: nodePool, Action: plan.Update, Fields: []plan.Field{{Path: "spec.template.spec.expireAfter"}}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			api, memory, now := &server{}, &Memory{}, time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
			pass := func(after time.Duration, change plan.Change, insist bool) (*Step, error) {
				now = now.Add(after)
				s := newStep(api, change)
				s.Memory, s.Now, s.Requested = memory, now, insist
				return s, s.Run(t.Context()).Unwritten
			}
			wrote := func(after time.Duration, insist bool) bool {
				t.Helper()
				before := len(api.written)
				s, err := pass(after, c.change, insist)
				var fought *apply.RepeatedRevertError
				if paused := len(api.written) == before; paused != errors.As(err, &fought) {
					t.Fatalf("written: %v, error: %v", !paused, err)
				} else if paused && (s.WakeAt.IsZero() || !s.wholeWritten()) {
					t.Errorf("nothing ends the pause, or the revision does not count as applied")
				}
				// The watch triggers a reconcile for the write, which finds nothing to do.
				quiet := newStep(api)
				quiet.Memory, quiet.Now = memory, now
				quiet.Run(t.Context())
				return len(api.written) > before
			}
			for i := range maxReverts {
				if !wrote(time.Minute, false) {
					t.Fatalf("edit %d is not corrected", i+1)
				}
			}
			if got := wrote(time.Second, false); got == c.pauses {
				t.Fatalf("the next edit is corrected: %t", got)
			}
			if !c.pauses {
				return
			}
			if !wrote(time.Minute, true) {
				t.Error("a person has asked for it, and it is not corrected")
			}
			if wrote(59*time.Minute, false) {
				t.Error("it is corrected within the hour")
			}
			if !wrote(time.Minute, false) {
				t.Error("it is not corrected after an hour")
			}
			if wrote(time.Minute, false) {
				t.Error("it is corrected more than once after an hour")
			}
			commit := c.change
			commit.Drift = false
			if _, err := pass(time.Minute, commit, false); err != nil {
				t.Errorf("what Git changes is not written: %v", err)
			}
			if !wrote(time.Minute, false) {
				t.Error("after Git has changed it, what was before counts")
			}
		})
	}
}

// TestReverts: old reverts do not count, nor do those in the future after the clock was set back.
func TestReverts(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		reverts reverts
		over    bool
	}{
		"once, a moment ago":            {reverts{1, now.Add(-time.Minute)}, false},
		"once, long ago":                {reverts{1, now.Add(-time.Hour)}, true},
		"a fight that was paused":       {reverts{maxReverts, now.Add(-time.Hour)}, false},
		"a fight that has ended":        {reverts{maxReverts, now.Add(-2 * time.Hour)}, true},
		"before the clock was put back": {reverts{maxReverts, now.Add(time.Minute)}, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := c.reverts.over(now); got != c.over {
				t.Errorf("over: %t", got)
			}
		})
	}
}

// TestWhatIsMutatedIsNotWrittenAgainAndAgain: it is reported until the retry interval is over, and written earlier if
// Git or the object has changed.
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
					Plan: &plan.Plan{Changes: []plan.Change{change}}, Set: &render.Set{}, Controller: cluster.Readiness{Ready: true},
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

// TestFormsThatStand: a definition is recorded once it is in the cluster, and stays recorded while another client
// changes it. If a commit's write of it fails, it is unknown in which form it is.
func TestFormsThatStand(t *testing.T) {
	set := &render.Set{}
	for _, name := range []string{"clean", "written", "new", "failed", "unreverted", "edited", "held"} {
		set.Objects = append(set.Objects, render.Object{Ref: render.Ref{Kind: render.NodePool, Name: name}, Defaulted: &unstructured.Unstructured{}})
	}
	s := &Step{Set: set, Memory: &Memory{}}
	at := func(name string) *unstructured.Unstructured {
		return set.Objects[slices.IndexFunc(set.Objects, func(o render.Object) bool { return o.Ref.Name == name })].Defaulted
	}
	ref := func(name string) render.Ref { return render.Ref{Kind: render.NodePool, Name: name} }
	before := &unstructured.Unstructured{}
	s.Memory.forms.of = map[render.Ref]*unstructured.Unstructured{ref("held"): before, ref("failed"): before, ref("unreverted"): before, ref("gone"): before}
	s.Plan = &plan.Plan{Changes: []plan.Change{
		{Ref: ref("written"), Action: plan.Update},
		{Ref: ref("new"), Action: plan.Create},
		{Ref: ref("failed"), Action: plan.Update},
		{Ref: ref("unreverted"), Action: plan.Update, Drift: true},
		{Ref: ref("edited"), Action: plan.Drifted, Drift: true},
		{Ref: ref("held"), Action: plan.Hold},
	}}
	s.applied.Written = []apply.Written{{Ref: ref("written")}}
	s.applied.Failed = []apply.Failure{{Ref: ref("failed")}, {Ref: ref("unreverted")}}
	s.noteForms()
	want := map[render.Ref]*unstructured.Unstructured{
		ref("clean"): at("clean"), ref("written"): at("written"), ref("unreverted"): at("unreverted"), ref("edited"): at("edited"), ref("held"): before,
	}
	if !maps.Equal(want, s.Memory.forms.of) {
		t.Errorf("forms are %v, want %v", s.Memory.forms.of, want)
	}
	s.Plan = &plan.Plan{Changes: []plan.Change{{Ref: ref("clean"), Action: plan.Update}, {Ref: ref("new"), Action: plan.Create}, {Ref: ref("failed"), Action: plan.Update}}}
	s.applied.Written, s.applied.Failed = nil, nil
	s.noteForms()
	want[ref("held")] = at("held")
	if !maps.Equal(want, s.Memory.forms.of) {
		t.Errorf("after a second pass over the Set forms are %v, want %v", s.Memory.forms.of, want)
	}
}
