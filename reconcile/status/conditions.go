package status

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/notify"
	"github.com/plumbline-dev/plumbline/render"
)

// condition is a condition other than Ready, Reconciling and Stalled.
type condition struct {
	kind string
	set  func(*Step)
	// keptWhileSuspended reports whether it stays true while the NodeSync is suspended, and ofNodes whether it is about
	// nodes, which are terminated while only definitions stay.
	keptWhileSuspended, ofNodes bool
}

// ownConditions returns all of them.
func ownConditions() []condition {
	return []condition{
		{v1alpha1.SourceVerifiedCondition, (*Step).setSourceVerified, true, false},
		{v1alpha1.PromotedCondition, (*Step).setPromoted, true, false},
		{v1alpha1.CloudVerifiedCondition, (*Step).setCloudVerified, true, false},
		{v1alpha1.IdentityConflictCondition, (*Step).setIdentityConflict, true, true},
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
		{v1alpha1.KarpenterUnsupportedCondition, (*Step).setKarpenterUnsupported, true, false},
		{v1alpha1.KarpenterDefectCondition, (*Step).setKarpenterDefect, false, false},
		{v1alpha1.PreflightCondition, (*Step).setPreflight, false, false},
		{v1alpha1.ImagesOutdatedCondition, (*Step).setImagesOutdated, false, false},
		{v1alpha1.AutoModeCondition, (*Step).setAutoMode, true, false},
		{v1alpha1.VolumesLeftCondition, (*Step).setVolumesLeft, false, true},
		{v1alpha1.ResourcesLeftCondition, (*Step).setResourcesLeft, false, true},
		{v1alpha1.NodeClassRescuedCondition, (*Step).setNodeClassRescued, false, false},
		{v1alpha1.OrphanedCondition, (*Step).setOrphaned, false, false},
		{v1alpha1.OtherAppliersCondition, (*Step).setOtherAppliers, false, false},
	}
}

// setConditions follows kstatus: Ready True is done, Reconciling True is in progress, Stalled True needs a person.
func (s *Step) setConditions(v Verdict) {
	if s.Suspended {
		s.suspendConditions()
		return
	}
	// A condition that stays is not removed and set again: it would be new each time, and each reconcile would write
	// the status.
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
		if c.ofNodes && s.Sync.KeepsDefinitions() {
			conditions.Delete(s.Sync, c.kind)
			continue
		}
		c.set(s)
	}
}

// suspendConditions keeps the conditions that are still true of a suspended NodeSync.
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

// setCloudVerified reports whether EC2 can be queried, and is the account of this cluster's nodes. A reconcile that did
// not check it keeps what was reported.
func (s *Step) setCloudVerified() {
	switch verdict := s.CloudVerified; {
	case verdict == nil:
	case verdict.OK:
		conditions.MarkTrue(s.Sync, v1alpha1.CloudVerifiedCondition, verdict.Reason, "%s", verdict.Message)
	default:
		conditions.MarkFalse(s.Sync, v1alpha1.CloudVerifiedCondition, verdict.Reason, "%s", finding.Bounded(verdict.Message, MaxMessage))
	}
}

// setSuspendedRemovals reports which removals are paused while the NodeSync is suspended.
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

// setNodeDrift reports unexpected node drift while it lasts. A reconcile that did not check it keeps what was reported.
func (s *Step) setNodeDrift() {
	k := s.Sync.Status.Karpenter
	switch {
	case s.Drifting != "":
		conditions.MarkTrue(s.Sync, v1alpha1.NodeDriftCondition, v1alpha1.ReasonUnexpectedNodeDrift, "%s",
			finding.Bounded(s.Drifting, MaxMessage))
	case s.WatchedDrift || k == nil || k.NodeDrift == nil:
		conditions.Delete(s.Sync, v1alpha1.NodeDriftCondition)
	}
	s.warnOfCondition(v1alpha1.NodeDriftCondition)
}

// setExtraFields reports fields that Git does not set while they exist. A reconcile that did not check it keeps what
// was reported.
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
		said = fmt.Sprintf("Git does not write these fields, and they stay: %s: write them in Git, or remove them and stop what adds them",
			finding.Few(words, "; "))
	}
	s.setTrouble(v1alpha1.ExtraFieldsCondition, v1alpha1.ReasonExtraFields, said)
}

// setTrouble reports a problem in a condition while it lasts, and in one event.
func (s *Step) setTrouble(kind, reason, words string) {
	s.setTroubleInShort(kind, reason, words, "")
}

// setTroubleInShort is setTrouble with an event that has the details; empty if the condition has them all.
func (s *Step) setTroubleInShort(kind, reason, words, details string) {
	if words == "" {
		conditions.Delete(s.Sync, kind)
		return
	}
	conditions.MarkTrue(s.Sync, kind, reason, "%s", finding.Bounded(words, MaxMessage))
	s.warnOfConditionIn(kind, details)
}

// setUnknown reports in a condition that it is unknown whether there is a problem, and why.
func (s *Step) setUnknown(kind, reason, words string) {
	conditions.MarkUnknown(s.Sync, kind, reason, "%s", finding.Bounded(words, MaxMessage))
	s.warnOfCondition(kind)
}

// warnOfCondition emits an event with the message of a condition, once.
func (s *Step) warnOfCondition(kind string) { s.warnOfConditionIn(kind, "") }

// warnOfConditionIn emits an event if a condition changed, with details; with the message of the condition if they are
// empty.
func (s *Step) warnOfConditionIn(kind, details string) {
	now, before := conditions.Get(s.Sync, kind), conditions.Get(s.Before, kind)
	if now != nil && !sameText(before, now) {
		message := cmp.Or(finding.Bounded(details, MaxMessage), now.Message)
		s.Notes = append(s.Notes, finding.Note{Type: corev1.EventTypeWarning, Reason: now.Reason, Message: message})
	}
}

// setSourceVerified reports, as Flux does, whether the revision was verified. The last result stays while nothing newer
// is known.
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
		conditions.MarkFalse(s.Sync, v1alpha1.SourceVerifiedCondition, v1alpha1.ReasonVerificationError, "%s",
			finding.Bounded(fault.Classify(s.Unverified).Error(), MaxMessage))
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

// Stages returns how far each Stage of a Set has come; nil without a Set. Stages of optional kinds are left out if the
// Set has no such object.
func Stages(set *render.Set, crds, controller cluster.Readiness, definitions cluster.ByRef) []Stage {
	if set == nil {
		return nil
	}
	stage := func(name render.Stage, r cluster.Readiness) Stage {
		return Stage{Name: name, Ready: r.Ready, Message: r.Message}
	}
	stages := []Stage{stage(render.StageCRDs, crds), stage(render.StageController, controller)}
	for _, kind := range render.Kinds() {
		has := func(o render.Object) bool { return o.Ref.Kind == kind.GVK.Kind }
		if !kind.Optional() || slices.ContainsFunc(set.Objects, has) {
			stages = append(stages, stage(kind.Stage, definitions.Of(set, kind.GVK.Kind)))
		}
	}
	return stages
}

// listStages converts them for the status. If none was checked, they keep what they had.
func (s *Step) listStages(before []v1alpha1.StageStatus) []v1alpha1.StageStatus {
	if s.Stages == nil {
		return before
	}
	list := make([]v1alpha1.StageStatus, 0, len(s.Stages))
	for _, stage := range s.Stages {
		status := v1alpha1.StageStatus{Name: string(stage.Name), State: v1alpha1.StageWaiting, Message: stage.Message, Since: s.timestamp()}
		if stage.Ready {
			status.State = v1alpha1.StageDone
		}
		for _, old := range before {
			if old.Name == status.Name && old.State == status.State {
				status.Since = old.Since
			}
		}
		list = append(list, status)
	}
	return list
}

// missing returns the messages of Stages that are done although something is missing, unless they were reported before.
func missing(now, before []v1alpha1.StageStatus) []string {
	var found []string
	for _, stage := range now {
		told := slices.ContainsFunc(before, func(old v1alpha1.StageStatus) bool {
			return old.Name == stage.Name && old.State == stage.State && old.Message == stage.Message
		})
		if stage.State == v1alpha1.StageDone && stage.Message != "" && !told {
			found = append(found, fmt.Sprintf("%s: %s", stage.Name, stage.Message))
		}
	}
	return found
}

// chartsDiffer returns why the charts are not as in Git, if the reconcile continued with what is installed; nil if they
// are, or if Verdict reports that first.
func (s *Step) chartsDiffer() *fault.Error {
	switch {
	case s.Unpulled != nil:
		return fault.Classify(fmt.Errorf("%w; the charts stay as they are installed, and definitions are applied", s.Unpulled))
	case s.Unkept != nil:
		return fault.Classify(fmt.Errorf("%w; the charts' objects are left unchanged, and definitions are applied", s.Unkept))
	}
	return nil
}

// holds reports whether the guard, or a lost status, holds something.
func (s *Step) holds() bool { return len(s.Held)+len(heldRemovals(s.Sync.Status.Removals)) > 0 }

// withCharts puts the refusal of the charts before a verdict on something else: each may need a separate commit. brief
// is that verdict in a commit status.
func (s *Step) withCharts(v Verdict, brief string) Verdict {
	charts := s.chartsDiffer()
	if charts == nil {
		return v
	}
	return verdictOf(charts).and(v, brief)
}

// withHeld appends what is held to a verdict on something else.
func (s *Step) withHeld(v Verdict) Verdict {
	if !s.holds() {
		return v
	}
	held := heldRemovals(s.Sync.Status.Removals)
	return v.and(s.heldVerdict(held), heldBrief(s.Held, held))
}

// withController appends that Karpenter's controller does not run properly: what is held or stalled would hide it, and
// it may be the cause.
func (s *Step) withController(v Verdict) Verdict {
	for _, stage := range s.Stages {
		if stage.Ready {
			continue
		}
		if stage.Name == render.StageController && stage.Message != "" && !strings.Contains(v.Message, stage.Message) {
			v.Message += "; Karpenter's controller: " + stage.Message
		}
		break // the ones after a Stage that is not Ready were not checked
	}
	return v
}

// and combines two verdicts, the first of them first. The more severe one determines class and reason. A commit status,
// which is short, starts with brief, which names the second one; without brief, it has the text of the more severe one.
func (v Verdict) and(second Verdict, brief string) Verdict {
	both := v
	if second.Class > v.Class {
		both = second
	}
	both.Message = v.Message + "; " + second.Message
	if brief != "" {
		both.Brief = v.Brief
		both.Brief.What = brief + "; " + v.Brief.What
	}
	return both
}

// Notices notifies the receivers of a NodeSync, without blocking a reconcile.
type Notices interface {
	Send(ctx context.Context, to []v1alpha1.Notify, notices []notify.Notice)
	// Failed returns what could not be sent since the last call.
	Failed(sync types.NamespacedName) []string
}

// noteNotices records in the status what to notify about, and reports what could not be sent.
func (s *Step) noteNotices() []notify.Notice {
	if s.Elsewhere {
		return nil // its Secrets must not be read
	}
	for _, failed := range s.Notices.Failed(s.name()) {
		s.Warn(v1alpha1.ReasonNotifyFailed, failed)
	}
	record, notices := notify.Next(s.Before, s.Sync, s.Cluster, s.timestamp())
	s.Sync.Status.Notified = record
	return notices
}

// notify sends notices once the status that records them is written: otherwise, the next reconcile finds the same
// change.
func (s *Step) notify(ctx context.Context, notices []notify.Notice) {
	if len(notices) > 0 && equality.Semantic.DeepEqual(s.stored().Status, s.Sync.Status) {
		s.Notices.Send(ctx, s.Sync.Spec.Notify, notices)
	}
}

// setIntolerantDaemonSets reports DaemonSets that a drain evicts too early, while their toleration is missing. A
// reconcile that did not check it keeps what was reported.
func (s *Step) setIntolerantDaemonSets() {
	const kind = v1alpha1.IntolerantDaemonSetsCondition
	switch doubt := s.DaemonSets.Doubt(); {
	case !s.Planned:
	case doubt != "":
		s.setUnknown(kind, v1alpha1.ReasonTolerationUnknown, doubt)
	default:
		s.setTrouble(kind, v1alpha1.ReasonTolerationMissing, s.DaemonSets.Untolerated())
	}
}

// denied reports whether a write was refused independently of its content: by a policy, a webhook or the cluster's
// RBAC.
func denied(err error) bool { return apierrors.IsForbidden(err) || fault.Unstorable(err) }

// reportUnsaved reports, without the status, that no status could be written: otherwise, users would rely on the status
// of an earlier reconcile. An annotation tells the CLI; an event and the commit status tell people.
func (s *Step) reportUnsaved(ctx context.Context, refused error) {
	s.Fault = fault.StatusNotWritten(fmt.Errorf(
		"the API server denies each write of this NodeSync's status, which is that of an earlier pass: let the daemon patch nodesyncs/status: %s",
		finding.Bounded(s.Memory.Hide(refused.Error()), maxRemovalMessage)))
	s.Notes = slices.DeleteFunc(s.Notes, func(n finding.Note) bool { return !n.Written })
	s.WakeAt = s.Began.Add(s.Sync.GetRetryInterval())
	s.Sync.Status = *s.Before.Status.DeepCopy()
	s.report(ctx)
	conditions.MarkFalse(s.Sync, meta.ReadyCondition, s.Fault.Reason, "%s", s.Fault.Error())
	err := s.mark(ctx, s.Fault.Error())
	if err == nil {
		s.dropStandIn(ctx)
		return
	}
	message := fmt.Sprintf("the NodeSync could not be annotated with %s either: %v", v1alpha1.StatusNotWrittenAnnotation, err)
	if err := s.writeStandIn(ctx, s.Fault.Error()); err != nil {
		message += fmt.Sprintf("; and nothing tells `plumbline status` so: %v", err)
	}
	s.Warn(s.Fault.Reason, message)
}

// unmark removes the annotation and the stand-in once the status is up to date again. The next reconcile retries
// failures.
func (s *Step) unmark(ctx context.Context) {
	if s.Finished || s.superseded() {
		return
	}
	if _, marked := s.stored().Annotations[v1alpha1.StatusNotWrittenAnnotation]; marked && s.mark(ctx, "") != nil {
		return
	}
	s.dropStandIn(ctx)
}

// mark writes the annotation, or removes it if message is empty.
func (s *Step) mark(ctx context.Context, message string) error {
	if s.stored().Annotations[v1alpha1.StatusNotWrittenAnnotation] == message && message != "" {
		return nil
	}
	var value any
	if message != "" {
		value = message
	}
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{v1alpha1.StatusNotWrittenAnnotation: value}}})
	if err != nil {
		return fmt.Errorf("encode the annotation %s: %w", v1alpha1.StatusNotWrittenAnnotation, err)
	}
	after := s.stored().DeepCopy()
	if err := s.Client.Patch(ctx, after, client.RawPatch(types.MergePatchType, body)); err != nil {
		return err
	}
	s.written(after)
	return nil
}
