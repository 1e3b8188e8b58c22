package conclude

import (
	"fmt"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/render"
)

// condition is one beside Ready, Reconciling and Stalled.
type condition struct {
	kind string
	set  func(*Step)
	// keptWhileSuspended says that it stays true while nobody looks, and ofNodes that it is of nodes, which
	// end while only definitions stay.
	keptWhileSuspended, ofNodes bool
}

// ownConditions are all of them.
func ownConditions() []condition {
	return []condition{
		{v1alpha1.SourceVerifiedCondition, (*Step).setSourceVerified, true, false},
		{v1alpha1.CloudVerifiedCondition, (*Step).setCloudVerified, true, false},
		{v1alpha1.RemovingCondition, (*Step).setRemoving, true, false},
		{v1alpha1.LaunchFailingCondition, (*Step).setLaunchFailing, false, true},
		{v1alpha1.NodeDriftCondition, (*Step).setNodeDrift, false, true},
		{v1alpha1.InstanceDriftCondition, (*Step).setInstanceDrift, false, true},
		{v1alpha1.TerminationStalledCondition, (*Step).setTerminationStalled, false, true},
		{v1alpha1.RolledOutCondition, (*Step).setRolledOut, false, true},
		{v1alpha1.ExtraFieldsCondition, (*Step).setExtraFields, false, false},
		{v1alpha1.IntolerantDaemonSetsCondition, (*Step).setIntolerantDaemonSets, false, false},
		{v1alpha1.DeletionUnguardedCondition, (*Step).setDeletionUnguarded, false, false},
		{v1alpha1.ChartsUnguardedCondition, (*Step).setChartsUnguarded, false, false},
		{v1alpha1.KarpenterDeniedCondition, (*Step).setKarpenterDenied, false, false},
		{v1alpha1.VolumesLeftCondition, (*Step).setVolumesLeft, false, true},
		{v1alpha1.ResourcesLeftCondition, (*Step).setResourcesLeft, false, true},
		{v1alpha1.NodeClassRescuedCondition, (*Step).setNodeClassRescued, false, false},
		{v1alpha1.OrphanedCondition, (*Step).setOrphaned, false, false},
		{v1alpha1.OtherAppliersCondition, (*Step).setOtherAppliers, false, false},
	}
}

// setConditions speaks kstatus: Ready True is done, Reconciling True is at
// work, Stalled True needs a person.
func (s *Step) setConditions(v Verdict) {
	if s.Suspended {
		s.suspendConditions()
		return
	}
	// A condition that stays is not taken off and set again: it would be new
	// each time, and the status would be written at each pass.
	switch v.Class {
	case Done:
		conditions.Delete(s.Sync, meta.ReconcilingCondition)
		conditions.Delete(s.Sync, meta.StalledCondition)
		conditions.MarkTrue(s.Sync, meta.ReadyCondition, v.Reason, "%s", v.Message)
	case Working:
		conditions.MarkUnknown(s.Sync, meta.ReadyCondition, v.Reason, "%s", v.Message)
		conditions.MarkReconciling(s.Sync, v.Reason, "%s", v.Message)
	case Retrying:
		conditions.MarkFalse(s.Sync, meta.ReadyCondition, v.Reason, "%s", v.Message)
		conditions.MarkReconciling(s.Sync, meta.ProgressingWithRetryReason, "%s", v.Message)
	case Stuck:
		conditions.MarkFalse(s.Sync, meta.ReadyCondition, v.Reason, "%s", v.Message)
		conditions.MarkStalled(s.Sync, v.Reason, "%s", v.Message)
	}
	for _, c := range ownConditions() {
		if c.ofNodes && s.Sync.Keeps() {
			conditions.Delete(s.Sync, c.kind)
			continue
		}
		c.set(s)
	}
}

// suspendConditions leaves what is true of a suspended NodeSync.
func (s *Step) suspendConditions() {
	conditions.Delete(s.Sync, meta.ReconcilingCondition)
	for _, c := range ownConditions() {
		if !c.keptWhileSuspended {
			conditions.Delete(s.Sync, c.kind)
		}
	}
	s.Sync.Status.LaunchFailing = nil
	s.Sync.Status.Terminations, s.Sync.Status.StalledTerminations = nil, 0
	s.setSuspendedRemovals()
}

// setCloudVerified says whether EC2 can be asked, and is the account that this cluster's
// nodes are in. A pass that has not come so far leaves what was there.
func (s *Step) setCloudVerified() {
	switch verdict := s.CloudVerified; {
	case verdict == nil:
	case verdict.OK:
		conditions.MarkTrue(s.Sync, v1alpha1.CloudVerifiedCondition, verdict.Reason, "%s", verdict.Message)
	default:
		conditions.MarkFalse(s.Sync, v1alpha1.CloudVerifiedCondition, verdict.Reason, "%s", finding.Bounded(verdict.Message, MaxMessage))
	}
}

// setSuspendedRemovals says which removals a suspended NodeSync leaves where they are.
func (s *Step) setSuspendedRemovals() {
	if len(s.Sync.Status.Removals) == 0 || s.Sync.Drained() {
		return
	}
	words := describeSuspended(s.Sync.Status.Removals)
	conditions.MarkTrue(s.Sync, v1alpha1.RemovingCondition, v1alpha1.ReasonSuspended, "%s", words)
	if conditions.IsUnknown(s.Sync, meta.ReadyCondition) {
		conditions.MarkUnknown(s.Sync, meta.ReadyCondition, v1alpha1.ReasonSuspended, "%s", words)
	}
}

func (s *Step) setRemoving() {
	if len(s.Sync.Status.Removals) == 0 || s.Sync.Drained() {
		conditions.Delete(s.Sync, v1alpha1.RemovingCondition)
		return
	}
	conditions.MarkTrue(s.Sync, v1alpha1.RemovingCondition, v1alpha1.ReasonRemoving, "%s", s.describeRemovals())
}

// setNodeDrift tells of unexpected node drift, for as long as it lasts. A pass
// that has not come so far leaves what was reported.
func (s *Step) setNodeDrift() {
	k := s.Sync.Status.Karpenter
	switch {
	case s.Drifting != "":
		conditions.MarkTrue(s.Sync, v1alpha1.NodeDriftCondition, v1alpha1.ReasonUnexpectedNodeDrift, "%s", finding.Bounded(s.Drifting, MaxMessage))
	case s.WatchedDrift || k == nil || k.NodeDrift == nil:
		conditions.Delete(s.Sync, v1alpha1.NodeDriftCondition)
	}
	s.warnOfCondition(v1alpha1.NodeDriftCondition)
}

// setExtraFields tells of fields that Git does not write, for as long as they are there. A
// pass that has not come so far leaves what was reported.
func (s *Step) setExtraFields() {
	if !s.Planned {
		return
	}
	said := ""
	if len(s.Extra) > 0 {
		words := make([]string, 0, len(s.Extra))
		for _, e := range s.Extra {
			words = append(words, e.String())
		}
		said = fmt.Sprintf("Git does not write these fields, and they stay: %s: write them in Git, or remove them and stop what adds them", finding.Few(words, "; "))
	}
	s.setTrouble(v1alpha1.ExtraFieldsCondition, v1alpha1.ReasonExtraFields, said)
}

// setTrouble has a condition say what is wrong, for as long as it is, and an event say so once.
func (s *Step) setTrouble(kind, reason, words string) {
	if words == "" {
		conditions.Delete(s.Sync, kind)
		return
	}
	conditions.MarkTrue(s.Sync, kind, reason, "%s", finding.Bounded(words, MaxMessage))
	s.warnOfCondition(kind)
}

// setUnknown has a condition say that nobody knows whether something is wrong, and why.
func (s *Step) setUnknown(kind, reason, words string) {
	conditions.MarkUnknown(s.Sync, kind, reason, "%s", finding.Bounded(words, MaxMessage))
	s.warnOfCondition(kind)
}

// warnOfCondition has an event say what a condition says, once.
func (s *Step) warnOfCondition(kind string) {
	now, before := conditions.Get(s.Sync, kind), conditions.Get(s.Before, kind)
	if now != nil && !sameWords(before, now) {
		s.Notes = append(s.Notes, finding.Note{Type: corev1.EventTypeWarning, Reason: now.Reason, Message: now.Message})
	}
}

// setSourceVerified says, as Flux does, whether the revision was verified. What was
// verified before stands while nothing newer is known.
func (s *Step) setSourceVerified() {
	last := s.Sync.Status.LastVerified
	switch {
	case s.Sync.Spec.Source.Unprotected():
		conditions.MarkFalse(s.Sync, v1alpha1.SourceVerifiedCondition, v1alpha1.ReasonUnprotected, "%s is fetched over plain HTTP and no signature is verified: "+
			"an attacker on the network path can change the definitions; use https or ssh, or set spec.source.git.verify", s.Sync.Spec.Source.Repository())
		s.warnOfCondition(v1alpha1.SourceVerifiedCondition)
	case s.Sync.Spec.Source.Verification() == nil:
		conditions.Delete(s.Sync, v1alpha1.SourceVerifiedCondition)
	case s.Unverified != nil:
		conditions.MarkFalse(s.Sync, v1alpha1.SourceVerifiedCondition, v1alpha1.ReasonVerificationError, "%s", finding.Bounded(fault.Classify(s.Unverified).Error(), MaxMessage))
	case last != nil && s.Commit != "" && render.CommitOf(last.Revision) == s.Commit:
		conditions.MarkTrue(s.Sync, v1alpha1.SourceVerifiedCondition, meta.SucceededReason, "%s", describeVerified(*last))
	}
}

// describeVerified says what was verified and who has signed it.
func describeVerified(v v1alpha1.VerifiedRevision) string {
	what := "commit " + render.CommitOf(v.Revision)
	switch v.Mode {
	case v1alpha1.VerifyTag:
		what = "the tag of " + render.ShortRevision(v.Revision)
	case v1alpha1.VerifyRange:
		what += ", and of every commit since the last verified one"
	case v1alpha1.VerifyHEAD:
	}
	return fmt.Sprintf("verified signature of %s: signed with %s", what, v.Signer)
}
