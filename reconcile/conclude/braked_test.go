package conclude

import (
	"strings"
	"testing"

	"github.com/fluxcd/pkg/runtime/conditions"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/report"
)

// TestAStoppedRolloutIsSaid: the commit fails with the pool, what resumes it and the cause, and
// RolledOut has the same; what goes wrong in another way stays so.
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
		"all is well":      {pools: []v1alpha1.PoolRollout{{Pool: "general"}}, class: Done, want: report.Pending, text: "rolling out: 1 of 3 nodes match", reason: v1alpha1.ReasonRollingOut},
		"launches fail":    {pools: []v1alpha1.PoolRollout{failed}, class: Done, want: report.Failure, text: "rollout stopped until a revert or resume-rollout, in general: the nodes of 3 launches in a row", reason: v1alpha1.ReasonRolloutBraked},
		"while it waits":   {pools: []v1alpha1.PoolRollout{failed}, class: Working, want: report.Failure, text: "rollout stopped until a revert", reason: v1alpha1.ReasonRolloutBraked},
		"only reported":    {pools: []v1alpha1.PoolRollout{reported}, class: Done, want: report.Failure, text: "rollout fails in general: the nodes of 3 launches", reason: v1alpha1.ReasonRolloutFailing},
		"proposed":         {pools: []v1alpha1.PoolRollout{proposed}, class: Done, want: report.Failure, text: "rollout stopped until https://git.example.com/acme/fleet/pulls/7 is merged or resume-rollout, in general: ", reason: v1alpha1.ReasonRolloutBraked},
		"pushed to":        {pools: []v1alpha1.PoolRollout{changed}, class: Done, want: report.Failure, text: "rollout stopped until a revert or resume-rollout, in general: ", reason: v1alpha1.ReasonRolloutBraked, words: "; the branch of https://git.example.com/acme/fleet/pulls/7 has another commit than the revert that plumbline has made: read it before you merge it"},
		"merged already":   {pools: []v1alpha1.PoolRollout{merged}, class: Done, want: report.Failure, text: "rollout stopped until a revert or resume-rollout, in general: ", reason: v1alpha1.ReasonRolloutBraked, words: "; https://git.example.com/acme/fleet/pulls/7 was merged: if nothing resumes when that is applied, something else is to be corrected"},
		"not written":      {pools: []v1alpha1.PoolRollout{unwritten}, class: Done, want: report.Failure, text: "rollout stopped until a revert or resume-rollout, in general: denied by a policy", reason: v1alpha1.ReasonRolloutBraked},
		"a condition":      {pools: []v1alpha1.PoolRollout{held}, class: Done, want: report.Failure, text: "rollout held in batch: errors: the query has a result", reason: v1alpha1.ReasonRolloutBraked},
		"a freeze":         {pools: []v1alpha1.PoolRollout{frozen}, class: Done, want: report.Pending, text: "rolling out: 1 of 3 nodes match: no node is replaced before ten", reason: v1alpha1.ReasonRollingOut, words: ": no node is replaced before ten"},
		"frozen, it fails": {pools: []v1alpha1.PoolRollout{frozen, failed}, class: Done, want: report.Failure, text: "rollout stopped until a revert or resume-rollout, in general: the nodes of 3", reason: v1alpha1.ReasonRolloutBraked},
		"not frozen":       {pools: []v1alpha1.PoolRollout{unfrozen}, class: Done, want: report.Failure, text: "rollout fails in general: denied by a policy", reason: v1alpha1.ReasonRolloutFailing},
		"two, for two":     {pools: []v1alpha1.PoolRollout{held, failed}, class: Done, want: report.Failure, text: "rollout stopped until a revert or resume-rollout, in batch, general: ", reason: v1alpha1.ReasonRolloutBraked},
		"a worse reason":   {pools: []v1alpha1.PoolRollout{failed}, class: Stuck, want: report.Failure, text: "waiting", reason: v1alpha1.ReasonRolloutBraked},
		"nothing is known": {class: Done, want: report.Pending, text: "rolling out: 1 of 3 nodes match", reason: v1alpha1.ReasonRollingOut},
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
		})
	}
}
