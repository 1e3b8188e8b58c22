package status

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/pkg/runtime/conditions"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/apply"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/report"
	"github.com/plumbline-dev/plumbline/render"
)

var general = render.Ref{Kind: render.NodePool, Name: "general"}

// TestDriftsOf shows what another client has changed, whatever becomes of the object's Change, and whether this reconcile
// has corrected it.
func TestDriftsOf(t *testing.T) {
	edited := plan.Change{Ref: general, Drift: true, Live: &unstructured.Unstructured{}, Editors: []string{"kubectl-edit"}, Fields: []plan.Field{{Path: "spec.weight", From: "7"}, {Path: "spec.limits.cpu", From: "200", To: "100"}}}
	with := func(c plan.Change, action plan.Action) plan.Change { c.Action = action; return c }
	// changed is an edited object that a commit changes, too.
	changed := func(action plan.Action, reason string) plan.Change {
		live := &unstructured.Unstructured{}
		live.SetLabels(map[string]string{v1alpha1.OwnerLabel: "plumbline-system.prod"})
		live.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: v1alpha1.FieldManager, Operation: metav1.ManagedFieldsOperationApply}})
		return plan.Change{Ref: general, Action: action, Reason: reason, Live: live, Editors: edited.Editors, Edited: edited.Fields[:1], Fields: edited.Fields}
	}
	open, fixed := []Drift{{Ref: general, What: "spec.weight: absent → 7", By: edited.Editors}}, []Drift{{Ref: general, What: "spec.weight: absent → 7", By: edited.Editors, Corrected: true}}
	others, unowned := changed(plan.Adopt, plan.ReasonHandedOver), changed(plan.Wait, plan.ReasonFrozen)
	others.Live.SetLabels(map[string]string{v1alpha1.OwnerLabel: "plumbline-system.other"})
	unowned.Live.SetManagedFields(nil)
	awaited := changed(plan.Wait, plan.ReasonOtherSync)
	awaited.Live.SetLabels(others.Live.GetLabels())
	awaited.Drift = true
	for name, c := range map[string]struct {
		change  plan.Change
		written bool
		want    []Drift
	}{
		"corrected":                         {with(edited, plan.Update), true, []Drift{{Ref: general, What: "spec.weight: absent → 7; spec.limits.cpu: 100 → 200", By: []string{"kubectl-edit"}, Corrected: true}}},
		"reported":                          {with(edited, plan.Drifted), false, []Drift{{Ref: general, What: "spec.weight: absent → 7; spec.limits.cpu: 100 → 200", By: []string{"kubectl-edit"}, Reported: true}}},
		"deleted":                           {plan.Change{Ref: general, Drift: true, Action: plan.Create}, true, []Drift{{Ref: general, What: "deleted", Corrected: true}}},
		"of Git":                            {plan.Change{Ref: general, Action: plan.Update, Live: &unstructured.Unstructured{}}, true, []Drift{}},
		"edited while it is held":           {changed(plan.Hold, plan.ReasonMaxDisruptedNodes), false, open},
		"edited while it waits":             {changed(plan.Wait, plan.ReasonFrozen), false, open},
		"edited, and refused":               {changed(plan.Refuse, plan.ReasonInvalid), false, open},
		"edited, and not written":           {changed(plan.Update, plan.ReasonDiffers), false, open},
		"edited, and written":               {changed(plan.Update, plan.ReasonDiffers), true, fixed},
		"edited by hand before it is ours":  {unowned, false, []Drift{}},
		"of another NodeSync":               {others, true, []Drift{}},
		"awaits another NodeSync":           {awaited, false, []Drift{}},
		"edited, and its class is awaited":  {with(edited, plan.Wait), false, []Drift{{Ref: general, What: "spec.weight: absent → 7; spec.limits.cpu: 100 → 200", By: []string{"kubectl-edit"}}}},
		"deleted, and its class is awaited": {plan.Change{Ref: general, Deleted: true, Action: plan.Wait}, false, []Drift{{Ref: general, What: "deleted"}}},
		"new in Git":                        {plan.Change{Ref: general, Action: plan.Create}, true, []Drift{}},
		"held":                              {plan.Change{Ref: general, Action: plan.Hold, Live: &unstructured.Unstructured{}, Fields: edited.Fields}, false, []Drift{}},
		"taken back from a drain":           {plan.Change{Ref: general, Drift: true, Action: plan.TakeBack, Reason: plan.ReasonReturned, Live: &unstructured.Unstructured{}, Fields: edited.Fields}, true, []Drift{}},
		"and edited meanwhile":              {plan.Change{Ref: general, Drift: true, Action: plan.TakeBack, Reason: plan.ReasonReturned, Live: &unstructured.Unstructured{}, Editors: edited.Editors, Fields: edited.Fields[:1]}, true, []Drift{{Ref: general, What: "spec.weight: absent → 7", By: edited.Editors, Corrected: true}}},
		"only the fields' owner":            {plan.Change{Ref: general, Drift: true, Action: plan.Update, Reason: plan.ReasonOwnership, Live: &unstructured.Unstructured{}}, true, []Drift{}},
	} {
		var written []apply.Written
		if c.written {
			written = []apply.Written{{Ref: general}}
		}
		if diff := cmp.Diff(c.want, DriftsOf(&plan.Plan{NodeSync: "plumbline-system/prod", Changes: []plan.Change{c.change}}, written)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestDriftIsKeptForADay shows that what differs keeps its first time from one reconcile to the next, and that what was
// corrected is named for 24 hours.
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
		update, _ := s.reportDrift(report.Update{})
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

// TestManyCorrectedEdits: they do not cut off an object that still differs.
func TestManyCorrectedEdits(t *testing.T) {
	sync := &v1alpha1.NodeSync{}
	s := &Step{Sync: sync, Before: sync.DeepCopy(), Began: time.Unix(1, 0)}
	for i := range maxDrift {
		s.Drifts = append(s.Drifts, Drift{Ref: render.Ref{Kind: render.NodePool, Name: fmt.Sprint("corrected-", i)}, What: "spec.weight: 1 → 7", Corrected: true})
	}
	s.Drifts = append(s.Drifts, Drift{Ref: general, What: "spec.weight: 1 → 7"})
	s.noteDrift()
	if update, _ := s.reportDrift(report.Update{}); update.State != report.Failure || len(sync.Status.Drift) != maxDrift {
		t.Errorf("%s: %s, with %d objects", update.State, update.Description, len(sync.Status.Drift))
	}
}

// TestNodesThatDriftByNoCommitAreDrift, and those of a commit's rollout are not.
func TestNodesThatDriftByNoCommitAreDrift(t *testing.T) {
	for revision, want := range map[string]report.State{"": report.Failure, "main@sha1:a": report.Success} {
		sync := &v1alpha1.NodeSync{}
		sync.Status.Rollout = &v1alpha1.Rollout{Revision: revision, Nodes: 1, Outdated: 1, Since: metav1.Now()}
		s := &Step{Sync: sync, Before: sync, Found: Found{Drifts: []Drift{}}}
		if update, said := s.reportDrift(report.Update{}); !said || update.State != want || update.Subject != report.SubjectDrift {
			t.Errorf("%q: %+v", revision, update)
		}
		sync.Status.PoolRollouts = []v1alpha1.PoolRollout{{Pool: "a", Reason: v1alpha1.BrakeUnexpectedDrift, Message: "its nodes are outdated"}, {Pool: "b"}}
		if update, _ := s.reportDrift(report.Update{}); update.State != report.Failure || revision != "" && update.Description != "NodePool/a: its nodes are outdated" {
			t.Errorf("%q, and a pool is stopped: %+v", revision, update)
		}
	}
}

// TestAppliedIsSaidOfWhatIsApplied shows this whatever the nodes do, and only if everything is applied, including
// charts and removals.
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
		if update, said := s.reportApplied(report.Update{State: c.state}, s.Verdict()); !said || update.State != c.want || update.Subject != report.SubjectApplied {
			t.Errorf("%s: %t %+v", name, said, update)
		}
	}
}

// TestNodeDriftNamesItsInputs shows that the status on a commit names what has outdated nodes, if not the commit's
// changes.
func TestNodeDriftNamesItsInputs(t *testing.T) {
	sync := &v1alpha1.NodeSync{}
	sync.Status.Rollout = &v1alpha1.Rollout{Nodes: 3, Outdated: 3, Reasons: []string{"AMIDrift", "NodePoolDrifted"}, Inputs: []v1alpha1.DriftInput{
		{Pool: "a", Reason: "AMIDrift", From: "ami-1", To: "ami-2 (al2023@latest)"}, {Pool: "b", Reason: "AMIDrift", From: "ami-1", To: "ami-2 (al2023@latest)"},
	}}
	s := &Step{Sync: sync, Before: sync.DeepCopy(), Found: Found{Drifts: []Drift{}}}
	update, _ := s.reportDrift(report.Update{})
	if want := "nodes are outdated by no commit of this NodeSync: AMIDrift: ami-1 → ami-2 (al2023@latest); NodePoolDrifted"; update.Description != want || update.State != report.Failure {
		t.Errorf("%s: %s", update.State, update.Description)
	}

	// During the rollout of a commit, only the pools that it has not outdated are named.
	sync.Status.Rollout.Revision, sync.Status.Rollout.Inputs = "main@sha1:2", sync.Status.Rollout.Inputs[:1]
	update, _ = s.reportDrift(report.Update{})
	if want := "nodes are outdated by no commit of this NodeSync: NodePool/a: AMIDrift: ami-1 → ami-2 (al2023@latest)"; update.Description != want || update.State != report.Failure {
		t.Errorf("%s: %s", update.State, update.Description)
	}
	sync.Status.Rollout.Inputs = nil
	if update, _ = s.reportDrift(report.Update{}); update.State != report.Success {
		t.Errorf("of a commit only: %s: %s", update.State, update.Description)
	}
}

// TestInstancesThatDiffer are in the status with since when, in a condition with an event when they change, and in the
// commit status about drift; no longer once none differs, or comparisons are turned off.
func TestInstancesThatDiffer(t *testing.T) {
	one := v1alpha1.DriftedInstance{ID: "i-1", NodeClaim: "general-1", Pool: "general", Message: "tag team is missing"}
	other := v1alpha1.DriftedInstance{ID: "i-2", Pool: "general", Message: "no NodeClaim has it"}
	const denied = "AWS denies ec2:DescribeInstances"
	old := metav1.NewTime(time.Unix(500, 0))
	before := one
	before.Since = old
	known := &v1alpha1.InstanceDrift{Count: 1, Instances: []v1alpha1.DriftedInstance{before}}
	const uncompared = "instances not compared with EC2 since 1970-01-01T00:08:20Z: " + denied
	for name, tc := range map[string]struct {
		before, found *v1alpha1.InstanceDrift
		drifts        []Drift
		// since are those of the status, by ID.
		since  map[string]int64
		says   string
		state  report.State
		events int
	}{
		"none":                      {nil, &v1alpha1.InstanceDrift{}, []Drift{}, map[string]int64{}, "no drift", report.Success, 0},
		"one":                       {nil, &v1alpha1.InstanceDrift{Count: 1, Instances: []v1alpha1.DriftedInstance{one}}, []Drift{}, map[string]int64{"i-1": 1000}, "1 instance differs: i-1 of general: tag team is missing", report.Failure, 1},
		"one more":                  {known, &v1alpha1.InstanceDrift{Count: 2, Instances: []v1alpha1.DriftedInstance{one, other}}, []Drift{}, map[string]int64{"i-1": 500, "i-2": 1000}, "2 instances differ: i-1 of general: tag team is missing; i-2 of general: no NodeClaim has it", report.Failure, 1},
		"it is mended":              {known, &v1alpha1.InstanceDrift{}, []Drift{}, map[string]int64{}, "no drift", report.Success, 0},
		"unknown yet":               {known, nil, []Drift{}, map[string]int64{"i-1": 500}, "1 instance differs: i-1 of general: tag team is missing", report.Failure, 0},
		"one, and not all is known": {nil, &v1alpha1.InstanceDrift{Count: 1, Instances: []v1alpha1.DriftedInstance{one}, Failure: denied}, []Drift{}, map[string]int64{"i-1": 1000}, "1 instance differs: i-1 of general: tag team is missing; instances not compared in full: " + denied, report.Failure, 1},
		"a part is unavailable":     {known, &v1alpha1.InstanceDrift{Failure: denied}, []Drift{}, map[string]int64{}, "no drift; instances not compared in full: " + denied, report.Success, 0},
		"they are unavailable":      {nil, &v1alpha1.InstanceDrift{Failure: denied, NotComparedSince: &old}, []Drift{}, map[string]int64{}, uncompared + "; otherwise no drift", report.Pending, 1},
		"still unavailable":         {&v1alpha1.InstanceDrift{Failure: denied, NotComparedSince: &old}, nil, []Drift{}, map[string]int64{}, uncompared + "; otherwise no drift", report.Pending, 0},
		"compared again":            {&v1alpha1.InstanceDrift{Failure: denied, NotComparedSince: &old}, &v1alpha1.InstanceDrift{}, []Drift{}, map[string]int64{}, "no drift", report.Success, 0},
		"one, and then unavailable": {known, &v1alpha1.InstanceDrift{Count: 1, Instances: []v1alpha1.DriftedInstance{one}, Failure: denied, NotComparedSince: &old}, []Drift{}, map[string]int64{"i-1": 500}, "1 instance differs: i-1 of general: tag team is missing; " + uncompared, report.Failure, 1},
	} {
		t.Run(name, func(t *testing.T) {
			sync := &v1alpha1.NodeSync{}
			if sync.Status.Instances = tc.before; tc.before != nil {
				(&Step{Sync: sync, Before: &v1alpha1.NodeSync{}}).setInstanceDrift()
			}
			s := &Step{Sync: sync.DeepCopy(), Before: sync, Began: time.Unix(1000, 0)}
			s.Instances, s.Drifts = tc.found, tc.drifts
			s.Now = func() time.Time { return s.Began }
			s.noteInstances()
			s.setInstanceDrift()
			since := map[string]int64{}
			if drift := s.Sync.Status.Instances; drift != nil {
				for _, i := range drift.Instances {
					since[i.ID] = i.Since.Unix()
				}
			}
			if diff := cmp.Diff(tc.since, since); diff != "" {
				t.Errorf("since (-want +got):\n%s", diff)
			}
			u, said := s.reportDrift(report.Update{})
			if !said || u.Description != tc.says || u.State != tc.state {
				t.Errorf("said %t: %s %q", said, u.State, u.Description)
			}
			drift := s.Sync.Status.Instances
			differs := drift != nil && drift.Count > 0
			if got := conditions.IsTrue(s.Sync, v1alpha1.InstanceDriftCondition); got != differs {
				t.Errorf("condition %t", got)
			}
			if got := conditions.IsUnknown(s.Sync, v1alpha1.InstanceDriftCondition) && conditions.Has(s.Sync, v1alpha1.InstanceDriftCondition); got != (!differs && !drift.Compared()) {
				t.Errorf("condition unknown: %t", got)
			}
			if len(s.Notes) != tc.events {
				t.Errorf("events: %v", s.Notes)
			}
		})
	}
}

// TestTerminationsThatAreStalled are in the status, a condition with an event when they change, and the drift status of
// the commit, until they are over; a reconcile that did not check keeps them without the command.
func TestTerminationsThatAreStalled(t *testing.T) {
	one := v1alpha1.Termination{
		Kind: "NodeClaim", Name: "general-1", Node: "ip-1", Pool: "general", Since: metav1.NewTime(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)),
		Message: "waits for PodDisruptionBudget shop/web", BreakGlass: &v1alpha1.BreakGlass{Command: "kubectl …"},
	}
	const words = "1 node is terminating for longer than expected: NodeClaim/general-1 (node ip-1) since 2026-01-01T12:00:00Z: waits for PodDisruptionBudget shop/web"
	var many []v1alpha1.Termination
	for range 30 {
		many = append(many, one)
	}
	for name, tc := range map[string]struct {
		before, found []v1alpha1.Termination
		count         int32
		says          string
		events        int
	}{
		"none":             {nil, []v1alpha1.Termination{}, 0, "", 0},
		"one":              {nil, []v1alpha1.Termination{one}, 1, words, 1},
		"still":            {[]v1alpha1.Termination{one}, []v1alpha1.Termination{one}, 1, words, 0},
		"not looked at":    {[]v1alpha1.Termination{one}, nil, 1, words, 0},
		"it is over":       {[]v1alpha1.Termination{one}, []v1alpha1.Termination{}, 0, "", 0},
		"more than twenty": {nil, many, 30, "30 nodes are terminating for longer than expected: ", 1},
	} {
		t.Run(name, func(t *testing.T) {
			sync := &v1alpha1.NodeSync{}
			sync.Status.Terminations, sync.Status.StalledTerminations = tc.before, int32(len(tc.before))
			(&Step{Sync: sync, Before: &v1alpha1.NodeSync{}}).setTerminationStalled()
			s := &Step{Sync: sync.DeepCopy(), Before: sync, Began: time.Unix(1000, 0)}
			s.Terminations, s.Drifts = tc.found, []Drift{}
			s.Now = func() time.Time { return s.Began }
			s.noteTerminations()
			s.setTerminationStalled()
			status := s.Sync.Status
			if status.StalledTerminations != tc.count || len(status.Terminations) != min(int(tc.count), maxTerminations) {
				t.Errorf("%d, of which %d are named", status.StalledTerminations, len(status.Terminations))
			}
			if got := conditions.GetMessage(s.Sync, v1alpha1.TerminationStalledCondition); !strings.HasPrefix(got, tc.says) || (got == "") != (tc.says == "") {
				t.Errorf("got  %q\nwant %q", got, tc.says)
			}
			if tc.count > 0 && (status.Terminations[0].BreakGlass == nil) != (tc.found == nil) {
				t.Errorf("the command: %+v", status.Terminations[0].BreakGlass)
			}
			if len(s.Notes) != tc.events {
				t.Errorf("events: %+v", s.Notes)
			}
			update, _ := s.reportDrift(report.Update{})
			want := report.Success
			if tc.count > 0 {
				want = report.Failure
			}
			if update.State != want || tc.count == 1 && update.Description != words {
				t.Errorf("drift: %s: %s", update.State, update.Description)
			}
		})
	}
}

// TestTerminationsWhileAllNodesAreRemoved are reported by the removals.
func TestTerminationsWhileAllNodesAreRemoved(t *testing.T) {
	sync := &v1alpha1.NodeSync{Spec: v1alpha1.NodeSyncSpec{Drain: true}}
	sync.Status.Terminations, sync.Status.StalledTerminations = []v1alpha1.Termination{{Kind: "NodeClaim", Name: "general-1"}}, 1
	s := &Step{Sync: sync, Before: sync.DeepCopy()}
	s.noteTerminations()
	if len(sync.Status.Terminations) != 0 || sync.Status.StalledTerminations != 0 {
		t.Errorf("%+v", sync.Status.Terminations)
	}
}
