package changes

import (
	"errors"
	"testing"
	"time"

	"github.com/plumbline-dev/plumbline/reconcile/apply"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// edit is the correction of an edit of one field.
func edit(ref render.Ref, field string) plan.Change {
	return plan.Change{Ref: ref, Action: plan.Update, Drift: true, Fields: []plan.Field{{Path: field, From: "1h", To: "720h"}}, Editors: []string{"tuner"}}
}

// TestAFightOverNodesPauses: where another controller changes a field by which Karpenter
// replaces nodes each time that it is corrected, plumbline does not go on for ever.
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
				s.Memory, s.Now, s.Insist = memory, now, insist
				return s, s.Run(t.Context()).Unwritten
			}
			wrote := func(after time.Duration, insist bool) bool {
				t.Helper()
				before := len(api.written)
				s, err := pass(after, c.change, insist)
				var fought *apply.FoughtError
				if paused := len(api.written) == before; paused != errors.As(err, &fought) {
					t.Fatalf("written: %v, error: %v", !paused, err)
				} else if paused && (s.WakeAt.IsZero() || !s.wholeWritten()) {
					t.Errorf("nothing ends the pause, or the revision does not count as applied")
				}
				// The watch wakes a pass for what was written, which finds nothing to do.
				quiet := newStep(api)
				quiet.Memory, quiet.Now = memory, now
				quiet.Run(t.Context())
				return len(api.written) > before
			}
			for i := range mostReverts {
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

// TestReverts: what is long ago does not count, nor what lies ahead after the clock was put
// back.
func TestReverts(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		reverts reverts
		over    bool
	}{
		"once, a moment ago":            {reverts{1, now.Add(-time.Minute)}, false},
		"once, long ago":                {reverts{1, now.Add(-time.Hour)}, true},
		"a fight that was paused":       {reverts{mostReverts, now.Add(-time.Hour)}, false},
		"a fight that has ended":        {reverts{mostReverts, now.Add(-2 * time.Hour)}, true},
		"before the clock was put back": {reverts{mostReverts, now.Add(time.Minute)}, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := c.reverts.over(now); got != c.over {
				t.Errorf("over: %t", got)
			}
		})
	}
}
