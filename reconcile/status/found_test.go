package status

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/pkg/runtime/conditions"
	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/deletion"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/report"
	"github.com/plumbline-dev/plumbline/reconcile/rollout"
	"github.com/plumbline-dev/plumbline/render"
)

// TestLaunchesAreRecalledAfterARestart shows that a pool that was reported to get no nodes is not a success after a
// restart, until Karpenter has had the time to try again, or there is a node.
func TestLaunchesAreRecalledAfterARestart(t *testing.T) {
	at := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	said := []rollout.LaunchFailure{{Pool: "a", Why: "no capacity; in no zone"}, {Pool: "b", Why: "no subnet"}}
	for name, c := range map[string]struct {
		found Found
		after time.Duration
		said  []rollout.LaunchFailure
		left  []string
		want  []rollout.LaunchFailure
	}{
		"at the start":           {found: Found{Looked: true}, said: said, want: said},
		"minutes later":          {found: Found{Looked: true}, after: cluster.FailedLaunchLasts - time.Second, said: said, want: said},
		"when it would be known": {found: Found{Looked: true}, after: cluster.FailedLaunchLasts, said: said},
		"it is not known":        {after: time.Hour, said: said, want: said},
		"one has a node":         {found: Found{Looked: true, Missing: map[string]rollout.Shortage{"b": {}}}, said: said, want: said[1:]},
		"one has left Git":       {found: Found{Looked: true}, said: said, left: []string{"a"}, want: said[1:]},
		"one fails for another":  {found: Found{Looked: true, LaunchFailures: []rollout.LaunchFailure{{Pool: "b", Why: "else"}}}, said: said, want: []rollout.LaunchFailure{said[0], {Pool: "b", Why: "else"}}},
		"the pass has failed":    {found: Found{Fault: &fault.Error{}}, said: said},
		"none was said":          {found: Found{Looked: true}},
	} {
		t.Run(name, func(t *testing.T) {
			before := &v1alpha1.NodeSync{}
			for _, l := range c.said {
				before.Status.LaunchFailing = append(before.Status.LaunchFailing, v1alpha1.LaunchFailure{Pool: l.Pool, Message: l.Why})
			}
			s := &Step{Sync: before.DeepCopy(), Before: before, Memory: &Memory{began: at}, Began: at.Add(c.after), Found: c.found, Set: &render.Set{}}
			for _, pool := range []string{"a", "b"} {
				if len(c.left) == 0 || c.left[0] != pool {
					s.Set.Objects = append(s.Set.Objects, render.Object{Ref: render.Ref{Kind: render.NodePool, Name: pool}})
				}
			}
			if s.Missing == nil {
				s.Missing = map[string]rollout.Shortage{"a": {Replicas: 2}, "b": {}}
			}
			s.recallLaunches()
			if diff := cmp.Diff(c.want, s.LaunchFailures); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if got := s.foundVerdict().CommitState(); got != report.Success != (c.want != nil) {
				t.Errorf("the commit is %s", got)
			}
			s.setLaunchFailing()
			if said := conditions.GetMessage(s.Sync, v1alpha1.LaunchFailingCondition); c.want != nil && s.Looked && !strings.HasPrefix(said, "NodePool/"+c.want[0].Pool+" gets no nodes: "+c.want[0].Why) {
				t.Errorf("condition %q", said)
			}
		})
	}
}

// TestEveryPoolThatGetsNoNodesIsRecalled shows this for pools that do not fit into the condition, with the reported
// message.
func TestEveryPoolThatGetsNoNodesIsRecalled(t *testing.T) {
	at := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	var many []rollout.LaunchFailure
	set, missing := &render.Set{}, map[string]rollout.Shortage{}
	for _, name := range strings.Split("abcdefgh", "") {
		many = append(many, rollout.LaunchFailure{Pool: name, Why: "LaunchFailed: no capacity; NodePool/x gets no nodes: retried, " + strings.Repeat("long ", 300)})
		set.Objects = append(set.Objects, render.Object{Ref: render.Ref{Kind: render.NodePool, Name: name}})
		missing[name] = rollout.Shortage{}
	}
	first := &Step{Sync: &v1alpha1.NodeSync{}, Before: &v1alpha1.NodeSync{}, Memory: &Memory{}, Began: at, Set: set, Found: Found{Looked: true, LaunchFailures: many, Missing: missing}}
	first.recallLaunches()
	first.setLaunchFailing()
	restarted := &Step{Sync: first.Sync.DeepCopy(), Before: first.Sync, Memory: &Memory{}, Began: at, Set: set, Found: Found{Looked: true, Missing: missing}}
	restarted.recallLaunches()
	restarted.setLaunchFailing()
	if len(restarted.LaunchFailures) != len(many) {
		t.Errorf("recalled %v", restarted.LaunchFailures)
	}
	if diff := cmp.Diff(first.Sync.Status, restarted.Sync.Status); diff != "" || len(restarted.Notes) != 0 {
		t.Errorf("events %v, status (-first +restarted):\n%s", restarted.Notes, diff)
	}
}

// TestDeletionUnguarded shows that the condition lasts as long as the problem, that an event reports the end, and that
// a reconcile that did not check changes nothing.
func TestDeletionUnguarded(t *testing.T) {
	missing := deletion.Answer{Looked: true, Known: true, Missing: []string{"the binding is missing"}}
	altered := deletion.Answer{Looked: true, Known: true, Altered: []string{"the policy was altered: spec.validations"}}
	sync := &v1alpha1.NodeSync{}
	for i, c := range []struct {
		guard  deletion.Answer
		status string
		event  string
	}{
		{guard: deletion.Answer{Looked: true, Known: true}},
		{guard: missing, status: "True DeletionGuardMissing", event: "DeletionGuardMissing"},
		{guard: missing, status: "True DeletionGuardMissing"},
		{guard: deletion.Answer{}, status: "True DeletionGuardMissing"},
		{guard: altered, status: "True DeletionGuardAltered", event: "DeletionGuardAltered"},
		{guard: deletion.Answer{Looked: true, Known: true}, event: "DeletionGuardRestored"},
		{guard: deletion.Answer{Looked: true, Unread: "forbidden"}, status: "Unknown DeletionGuardUnknown", event: "DeletionGuardUnknown"},
		{guard: deletion.Answer{Looked: true, Known: true, Denied: []string{"a policy"}}, status: "Unknown DeletionGuardUnknown", event: "DeletionGuardUnknown"},
		{guard: deletion.Answer{Looked: true, Known: true}},
	} {
		s := &Step{Found: Found{Guard: c.guard}, Sync: sync, Before: sync.DeepCopy()}
		s.setDeletionUnguarded()
		status, event := "", ""
		if found := conditions.Get(sync, v1alpha1.DeletionUnguardedCondition); found != nil {
			status = string(found.Status) + " " + found.Reason
		}
		for _, n := range s.Notes {
			event += n.Reason
		}
		if status != c.status || event != c.event {
			t.Errorf("look %d: condition %q, event %q; want %q and %q", i+1, status, event, c.status, c.event)
		}
	}
}

// TestKarpenterDenied shows that the condition lasts as long as the policy denies Karpenter's controller, and that a
// reconcile that did not check changes nothing.
func TestKarpenterDenied(t *testing.T) {
	denied := deletion.Denial{Looked: true, Accounts: []string{"system:serviceaccount:karpenter:blue"}}
	sync := &v1alpha1.NodeSync{}
	for i, c := range []struct {
		denial        deletion.Denial
		status, event string
	}{
		{denial: deletion.Denial{Looked: true}},
		{denial: denied, status: "True FinalizerDenied", event: "FinalizerDenied"},
		{denial: denied, status: "True FinalizerDenied"},
		{denial: deletion.Denial{}, status: "True FinalizerDenied"},
		{denial: deletion.Denial{Looked: true, Unknown: "forbidden"}, status: "Unknown FinalizerUnknown", event: "FinalizerUnknown"},
		{denial: deletion.Denial{Looked: true}},
	} {
		s := &Step{Found: Found{Denial: c.denial}, Sync: sync, Before: sync.DeepCopy()}
		s.setKarpenterDenied()
		status, event := "", ""
		if found := conditions.Get(sync, v1alpha1.KarpenterDeniedCondition); found != nil {
			status = string(found.Status) + " " + found.Reason
		}
		for _, n := range s.Notes {
			event += n.Reason
		}
		if status != c.status || event != c.event {
			t.Errorf("look %d: condition %q, event %q; want %q and %q", i+1, status, event, c.status, c.event)
		}
	}
}

// TestKarpenterUnsupported shows a warning while the version is out of support, and a note in the last weeks of its
// support, each in one event; the note is no problem.
func TestKarpenterUnsupported(t *testing.T) {
	soon, ended := &Support{Message: "support ends on 2027-02-06"}, &Support{Ended: true, Message: "out of support since 2027-02-06"}
	sync := &v1alpha1.NodeSync{}
	for i, c := range []struct {
		support       *Support
		status, event string
	}{
		{},
		{support: soon, status: "False SupportEnds: support ends on 2027-02-06", event: "Normal SupportEnds"},
		{support: soon, status: "False SupportEnds: support ends on 2027-02-06"},
		{support: ended, status: "True SupportEnded: out of support since 2027-02-06", event: "Warning SupportEnded"},
		{support: ended, status: "True SupportEnded: out of support since 2027-02-06"},
		{},
	} {
		s := &Step{Found: Found{Support: c.support}, Sync: sync, Before: sync.DeepCopy()}
		s.setKarpenterUnsupported()
		status, event := "", ""
		if found := conditions.Get(sync, v1alpha1.KarpenterUnsupportedCondition); found != nil {
			status = string(found.Status) + " " + found.Reason + ": " + found.Message
		}
		for _, n := range s.Notes {
			event += n.Type + " " + n.Reason
		}
		if status != c.status || event != c.event {
			t.Errorf("reconcile %d: condition %q, event %q; want %q and %q", i+1, status, event, c.status, c.event)
		}
	}
}

// TestChartsUnguarded shows that the condition lasts as long as a policy that limits the daemon is missing or altered.
func TestChartsUnguarded(t *testing.T) {
	sync := &v1alpha1.NodeSync{}
	for i, c := range []struct {
		guard  deletion.Answer
		status string
	}{
		{guard: deletion.Answer{Looked: true, Known: true, Missing: []string{"another policy is missing"}}},
		{guard: deletion.Answer{Looked: true, Known: true, ChartsMissing: []string{"a policy is missing"}}, status: "True ChartPoliciesMissing"},
		{guard: deletion.Answer{}, status: "True ChartPoliciesMissing"},
		{guard: deletion.Answer{Looked: true, Known: true, ChartsAltered: []string{"a policy was altered"}}, status: "True ChartPoliciesAltered"},
		{guard: deletion.Answer{Looked: true, Unread: "forbidden"}, status: "Unknown ChartPoliciesUnknown"},
		{guard: deletion.Answer{Looked: true, Known: true, ChartsDenied: []string{"a policy"}}, status: "Unknown ChartPoliciesUnknown"},
		{guard: deletion.Answer{Looked: true, Known: true}},
	} {
		s := &Step{Found: Found{Guard: c.guard}, Sync: sync, Before: sync.DeepCopy()}
		s.setChartsUnguarded()
		status := ""
		if found := conditions.Get(sync, v1alpha1.ChartsUnguardedCondition); found != nil {
			status = string(found.Status) + " " + found.Reason
		}
		if status != c.status {
			t.Errorf("look %d: condition %q, want %q", i+1, status, c.status)
		}
	}
}

// TestARescueIsReported in a condition, with an event when it starts, and in the commit status; a reconcile without a
// Set changes nothing.
func TestARescueIsReported(t *testing.T) {
	pool := func(name string) render.Ref { return render.Ref{Kind: render.NodePool, Name: name} }
	rescue := render.Rescue{
		Class: render.Ref{Kind: render.EC2NodeClass, Name: "default"}, By: render.Ref{Kind: render.EC2NodeClass, Name: "default-rescued"},
		Pools: []render.Ref{pool("a"), pool("b")}, Origins: []render.Origin{{File: "class.yaml", Line: 1}, {File: "a.yaml", Line: 1}, {File: "b.yaml", Line: 1}},
	}
	rescued := &render.Set{Rescues: []render.Rescue{rescue}}
	sync := &v1alpha1.NodeSync{}
	for i, c := range []struct {
		set       *render.Set
		condition bool
		event     string
		status    string
	}{
		{set: &render.Set{}, status: "applied, Ready, no removal open, each node matches"},
		{set: rescued, condition: true, event: "NodeClassDeleted", status: "applied; EC2NodeClass/default was deleted: have Git name default-rescued for NodePool/a and 1 more"},
		{set: rescued, condition: true, status: "applied; EC2NodeClass/default was deleted: have Git name default-rescued for NodePool/a and 1 more"},
		{condition: true, status: "applied, Ready, no removal open, each node matches"},
		{set: &render.Set{}, status: "applied, Ready, no removal open, each node matches"},
	} {
		s := &Step{Sync: sync, Before: sync.DeepCopy(), Set: c.set}
		s.setNodeClassRescued()
		event := ""
		for _, n := range s.Notes {
			event += n.Reason
		}
		found := conditions.Get(sync, v1alpha1.NodeClassRescuedCondition)
		if (found != nil) != c.condition || event != c.event {
			t.Errorf("look %d: condition %v, event %q", i+1, found, event)
		}
		if found != nil && !strings.Contains(found.Message, "rename the class to default-rescued (class.yaml:1)") {
			t.Errorf("look %d: %s", i+1, found.Message)
		}
		if v := s.doneVerdict(); v.CommitText() != c.status || v.Class != Done {
			t.Errorf("look %d: %d, %s", i+1, v.Class, v.CommitText())
		}
	}
}

// TestOrphansAreReported while they have nodes.
func TestOrphansAreReported(t *testing.T) {
	sync := &v1alpha1.NodeSync{}
	for i, c := range []struct {
		planned  bool
		orphaned []plan.OrphanedPool
		nodes    int32
		says     string
		event    string
	}{
		{planned: true},
		{planned: true, orphaned: []plan.OrphanedPool{{Name: "a", Nodes: 2}}, nodes: 2, event: "Orphaned", says: "NodePool/a was orphaned with nodes, and no NodeSync manages it: add it to Git again, or delete it with kubectl"},
		{planned: true, orphaned: []plan.OrphanedPool{{Name: "a", Nodes: 3}}, nodes: 3, says: "NodePool/a was orphaned"},
		{nodes: 3, says: "NodePool/a was orphaned"},
		{planned: true, orphaned: []plan.OrphanedPool{{Name: "a", Nodes: 1}, {Name: "b", Nodes: 1}}, nodes: 2, event: "Orphaned", says: "NodePool/a, NodePool/b were orphaned with nodes, and no NodeSync manages them"},
		{planned: true},
	} {
		s := &Step{Sync: sync, Before: sync.DeepCopy(), Found: Found{Planned: c.planned, Orphaned: c.orphaned}}
		s.setOrphaned()
		event := ""
		for _, n := range s.Notes {
			event += n.Reason
		}
		message := conditions.GetMessage(sync, v1alpha1.OrphanedCondition)
		if sync.Status.OrphanedNodes != c.nodes || event != c.event || !strings.Contains(message, c.says) || c.says == "" && message != "" {
			t.Errorf("look %d: %d nodes, event %q: %s", i+1, sync.Status.OrphanedNodes, event, message)
		}
	}
}

// TestAutoModeIsACondition without an event, for as long as the cluster has it.
func TestAutoModeIsACondition(t *testing.T) {
	sync := &v1alpha1.NodeSync{}
	for _, c := range []struct {
		found  Found
		status string
	}{
		{Found{AutoMode: "AWS manages NodePool/system", SawAutoMode: true}, "True BesideAutoMode AWS manages NodePool/system"},
		{Found{}, "True BesideAutoMode AWS manages NodePool/system"},
		{Found{SawAutoMode: true}, ""},
	} {
		s := &Step{Found: c.found, Sync: sync, Before: sync.DeepCopy()}
		s.setAutoMode()
		got := ""
		if is := conditions.Get(sync, v1alpha1.AutoModeCondition); is != nil {
			got = fmt.Sprintf("%s %s %s", is.Status, is.Reason, is.Message)
		}
		if got != c.status || len(s.Notes) > 0 {
			t.Errorf("%q, events %v; want %q", got, s.Notes, c.status)
		}
	}
}

// TestAKnownDefectIsACondition while Karpenter runs in that version, with one event. A reconcile that did not check it
// keeps what was reported.
func TestAKnownDefectIsACondition(t *testing.T) {
	sync := &v1alpha1.NodeSync{}
	for _, c := range []struct {
		found  Found
		status string
		events int
	}{
		{Found{Defects: "Karpenter 1.14.1 has a known defect", SawDefects: true}, "True KnownDefect Karpenter 1.14.1 has a known defect", 1},
		{Found{Defects: "Karpenter 1.14.1 has a known defect", SawDefects: true}, "True KnownDefect Karpenter 1.14.1 has a known defect", 0},
		{Found{}, "True KnownDefect Karpenter 1.14.1 has a known defect", 0},
		{Found{SawDefects: true}, "", 0},
	} {
		s := &Step{Found: c.found, Sync: sync, Before: sync.DeepCopy()}
		s.setKarpenterDefect()
		got := ""
		if is := conditions.Get(sync, v1alpha1.KarpenterDefectCondition); is != nil {
			got = fmt.Sprintf("%s %s %s", is.Status, is.Reason, is.Message)
		}
		if got != c.status || len(s.Notes) != c.events {
			t.Errorf("%q, events %v; want %q, %d", got, s.Notes, c.status, c.events)
		}
	}
}

// TestPreflight: a problem is reported with one event, and ends; what is unknown changes nothing.
func TestPreflight(t *testing.T) {
	sync := &v1alpha1.NodeSync{}
	for i, c := range []struct {
		problems      []string
		known         bool
		status, event string
	}{
		{},
		{known: true},
		{problems: []string{"a is missing", "b is missing"}, known: true, status: "True PreflightProblem: a is missing; b is missing", event: "Warning PreflightProblem"},
		{status: "True PreflightProblem: a is missing; b is missing"},
		{known: true},
	} {
		s := &Step{Found: Found{Preflight: c.problems, SawPreflight: c.known}, Sync: sync, Before: sync.DeepCopy()}
		s.setPreflight()
		status, event := "", ""
		if found := conditions.Get(sync, v1alpha1.PreflightCondition); found != nil {
			status = string(found.Status) + " " + found.Reason + ": " + found.Message
		}
		for _, n := range s.Notes {
			event += n.Type + " " + n.Reason
		}
		if status != c.status || event != c.event {
			t.Errorf("reconcile %d: condition %q, event %q; want %q and %q", i+1, status, event, c.status, c.event)
		}
	}
}
