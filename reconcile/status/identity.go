package status

import (
	"fmt"
	"strings"

	"github.com/fluxcd/pkg/runtime/conditions"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
)

// noteIdentity records in the status whether another controller uses this cluster's name, and reports when that is over.
func (s *Step) noteIdentity() {
	if !s.SawIdentity {
		return
	}
	s.Sync.Status.IdentityConflict = s.IdentityConflict
	if s.Before.Status.IdentityConflict.Open() && !s.IdentityConflict.Open() {
		s.Event(v1alpha1.ReasonIdentityResolved, "no other controller uses this cluster's name any more, or a person has resolved the conflict")
	}
}

// identityWords describes the conflict, and what to do about it.
func (s *Step) identityWords() string {
	conflict := s.Sync.Status.IdentityConflict
	words := conflictWords(conflict, s.Cluster)
	if s.Sync.HoldsDisruption() {
		words += "; nothing is removed or replaced until it is over"
	}
	if failure := conflict.GetResponse().Failure; failure != "" {
		words += "; " + failure
	}
	words += fmt.Sprintf("; find the other controller and stop it: plumbline identity %s -n %s", s.Sync.Name, s.Sync.Namespace)
	return words
}

// conflictWords describes a conflict and its first sign. The text changes only if more is known about the other
// controller.
func conflictWords(c *v1alpha1.IdentityConflict, cluster string) string {
	what := fmt.Sprintf("another client terminates instances of this cluster in EC2; it may be a Karpenter with the name %s in another cluster", cluster)
	if c.Proven {
		what = fmt.Sprintf("another Karpenter uses the name %s, for API server %s: each of the two terminates the other's instances", cluster, strings.Join(c.Endpoints, ", "))
	}
	if len(c.Evidence) > 0 {
		what += "; " + c.Evidence[0]
	}
	if len(c.Principals) > 0 {
		what += "; instances were terminated by " + strings.Join(c.Principals, ", ")
	}
	return what
}

// identityVerdict reports the conflict before everything else: whatever else is wrong, it terminates nodes now.
func (s *Step) identityVerdict() Verdict {
	cause := "another client terminates this cluster's instances in EC2"
	if s.Sync.Status.IdentityConflict.Proven {
		cause = "another Karpenter uses this cluster's name"
	}
	return Verdict{
		Class: Stuck, Reason: v1alpha1.ReasonIdentityConflict, Message: s.identityWords(),
		Brief: fault.Brief{What: "identity conflict", Cause: cause, Then: "plumbline identity " + s.Sync.Name},
	}
}

// setIdentityConflict reports the conflict while it lasts.
func (s *Step) setIdentityConflict() {
	if !s.Sync.Status.IdentityConflict.Open() {
		conditions.Delete(s.Sync, v1alpha1.IdentityConflictCondition)
		return
	}
	s.setTrouble(v1alpha1.IdentityConflictCondition, v1alpha1.ReasonIdentityConflict, s.identityWords())
}
