package v1alpha1

import (
	"k8s.io/apimachinery/pkg/util/intstr"
)

// RemovalPhase is the phase of a Removal.
//
// +kubebuilder:validation:Enum=Held;Pacing;Draining;VerifyingCloud;Finalizing;Gone
type RemovalPhase string

// The phases of a Removal, in order.
const (
	// RemovalHeld waits for an approval.
	RemovalHeld RemovalPhase = "Held"
	// RemovalPacing is recorded and has terminated nothing yet.
	RemovalPacing RemovalPhase = "Pacing"
	// RemovalDraining terminates its NodeClaims, or waits for what refers to it.
	RemovalDraining RemovalPhase = "Draining"
	// RemovalVerifyingCloud queries EC2.
	RemovalVerifyingCloud RemovalPhase = "VerifyingCloud"
	// RemovalFinalizing has deleted the object and waits until it is gone.
	RemovalFinalizing RemovalPhase = "Finalizing"
	// RemovalGone is complete.
	RemovalGone RemovalPhase = "Gone"
)

// ReasonQueued is the reason of a removal that is within the guard's limits, and waits for earlier removals to
// complete.
const ReasonQueued = "Queued"

// ReasonReturned is the reason of a removal whose entry is in Git again, while the change that reverts it is not
// applied.
const ReasonReturned = "Returned"

// ReasonGrace is the reason of a removal that is recorded and starts once spec.removal.grace is over.
const ReasonGrace = "Grace"

// IsOf reports whether the guard has allowed this removal, and not an earlier, reverted one of the same NodePool.
func (r *RecentRemoval) IsOf(removal *Removal) bool {
	return r.UID == removal.UID && !r.At.Time.Before(removal.RecordedAt.Time)
}

// Started reports whether a removal that is not complete has terminated NodeClaims, or may have, and continues.
func (r *Removal) Started() bool {
	return !r.Returned() && r.Phase != RemovalHeld && r.Phase != RemovalPacing && r.Phase != RemovalGone
}

// Queued reports whether a removal waits for earlier ones to complete, and then starts by itself. A class that its
// NodePool still references has that reason, too.
func (r *Removal) Queued() bool { return r.Kind != "EC2NodeClass" && r.Reason == ReasonQueued }

// Returned reports whether the entry of a removal is in Git again: the removal does not continue.
func (r *Removal) Returned() bool { return r.Reason == ReasonReturned }

// Held reports whether a removal waits for an approval.
func (r *Removal) Held() bool { return r.Phase == RemovalHeld && !r.Returned() }

// defaultMaxUnavailable is the CRD's default, for a NodeSync that was created before it existed.
const defaultMaxUnavailable = "10%"

// GetMaxUnavailable returns MaxUnavailable, or its default.
func (p RemovalPolicy) GetMaxUnavailable() intstr.IntOrString {
	if p.MaxUnavailable != nil {
		return *p.MaxUnavailable
	}
	return intstr.FromString(defaultMaxUnavailable)
}

// MaxTerminating returns how many of a number of NodeClaims may be terminating at a time; 0 if none is terminated.
func (p RemovalPolicy) MaxTerminating(claims int) int {
	if p.Strategy == RemovalOrphan {
		return 0
	}
	return ShareOf(p.GetMaxUnavailable(), claims)
}

// ShareOf returns a number, or a percentage of a total rounded down, and at least 1.
func ShareOf(most intstr.IntOrString, of int) int {
	n, err := intstr.GetScaledValueFromIntOrPercent(&most, of, false)
	if err != nil {
		return 1
	}
	return max(1, n)
}

// DrainsNodes reports whether all nodes of the NodeSync are terminated: it is deleted with them, or keeps only its
// definitions.
func (n *NodeSync) DrainsNodes() bool {
	return n.KeepsDefinitions() || !n.DeletionTimestamp.IsZero() && n.Spec.OnDelete == OnDeleteDrain
}

// KeepsDefinitions reports whether all nodes are terminated while the definitions stay.
func (n *NodeSync) KeepsDefinitions() bool { return n.Spec.Drain && n.DeletionTimestamp.IsZero() }

// IsPaused reports whether nothing of it is fetched or applied: it is suspended, or keeps only its definitions.
func (n *NodeSync) IsPaused() bool { return n.Spec.Suspend || n.KeepsDefinitions() }

// Drained reports whether it keeps only its definitions, and none of its NodePools has a node left.
func (n *NodeSync) Drained() bool {
	if !n.KeepsDefinitions() {
		return false
	}
	for i := range n.Status.Removals {
		if r := &n.Status.Removals[i]; r.Kind == "NodePool" && !r.Drained() {
			return false
		}
	}
	return true
}

// Drained reports whether the NodePool has no node left, and is kept.
func (r *Removal) Drained() bool { return r.Reason == ReasonDrained }
