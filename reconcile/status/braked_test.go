package status

import (
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/report"
	"github.com/plumbline-dev/plumbline/reconcile/rollout"
	"github.com/plumbline-dev/plumbline/reconcile/summary"
)

// TestAStoppedRolloutIsSaid shows that the commit fails with the pool, what resumes it and the cause, and that
// RolledOut has the same; other failures stay as they are.
func TestAStoppedRolloutIsSaid(t *testing.T) {
	at := metav1.Unix(5, 0)
	failed := v1alpha1.PoolRollout{Pool: "general", Reason: v1alpha1.BrakeFailedLaunches, Message: "the nodes of 3 launches in a row have not joined the cluster", BrakedAt: &at}
	reported, unwritten, held, proposed, changed, merged, frozen := failed, failed, failed, failed, failed, failed, failed
	frozen.Reason, frozen.Message = v1alpha1.BrakeFrozen, "no node is replaced before ten"
	unfrozen := frozen
	unfrozen.Failure = "denied by a policy"
	reported.BrakedAt = nil
	proposed.Proposal = &v1alpha1.RevertProposal{URL: "https://git.example.com/acme/fleet/pulls/7"}
	changed.Proposal = &v1alpha1.RevertProposal{URL: proposed.Proposal.URL, Changed: true}
	merged.Proposal = &v1alpha1.RevertProposal{URL: proposed.Proposal.URL, Merged: true}
	unwritten.Failure = "denied by a policy"
	held.Pool, held.Reason, held.Message = "batch", v1alpha1.BrakeHeldByCondition, "errors: the query has a result"
	for name, c := range map[string]struct {
		pools  []v1alpha1.PoolRollout
		class  State
		want   report.State
		text   string
		reason string
		words  string // what the condition ends with
	}{
		"all is well":      {pools: []v1alpha1.PoolRollout{{Pool: "general"}}, class: Done, want: report.Pending, text: "rolling out: 1 of 3 nodes replaced", reason: v1alpha1.ReasonRollingOut},
		"launches fail":    {pools: []v1alpha1.PoolRollout{failed}, class: Done, want: report.Failure, text: "rollout stopped until a revert or resume-rollout, in general: the nodes of 3 launches in a row", reason: v1alpha1.ReasonRolloutBraked},
		"while it waits":   {pools: []v1alpha1.PoolRollout{failed}, class: Working, want: report.Failure, text: "rollout stopped until a revert", reason: v1alpha1.ReasonRolloutBraked},
		"only reported":    {pools: []v1alpha1.PoolRollout{reported}, class: Done, want: report.Failure, text: "rollout fails in general: the nodes of 3 launches", reason: v1alpha1.ReasonRolloutFailing},
		"proposed":         {pools: []v1alpha1.PoolRollout{proposed}, class: Done, want: report.Failure, text: "rollout stopped until https://git.example.com/acme/fleet/pulls/7 is merged or resume-rollout, in general: ", reason: v1alpha1.ReasonRolloutBraked},
		"pushed to":        {pools: []v1alpha1.PoolRollout{changed}, class: Done, want: report.Failure, text: "rollout stopped until a revert or resume-rollout, in general: ", reason: v1alpha1.ReasonRolloutBraked, words: "; the branch of https://git.example.com/acme/fleet/pulls/7 has a commit other than the revert that plumbline created: review it before you merge it"},
		"merged already":   {pools: []v1alpha1.PoolRollout{merged}, class: Done, want: report.Failure, text: "rollout stopped until a revert or resume-rollout, in general: ", reason: v1alpha1.ReasonRolloutBraked, words: "; https://git.example.com/acme/fleet/pulls/7 was merged: if the rollout does not resume once it is applied, something else needs correction"},
		"not written":      {pools: []v1alpha1.PoolRollout{unwritten}, class: Done, want: report.Failure, text: "rollout stopped until a revert or resume-rollout, in general: denied by a policy", reason: v1alpha1.ReasonRolloutBraked},
		"a condition":      {pools: []v1alpha1.PoolRollout{held}, class: Done, want: report.Failure, text: "rollout held in batch: errors: the query has a result", reason: v1alpha1.ReasonRolloutBraked},
		"a freeze":         {pools: []v1alpha1.PoolRollout{frozen}, class: Done, want: report.Pending, text: "rolling out: 1 of 3 nodes replaced: no node is replaced before ten", reason: v1alpha1.ReasonRollingOut, words: ": no node is replaced before ten"},
		"frozen, it fails": {pools: []v1alpha1.PoolRollout{frozen, failed}, class: Done, want: report.Failure, text: "rollout stopped until a revert or resume-rollout, in general: the nodes of 3", reason: v1alpha1.ReasonRolloutBraked},
		"not frozen":       {pools: []v1alpha1.PoolRollout{unfrozen}, class: Done, want: report.Failure, text: "rollout fails in general: denied by a policy", reason: v1alpha1.ReasonRolloutFailing},
		"two, for two":     {pools: []v1alpha1.PoolRollout{held, failed}, class: Done, want: report.Failure, text: "rollout stopped until a revert or resume-rollout, in batch, general: ", reason: v1alpha1.ReasonRolloutBraked},
		"a worse reason":   {pools: []v1alpha1.PoolRollout{failed}, class: Stuck, want: report.Failure, text: "waiting", reason: v1alpha1.ReasonRolloutBraked},
		"nothing is known": {class: Done, want: report.Pending, text: "rolling out: 1 of 3 nodes replaced", reason: v1alpha1.ReasonRollingOut},
	} {
		t.Run(name, func(t *testing.T) {
			s := rolling(1, 0, v1alpha1.Rollout{Revision: "main@sha1:a", Nodes: 3, Outdated: 2})
			s.SawRollout, s.Sync.Status.PoolRollouts = true, c.pools
			v := s.withRollout(Verdict{Class: c.class, Message: "waiting"})
			if v.CommitState() != c.want || !strings.HasPrefix(v.CommitText(), c.text) {
				t.Errorf("%s %q", v.CommitState(), v.CommitText())
			}
			s.setRolledOut()
			if got := conditions.GetReason(s.Sync, v1alpha1.RolledOutCondition); got != c.reason || !strings.HasSuffix(conditions.GetMessage(s.Sync, v1alpha1.RolledOutCondition), c.words) {
				t.Errorf("RolledOut has the reason %s: %s", got, conditions.GetMessage(s.Sync, v1alpha1.RolledOutCondition))
			}
			if c.class != Done {
				return
			}
			conditions.MarkTrue(s.Sync, meta.ReadyCondition, v1alpha1.ReasonSucceeded, "applied")
			s.Sync.Status.LastAttemptedRevision, s.Sync.Status.LastAppliedRevision = "a", "a"
			if state := summary.StateOf(s.Sync); !state.OfNodes() || (state == summary.RollingOut) != (c.want == report.Pending) {
				t.Errorf("the commit status is %s, and plumbline status shows %s", c.want, state)
			}
		})
	}
}

// TestACommitUponAFailingRollout waits for the older one that has started it, which fails; if this commit has started
// any of them, or none has, it fails itself.
func TestACommitUponAFailingRollout(t *testing.T) {
	at := metav1.Unix(5, 0)
	of := func(pool, commit string) v1alpha1.PoolRollout {
		p := v1alpha1.PoolRollout{Pool: pool, Reason: v1alpha1.BrakeFailedLaunches, Message: "no node joins", BrakedAt: &at}
		if commit != "" {
			p.Revision = "main@sha1:" + commit
		}
		return p
	}
	const stopped = "rollout stopped until a revert or resume-rollout, in "
	for name, c := range map[string]struct {
		rollout string
		limit   time.Duration
		pools   []v1alpha1.PoolRollout
		want    string
		older   map[string]report.Word
	}{
		"its own":         {rollout: "a", pools: []v1alpha1.PoolRollout{of("x", "a")}, want: "failure " + stopped + "x: no node joins"},
		"an older one's":  {rollout: "a", pools: []v1alpha1.PoolRollout{of("x", "0123456789"), {Pool: "y", Revision: "main@sha1:a"}}, want: "pending waits for 0123456: " + stopped + "x: no node joins", older: map[string]report.Word{"0123456789": {State: report.Failure, Description: stopped + "x: no node joins"}}},
		"both":            {rollout: "a", pools: []v1alpha1.PoolRollout{of("x", "b"), of("y", "a")}, want: "failure " + stopped + "x, y: no node joins"},
		"of no commit":    {rollout: "a", pools: []v1alpha1.PoolRollout{of("x", "")}, want: "failure " + stopped + "x: no node joins"},
		"it took long":    {rollout: "a", limit: time.Second, want: "failure not rolled out within 1s: 1 of 3 nodes replaced"},
		"another's did":   {rollout: "b", limit: time.Second, want: "pending waits for b: not rolled out within 1s: 1 of 3 nodes replaced", older: map[string]report.Word{"b": {State: report.Failure, Description: "not rolled out within 1s: 1 of 3 nodes replaced"}}},
		"drift took long": {limit: time.Second, want: "failure not rolled out within 1s: 1 of 3 nodes replaced (outdated, not caused by a commit)"},
		"nothing fails":   {rollout: "b", want: "pending rolling out: 1 of 3 nodes replaced"},
	} {
		t.Run(name, func(t *testing.T) {
			r := v1alpha1.Rollout{Nodes: 3, Outdated: 2}
			if c.rollout != "" {
				r.Revision = "main@sha1:" + c.rollout
			}
			s := rolling(9, c.limit, r)
			s.SawRollout, s.Sync.Status.PoolRollouts = true, c.pools
			v := s.withRollout(Verdict{Class: Done})
			if got := string(v.CommitState()) + " " + v.CommitText(); got != c.want {
				t.Errorf("%s\nwant %s", got, c.want)
			}
			if older := s.ended(v); len(older)+len(c.older) > 0 && !cmp.Equal(older, c.older) {
				t.Errorf("older ones: %v, want %v", older, c.older)
			}
		})
	}
}

// TestMissingNodesHaveOneState shows that the commit status, the condition and the state in summaries agree on nodes
// that are missing because launches fail.
func TestMissingNodesHaveOneState(t *testing.T) {
	const short = "1 of 2 nodes of NodePool/web"
	began := metav1.Unix(5, 0)
	before := v1alpha1.LaunchFailure{Pool: "web", Message: "no capacity", Missing: short, Since: &began}
	for name, c := range map[string]struct {
		missing  map[string]rollout.Shortage
		lost     bool
		limit    time.Duration
		revision string
		want     report.State
		text     string
		state    summary.State
	}{
		"it has all of its nodes":              {want: report.Success, text: "applied; the newest launch of NodePool/web failed: no capacity", state: summary.InSync},
		"one is missing":                       {missing: map[string]rollout.Shortage{"web": {Ready: 1, Replicas: 2}}, want: report.Pending, text: "launch failing: " + short + ": no capacity", state: summary.LaunchFailing},
		"another pool's is missing":            {missing: map[string]rollout.Shortage{"idle": {}}, want: report.Success, text: "applied; the newest launch of NodePool/web failed: no capacity", state: summary.InSync},
		"for less than the timeout":            {missing: map[string]rollout.Shortage{"web": {Ready: 1, Replicas: 2}}, limit: 6 * time.Second, want: report.Pending, text: "launch failing: " + short + ": no capacity", state: summary.LaunchFailing},
		"for as long as the timeout":           {missing: map[string]rollout.Shortage{"web": {Ready: 1, Replicas: 2}}, limit: 5 * time.Second, want: report.Failure, text: "not rolled out within 5s: " + short + ": no capacity", state: summary.RolloutFailing},
		"one is lost by no commit":             {missing: map[string]rollout.Shortage{"web": {Ready: 1, Replicas: 2}}, lost: true, limit: 5 * time.Second, want: report.Success, text: "applied, Ready, no removal open, each node matches", state: summary.LaunchFailing},
		"another commit starts the time again": {missing: map[string]rollout.Shortage{"web": {Ready: 1, Replicas: 2}}, limit: 5 * time.Second, revision: "b", want: report.Pending, text: "launch failing: " + short + ": no capacity", state: summary.LaunchFailing},
	} {
		t.Run(name, func(t *testing.T) {
			sync := &v1alpha1.NodeSync{}
			sync.Status.LastAttemptedRevision, sync.Status.LastAppliedRevision = "a", "a"
			sync.Status.LaunchFailing = []v1alpha1.LaunchFailure{before}
			s := &Step{Sync: sync, Before: sync.DeepCopy(), Memory: &Memory{}, Began: time.Unix(10, 0)}
			s.SawRollout, s.Looked, s.Missing = true, true, c.missing
			s.LaunchFailures = []rollout.LaunchFailure{{Pool: "web", Why: "no capacity", Lost: c.lost}}
			if c.limit > 0 {
				sync.Spec.Rollout.Timeout = &metav1.Duration{Duration: c.limit}
			}
			if c.revision != "" {
				sync.Status.LastAttemptedRevision, sync.Status.LastAppliedRevision = c.revision, c.revision
			}
			v := s.Verdict()
			if v.CommitState() != c.want || v.CommitText() != c.text {
				t.Errorf("%s %q", v.CommitState(), v.CommitText())
			}
			s.wakeForRollout()
			if wakes := c.limit > 0 && c.want == report.Pending; wakes == s.WakeAt.IsZero() {
				t.Errorf("the next reconcile is at %v", s.WakeAt)
			}
			s.setConditions(v)
			s.Drifts = []Drift{}
			if u, _ := s.reportDrift(report.Update{}); (u.State == report.Failure) != c.lost || c.lost && u.Description != "nodes are missing by no commit of this NodeSync: "+short+": no capacity" {
				t.Errorf("the drift status is %s %q", u.State, u.Description)
			}
			if state := summary.StateOf(s.Sync); state != c.state {
				t.Errorf("the commit status is %s, and plumbline status shows %s", c.want, state)
			}
			if !conditions.IsTrue(s.Sync, meta.ReadyCondition) {
				t.Error("Ready depends on it")
			}
		})
	}
}
