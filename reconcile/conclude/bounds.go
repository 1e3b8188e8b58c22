package conclude

import (
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
)

// The longest messages in a status, in bytes. The API server takes 32,768 for a
// condition, and etcd 1.5 MB for the whole object, of which there may be hundreds of
// removals.
const (
	// MaxMessage is that of a condition.
	MaxMessage        = 8 << 10
	maxText           = 2 << 10
	maxRemovalMessage = 512
	// leastMessage is that of a record where the API server refuses longer ones.
	leastMessage = 128
	// maxEventMessage is what the API server takes for an event.
	maxEventMessage = 1024
)

// boundRemovals cuts the messages of removals, before anything sums them up. What
// identifies a removal is never cut: it is the record that it goes by.
func boundRemovals(removals []v1alpha1.Removal) {
	for i := range removals {
		removals[i].Message = finding.Bounded(removals[i].Message, maxRemovalMessage)
	}
}

// bound cuts what other programs, or a commit with very many mistakes, have made too
// long for a status. Conditions are cut before they are set: one whose message changes
// counts as new.
func bound(s *v1alpha1.NodeSyncStatus) {
	for i := range s.Stages {
		s.Stages[i].Message = finding.Bounded(s.Stages[i].Message, maxText)
	}
	for i := range s.Reported {
		s.Reported[i].Failure = finding.Bounded(s.Reported[i].Failure, maxRemovalMessage)
	}
	boundRollouts(s.PoolRollouts, maxRemovalMessage)
	if s.Waiting != nil {
		s.Waiting.Message = finding.Bounded(s.Waiting.Message, maxText)
	}
	if k := s.Karpenter; k != nil && k.Target != nil {
		k.Target.Message = finding.Bounded(k.Target.Message, maxText)
	}
}

// boundRollouts cuts the messages of stopped rollouts to so many bytes.
func boundRollouts(rollouts []v1alpha1.PoolRollout, most int) {
	for i := range rollouts {
		p := &rollouts[i]
		p.Message, p.Failure = finding.Bounded(p.Message, most), finding.Bounded(p.Failure, most)
		if p.Proposal != nil {
			p.Proposal.Message = finding.Bounded(p.Proposal.Message, most)
		}
	}
}
