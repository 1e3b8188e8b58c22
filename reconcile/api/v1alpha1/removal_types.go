package v1alpha1

import (
	"k8s.io/apimachinery/pkg/util/intstr"
)

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

// ReasonGrace is the reason of a removal that is recorded and starts once spec.removal.grace is over.
const ReasonGrace = "Grace"

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

// defaultMaxUnavailable is the CRD's default, for a NodeSync that is older than it is.
const defaultMaxUnavailable = "10%"

// Most is MaxUnavailable, or its default.
func (p RemovalPolicy) Most() intstr.IntOrString {
	if p.MaxUnavailable != nil {
		return *p.MaxUnavailable
	}
	return intstr.FromString(defaultMaxUnavailable)
}

// AtATime is how many of a number of NodeClaims may be leaving at a time; 0 where none is ended.
func (p RemovalPolicy) AtATime(claims int) int {
	if p.Strategy == RemovalOrphan {
		return 0
	}
	return ShareOf(p.Most(), claims)
}

// ShareOf is what a number or a percentage is of so many, rounded down, and 1 at least.
func ShareOf(most intstr.IntOrString, of int) int {
	n, err := intstr.GetScaledValueFromIntOrPercent(&most, of, false)
	if err != nil {
		return 1
	}
	return max(1, n)
}

// Drains reports whether all nodes of the NodeSync are ended: it is deleted with them, or keeps only its
// definitions.
func (n *NodeSync) Drains() bool {
	return n.Keeps() || !n.DeletionTimestamp.IsZero() && n.Spec.OnDelete == OnDeleteDrain
}

// Keeps reports whether all nodes are ended, and the definitions stay.
func (n *NodeSync) Keeps() bool { return n.Spec.Drain && n.DeletionTimestamp.IsZero() }

// Rests reports whether nothing of it is fetched or applied: it is suspended, or keeps only its definitions.
func (n *NodeSync) Rests() bool { return n.Spec.Suspend || n.Keeps() }

// Drained reports whether it keeps only its definitions, and none of its NodePools has a node left.
func (n *NodeSync) Drained() bool {
	if !n.Keeps() {
		return false
	}
	for i := range n.Status.Removals {
		if r := &n.Status.Removals[i]; r.Kind == "NodePool" && !r.Drained() {
			return false
		}
	}
	return true
}

// Drained reports whether no node of the NodePool is left, and it stays.
func (r *Removal) Drained() bool { return r.Reason == ReasonDrained }
