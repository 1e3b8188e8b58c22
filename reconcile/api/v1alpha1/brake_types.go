package v1alpha1

// BrakeReason is why a rollout is stopped.
type BrakeReason string

// The reasons for which a rollout is stopped.
const (
	// BrakeFailedLaunches: the nodes of too many launches in a row did not register or initialize.
	BrakeFailedLaunches BrakeReason = "FailedLaunches"
	// BrakeUnexpectedDrift: its nodes are outdated by no commit.
	BrakeUnexpectedDrift BrakeReason = "UnexpectedDrift"
	// BrakeHeldByCondition: a condition of spec.rollout.holdWhile holds.
	BrakeHeldByCondition BrakeReason = "HeldByCondition"
	// BrakeFrozen: no node is replaced outside of spec.guard.windows, and in a freeze.
	BrakeFrozen BrakeReason = "Frozen"
)

// BrakedPools are the NodePools of which Karpenter is to replace no more nodes; not nil.
func (s *NodeSyncStatus) BrakedPools() map[string]bool {
	braked := map[string]bool{}
	for i := range s.PoolRollouts {
		if s.PoolRollouts[i].BrakedAt != nil {
			braked[s.PoolRollouts[i].Pool] = true
		}
	}
	return braked
}
