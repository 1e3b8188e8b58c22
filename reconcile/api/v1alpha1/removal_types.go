package v1alpha1

// RemovalPhase is how far a Removal has come.
//
// +kubebuilder:validation:Enum=Held;Pacing;Draining;VerifyingCloud;Finalizing;Gone
type RemovalPhase string

// The phases of a Removal, in order.
const (
	// RemovalHeld waits for a person's word.
	RemovalHeld RemovalPhase = "Held"
	// RemovalPacing is recorded and has ended nothing yet.
	RemovalPacing RemovalPhase = "Pacing"
	// RemovalDraining ends its NodeClaims, or waits for what refers to it.
	RemovalDraining RemovalPhase = "Draining"
	// RemovalVerifyingCloud asks EC2.
	RemovalVerifyingCloud RemovalPhase = "VerifyingCloud"
	// RemovalFinalizing has deleted the object and waits for it to vanish.
	RemovalFinalizing RemovalPhase = "Finalizing"
	// RemovalGone is the end.
	RemovalGone RemovalPhase = "Gone"
)

// ReasonQueued is the reason of a removal that fits into the guard's limits, and waits for earlier removals to complete.
const ReasonQueued = "Queued"

// IsOf reports whether the guard has allowed this removal, and not an earlier one of the same NodePool, which was reverted.
func (r *RecentRemoval) IsOf(removal *Removal) bool {
	return r.UID == removal.UID && !r.At.Time.Before(removal.RecordedAt.Time)
}

// Begun reports whether a removal that is not complete has terminated NodeClaims, or may have.
func (r *Removal) Begun() bool {
	return r.Phase != RemovalHeld && r.Phase != RemovalPacing && r.Phase != RemovalGone
}

// Queued reports whether a removal waits for earlier ones to complete, and starts by itself then.
func (r *Removal) Queued() bool { return r.Kind == "NodePool" && r.Reason == ReasonQueued }
