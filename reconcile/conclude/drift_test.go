package conclude

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/apply"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/report"
	"github.com/plumbline-dev/plumbline/reconcile/report/queue"
	"github.com/plumbline-dev/plumbline/render"
)

var general = render.Ref{Kind: render.NodePool, Name: "general"}

// TestDriftsOf: what another client has changed, and whether this pass has put it right.
func TestDriftsOf(t *testing.T) {
	edited := plan.Change{Ref: general, Drift: true, Live: &unstructured.Unstructured{}, Editors: []string{"kubectl-edit"}, Fields: []plan.Field{{Path: "spec.weight", From: "7"}, {Path: "spec.limits.cpu", From: "200", To: "100"}}}
	with := func(c plan.Change, action plan.Action) plan.Change { c.Action = action; return c }
	for name, c := range map[string]struct {
		change  plan.Change
		written bool
		want    []Drift
	}{
		"corrected":               {with(edited, plan.Update), true, []Drift{{Ref: general, What: "spec.weight: absent → 7; spec.limits.cpu: 100 → 200", By: []string{"kubectl-edit"}, Corrected: true}}},
		"reported":                {with(edited, plan.Drifted), false, []Drift{{Ref: general, What: "spec.weight: absent → 7; spec.limits.cpu: 100 → 200", By: []string{"kubectl-edit"}, Reported: true}}},
		"deleted":                 {plan.Change{Ref: general, Drift: true, Action: plan.Create}, true, []Drift{{Ref: general, What: "deleted", Corrected: true}}},
		"of Git":                  {plan.Change{Ref: general, Action: plan.Update, Live: &unstructured.Unstructured{}}, true, []Drift{}},
		"edited while it is held": {plan.Change{Ref: general, Action: plan.Hold, Live: &unstructured.Unstructured{}, Editors: edited.Editors, Edited: edited.Fields[:1], Fields: edited.Fields}, false, []Drift{{Ref: general, What: "spec.weight: absent → 7", By: edited.Editors}}},
		"held":                    {plan.Change{Ref: general, Action: plan.Hold, Live: &unstructured.Unstructured{}, Fields: edited.Fields}, false, []Drift{}},
		"taken back from a drain": {plan.Change{Ref: general, Drift: true, Action: plan.TakeBack, Reason: plan.ReasonReturned, Live: &unstructured.Unstructured{}, Fields: edited.Fields}, true, []Drift{}},
		"and edited meanwhile":    {plan.Change{Ref: general, Drift: true, Action: plan.TakeBack, Reason: plan.ReasonReturned, Live: &unstructured.Unstructured{}, Editors: edited.Editors, Fields: edited.Fields[:1]}, true, []Drift{{Ref: general, What: "spec.weight: absent → 7", By: edited.Editors, Corrected: true}}},
		"only the fields' owner":  {plan.Change{Ref: general, Drift: true, Action: plan.Update, Reason: plan.ReasonOwnership, Live: &unstructured.Unstructured{}}, true, []Drift{}},
	} {
		var written []apply.Written
		if c.written {
			written = []apply.Written{{Ref: general}}
		}
		if diff := cmp.Diff(c.want, DriftsOf(&plan.Plan{Changes: []plan.Change{c.change}}, written)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestDriftIsKeptForADay: what differs stays from pass to pass with its first time; what was put
// right is named for a day.
func TestDriftIsKeptForADay(t *testing.T) {
	sync := &v1alpha1.NodeSync{}
	pass := func(at int64, drifts ...Drift) (list string) {
		before := sync.DeepCopy()
		s := &Step{Sync: sync, Before: before, Began: time.Unix(at, 0), Found: Found{Drifts: append([]Drift{}, drifts...)}}
		s.noteDrift()
		for _, o := range sync.Status.Drift {
			list += fmt.Sprintf("%s %s since %d", o.Name, o.Message, o.Since.Unix())
			if o.CorrectedAt != nil {
				list += fmt.Sprintf(" corrected %d", o.CorrectedAt.Unix())
			}
			list += ";"
		}
		update, _ := s.sayDrift(queue.Update{})
		return list + " " + string(update.State) + ": " + update.Description
	}
	const day = 24 * 60 * 60
	open := Drift{Ref: general, What: "spec.weight: 1 → 7", By: []string{"kubectl-edit"}}
	corrected := open
	corrected.Corrected = true
	for _, step := range []struct{ got, want string }{
		{pass(1), " success: no drift"},
		{pass(2, open), "general spec.weight: 1 → 7 since 2; failure: 1 object differs: NodePool/general spec.weight: 1 → 7 by kubectl-edit"},
		{pass(3, open), "general spec.weight: 1 → 7 since 2; failure: 1 object differs: NodePool/general spec.weight: 1 → 7 by kubectl-edit"},
		{pass(4, corrected), "general spec.weight: 1 → 7 since 2 corrected 4; success: no drift; edits corrected: NodePool/general spec.weight: 1 → 7 by kubectl-edit"},
		{pass(5), "general spec.weight: 1 → 7 since 2 corrected 4; success: no drift; edits corrected: NodePool/general spec.weight: 1 → 7 by kubectl-edit"},
		{pass(9, open), "general spec.weight: 1 → 7 since 9; failure: 1 object differs: NodePool/general spec.weight: 1 → 7 by kubectl-edit"},
		{pass(10), "general spec.weight: 1 → 7 since 9 corrected 10; success: no drift; edits corrected: NodePool/general spec.weight: 1 → 7 by kubectl-edit"},
		{pass(10 + day), " success: no drift"},
	} {
		if diff := cmp.Diff(step.want, step.got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

// TestNodesThatDriftByNoCommitAreDrift, and those of a commit's rollout are not.
func TestNodesThatDriftByNoCommitAreDrift(t *testing.T) {
	for revision, want := range map[string]report.State{"": report.Failure, "main@sha1:a": report.Success} {
		sync := &v1alpha1.NodeSync{}
		sync.Status.Rollout = &v1alpha1.Rollout{Revision: revision, Nodes: 1, Outdated: 1, Since: metav1.Now()}
		s := &Step{Sync: sync, Before: sync, Found: Found{Drifts: []Drift{}}}
		if update, said := s.sayDrift(queue.Update{}); !said || update.State != want || update.Subject != queue.Drift {
			t.Errorf("%q: %+v", revision, update)
		}
	}
}

// TestAppliedIsSaidOfWhatIsApplied, whatever the nodes do, and of all of it: charts and removals, too.
func TestAppliedIsSaidOfWhatIsApplied(t *testing.T) {
	broken := &fault.Error{Class: fault.Terminal, Reason: v1alpha1.ReasonUpgradeFailed, Err: errors.New("no such version")}
	var frozen, unpooled Found
	frozen.Wait("charts", "this waits: not before ten")
	unpooled.Wait("NodePool/general", "not Ready")
	const is = "main@sha1:a"
	for name, c := range map[string]struct {
		applied  string
		found    Found
		removals []v1alpha1.Removal
		state    report.State
		want     report.State
	}{
		"nodes are replaced":       {applied: is, state: report.Pending, want: report.Success},
		"all is done":              {applied: is, state: report.Success, want: report.Success},
		"a pool is not Ready yet":  {applied: is, found: unpooled, state: report.Pending, want: report.Success},
		"a pool is removed":        {applied: is, removals: []v1alpha1.Removal{{Phase: v1alpha1.RemovalDraining}}, state: report.Pending, want: report.Success},
		"another was applied":      {applied: "main@sha1:b", state: report.Pending, want: report.Pending},
		"a part of it is held":     {applied: is, found: Found{Held: []Held{{}}}, state: report.Failure, want: report.Failure},
		"a removal is held":        {applied: is, removals: []v1alpha1.Removal{{Phase: v1alpha1.RemovalHeld}}, state: report.Failure, want: report.Failure},
		"the charts are refused":   {applied: is, found: Found{NotUpgraded: broken}, state: report.Failure, want: report.Failure},
		"they cannot be pulled":    {applied: is, found: Found{Unpulled: broken}, state: report.Failure, want: report.Failure},
		"nor corrected":            {applied: is, found: Found{Unkept: broken}, state: report.Failure, want: report.Failure},
		"they wait for a window":   {applied: is, found: frozen, state: report.Pending, want: report.Pending},
		"something is not written": {applied: is, found: Found{Unwritten: broken}, state: report.Failure, want: report.Failure},
		"refused, before apply":    {applied: "main@sha1:b", state: report.Failure, want: report.Failure},
	} {
		sync := &v1alpha1.NodeSync{}
		sync.Status.LastAppliedRevision, sync.Status.Removals = c.applied, c.removals
		s := &Step{Sync: sync, Before: sync, Found: c.found}
		s.Commit = "a"
		if update, said := s.sayApplied(queue.Update{State: c.state}, s.Verdict()); !said || update.State != c.want || update.Subject != queue.Applied {
			t.Errorf("%s: %t %+v", name, said, update)
		}
	}
}

// TestNodeDriftNamesItsInputs: the status on a commit says what nodes drift by, if not by its changes.
func TestNodeDriftNamesItsInputs(t *testing.T) {
	sync := &v1alpha1.NodeSync{}
	sync.Status.Rollout = &v1alpha1.Rollout{Nodes: 3, Outdated: 3, Reasons: []string{"AMIDrift", "NodePoolDrifted"}, Inputs: []v1alpha1.DriftInput{
		{Pool: "a", Reason: "AMIDrift", From: "ami-1", To: "ami-2 (al2023@latest)"}, {Pool: "b", Reason: "AMIDrift", From: "ami-1", To: "ami-2 (al2023@latest)"},
	}}
	s := &Step{Sync: sync, Before: sync.DeepCopy(), Found: Found{Drifts: []Drift{}}}
	update, _ := s.sayDrift(queue.Update{})
	if want := "nodes are outdated by no commit of this NodeSync: AMIDrift: ami-1 → ami-2 (al2023@latest); NodePoolDrifted"; update.Description != want || update.State != report.Failure {
		t.Errorf("%s: %s", update.State, update.Description)
	}
}
