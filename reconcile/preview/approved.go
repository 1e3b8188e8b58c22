package preview

import (
	"github.com/plumbline-dev/plumbline/reconcile/approval"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

// weighApprovals finds out whether the commit approves itself what it is held for.
func (s *Step) weighApprovals() {
	p := s.out.Plan
	if s.out.ApprovesInGit = approval.FromGit(s.Sync.Spec.Guard); p == nil || p.Approvable == nil || s.out.Karpenter == nil {
		return
	}
	held := approval.Publish(s.Sync.Status.Held, p.Approvable, s.Sync.GetNeededApprovals())
	s.out.ApprovedInGit = len(p.Approvable.Entries) == holds(p) && approval.InGit(held, s.Sync.Spec.Guard, s.out.Karpenter.Approve, s.Sync.Status.UsedGitApprovals, s.Snapshot.Revision)
}

// holds is how much of a Plan is held, for whatever reason.
func holds(p *plan.Plan) (n int) {
	for i := range p.Changes {
		if p.Changes[i].Action == plan.Hold {
			n++
		}
	}
	for i := range p.Removals {
		if p.Removals[i].Held {
			n++
		}
	}
	return n
}
