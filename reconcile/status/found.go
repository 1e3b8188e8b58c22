package status

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	"github.com/fluxcd/pkg/runtime/controller"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/internal/shortlist"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/apply"
	"github.com/plumbline-dev/plumbline/reconcile/approval"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/deletion"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/removal"
	"github.com/plumbline-dev/plumbline/reconcile/rollout"
	"github.com/plumbline-dev/plumbline/reconcile/step"
	"github.com/plumbline-dev/plumbline/render"
)

// Found is what a reconcile has found, before redaction. Every string and every error in it is redacted, in structs,
// slices and pointers at any depth, except what is tagged `redact:"-"`: names that identify an object.
type Found struct {
	finding.Findings

	// Revision is the reconcile's revision, and Commit its commit; both are empty if none was fetched since the daemon
	// started.
	Revision string `redact:"-"`
	Commit   string `redact:"-"`
	// Cluster is the name of the EKS cluster; empty if unknown.
	Cluster string `redact:"-"`

	// Suspended, Elsewhere and Finished report why nothing was checked: the NodeSync is suspended, is in a namespace
	// that is not watched, or its deletion is complete.
	Suspended, Elsewhere, Finished bool

	// Fault is what stopped the reconcile.
	Fault *fault.Error
	// Unfetched is why the source could not be fetched, if the reconcile continued with the last Snapshot, and
	// Unverified why the revision does not have a signature that it needs.
	Unfetched, Unverified error
	// Unpulled is why the charts could not be pulled, Unkept why their objects may not be corrected, and NotUpgraded
	// why they are not changed; the reconcile continued with what is installed.
	Unpulled, Unkept, NotUpgraded error
	// Unwritten joins the errors of objects that could not be written.
	Unwritten error

	// Applying is how many changes are about to be written; 0 once they are written.
	Applying int

	// CloudVerified is the result of verifying the account; nil if AWS was not queried.
	CloudVerified *CloudVerified
	// Collision describes a controller that runs under another cluster's name. SawAccount reports that it was looked
	// for.
	Collision  string
	SawAccount bool

	// Stages are how far each has come; nil if none was checked.
	Stages []Stage
	// InUse are the classes that were deleted while something refers to them.
	InUse []plan.InUse `redact:"-"`
	// Extra are the definitions with fields that Git does not set, and that are kept. Planned reports that they were
	// looked for.
	Extra   []plan.Extra `redact:"-"`
	Planned bool
	// Changed are the first MostBefore definitions that the reconcile planned to change, before the change.
	Changed []plan.Before `redact:"-"`
	// Orphaned are the NodePools with nodes that the NodeSync no longer manages.
	Orphaned []plan.OrphanedPool `redact:"-"`
	// Appliers describe the other clients that apply what a deletion with Drain deletes, each with its objects.
	Appliers []string
	// DaemonSets are those that nodes need until their last pod has stopped.
	DaemonSets plan.DaemonSets
	// Guard is the state of the deletion guard.
	Guard deletion.Answer
	// Denial is whether the guard denies Karpenter's controller the removal of its finalizers.
	Denial deletion.Denial
	// Support is what to report about upstream's support of the version of Karpenter that is in force; nil if there is
	// nothing.
	Support *Support
	// RepeatedReverts describes what the charts created and another client keeps changing.
	RepeatedReverts string
	// Defects describe the known defects of Karpenter's version that concern what Git has; empty if there are none.
	// SawDefects reports that they were looked for.
	Defects    string
	SawDefects bool
	// Preflight are the problems of a check of `plumbline doctor` that the daemon runs, too. SawPreflight reports that it was
	// known enough for it; otherwise what was reported is kept.
	Preflight    []string
	SawPreflight bool
	// ImagesOutdated are sentences on AMIs that are too old, deprecated or withdrawn. SawImages reports that AWS has answered
	// about all of them; otherwise what was reported is kept.
	ImagesOutdated []string
	SawImages      bool
	// AutoMode describes whose the NodePools are, in a cluster with EKS Auto Mode; empty without it. SawAutoMode reports that
	// it was looked for.
	AutoMode    string
	SawAutoMode bool
	// Drifts are the objects that another client has changed or deleted; nil if the reconcile did not check.
	Drifts []Drift
	// Instances are the EC2 instances that differ from their definitions and NodeClaims; nil if unknown.
	Instances *v1alpha1.InstanceDrift
	// IdentityConflict is another controller that uses this cluster's name, or what is left of the response to one.
	// SawIdentity reports that it was looked for.
	IdentityConflict *v1alpha1.IdentityConflict
	SawIdentity      bool
	// Terminations are what has been terminating for longer than expected, the oldest first; nil if the reconcile did
	// not check.
	Terminations []v1alpha1.Termination
	// Unserved is why one of Karpenter's kinds is not served, so that its objects are unknown; empty if all are served,
	// or the reconcile did not check.
	Unserved string
	// Held are the changes that the guard or a policy holds; nil if the reconcile did not check.
	Held []Held
	// LaunchFailures are the pools that get no nodes, each with the reason, and Missing the pools of Git that have too
	// few nodes. Looked reports that launches were checked.
	LaunchFailures []rollout.LaunchFailure
	Missing        map[string]rollout.Shortage
	Looked         bool
	// Rollout is the replacement of nodes that do not match their definitions; nil if each does. SawRollout reports
	// that it was checked.
	Rollout    *v1alpha1.Rollout
	SawRollout bool
	// Restored are the nodes of an older commit that match again, because a newer one reverted it.
	Restored rollout.Restored
	// PoolRollouts are the pools with such nodes.
	PoolRollouts []v1alpha1.PoolRollout
	// Drifting describes which nodes drift unexpectedly after a change of Karpenter. WatchedDrift reports that they
	// were looked for.
	Drifting     string
	WatchedDrift bool
}

// Stage is how far one Stage has come, and why no further.
type Stage struct {
	Name    render.Stage
	Ready   bool
	Message string
}

// CloudVerified reports whether EC2 can be queried, and is the account of this cluster's nodes, and why.
type CloudVerified struct {
	OK      bool
	Reason  string `redact:"-"`
	Message string
}

// Support is what to report about upstream's support of a version of Karpenter. Ended reports whether it has ended;
// otherwise it ends soon.
type Support struct {
	Ended   bool
	Message string
}

// Held is a change that the guard holds, and why.
type Held struct {
	Ref     render.Ref `redact:"-"`
	Message string
}

// HeldChanges returns those of a Plan; never nil.
func HeldChanges(changes []plan.Change) []Held {
	held := []Held{}
	for _, c := range changes {
		held = append(held, Held{Ref: c.Ref, Message: c.Message})
	}
	return held
}

// Work is what a reconcile has done.
type Work struct {
	// Durations is how long each step took.
	Durations []step.Timing
	// Written are the definitions that were written, Removed what was done for removals.
	Written []apply.Written
	Removed []removal.Write
	// Saves is how often the NodeSync itself was written, and Stored the result of the last write; nil if it was not
	// written.
	Saves  int
	Stored *v1alpha1.NodeSync
}

// Refs returns the definitions that were written.
func (d *Work) Refs() map[render.Ref]bool {
	refs := map[render.Ref]bool{}
	for _, w := range d.Written {
		refs[w.Ref] = true
	}
	return refs
}

// Writes returns the definitions that were written, in the form that removals use.
func (d *Work) Writes() []plan.Write {
	writes := make([]plan.Write, 0, len(d.Written))
	for _, w := range d.Written {
		writes = append(writes, plan.Write{Ref: w.Ref, New: w.Action == plan.Create, CreatedAt: w.Object.GetCreationTimestamp()})
	}
	return writes
}

// Tools are the dependencies of a conclusion.
type Tools struct {
	// Client writes the NodeSync.
	Client  client.Client
	Events  record.EventRecorder
	Metrics controller.Metrics
	Meter   *Meter
	Reports Reports
	Notices Notices
	History History
	// Now returns the current time.
	Now func() time.Time
	// Namespace of the daemon.
	Namespace string
	// PageURL is where users find the page of the daemon; empty if there is none.
	PageURL string
}

// Step concludes one reconcile.
type Step struct {
	Tools
	Found
	Work
	// Set is what Git has; nil if unknown.
	Set *render.Set
	// Sync is the NodeSync as the reconcile leaves it, Before as it was read.
	Sync, Before *v1alpha1.NodeSync
	Memory       *Memory
	// Began is the reconcile's time.
	Began time.Time
}

// Memory is kept from one conclusion to the next. Losing it costs only time.
type Memory struct {
	// Saved is the resourceVersion of the last write; empty if there was none.
	Saved string
	// applied is the revision that an event has reported as applied, unless one has reported a problem since.
	applied string
	// began is when the first conclusion was.
	began time.Time
	// launchFailures are the pools that were found to get no nodes since then.
	launchFailures map[string]bool
	history        history
	requeues       requeueLimiter
	counted        counted
	hidden         hidden
	standIn        standInMemory
	// read are the credentials that this reconcile has read.
	read []string
}

// recallLaunches adds the pools that were reported to get no nodes before the daemon was started. Failed launches are
// kept in memory, and Karpenter tries again within minutes: until then, or while they are unknown, only the nodes show
// that these pools have nodes.
func (s *Step) recallLaunches() {
	if s.Memory.began.IsZero() {
		s.Memory.began = s.Began
	}
	for _, l := range s.LaunchFailures {
		if s.Memory.launchFailures == nil {
			s.Memory.launchFailures = map[string]bool{}
		}
		s.Memory.launchFailures[l.Pool] = true // from now on, launches are checked
	}
	known := s.Memory.began.Add(cluster.FailedLaunchLasts)
	if s.Fault != nil || s.Set == nil || s.Looked && !s.Began.Before(known) {
		return
	}
	for _, before := range s.Before.Status.LaunchFailing {
		is := func(l rollout.LaunchFailure) bool { return l.Pool == before.Pool }
		wanted := slices.ContainsFunc(s.Set.Objects, func(o render.Object) bool {
			return o.Ref == render.Ref{Kind: render.NodePool, Name: before.Pool}
		})
		if wanted && s.missing(before.Pool) != "" && !s.Memory.launchFailures[before.Pool] && !slices.ContainsFunc(s.LaunchFailures, is) {
			s.LaunchFailures = append(s.LaunchFailures, rollout.LaunchFailure{Pool: before.Pool, Why: before.Message, Lost: before.Lost})
			s.WakeBy(known)
		}
	}
	slices.SortFunc(s.LaunchFailures, func(a, b rollout.LaunchFailure) int { return strings.Compare(a.Pool, b.Pool) })
}

// setLaunchFailing reports pools that get no nodes, while that lasts.
func (s *Step) setLaunchFailing() {
	if !s.Looked {
		return
	}
	var failing []v1alpha1.LaunchFailure
	var words []string
	for _, l := range s.LaunchFailures {
		why := finding.Bounded(l.Why, maxEventMessage) // Karpenter's events are no longer than that
		failing = append(failing,
			v1alpha1.LaunchFailure{Pool: l.Pool, Message: why, Missing: s.missing(l.Pool), Lost: l.Lost, Since: s.missingSince(l.Pool)})
		if l.Lost {
			words = append(words, fmt.Sprintf("%s, by no commit: %s", s.missing(l.Pool), why))
			continue
		}
		words = append(words, fmt.Sprintf("%s/%s gets no nodes: %s", render.NodePool, l.Pool, why))
	}
	s.Sync.Status.LaunchFailing = failing
	reason := v1alpha1.ReasonLaunchFailed
	if s.launchTimedOut() {
		reason = v1alpha1.ReasonRolloutTimedOut
	}
	s.setTrouble(v1alpha1.LaunchFailingCondition, reason, finding.Few(words, "; "))
}

// missing names the nodes that a pool of Git does not have; empty if it has enough.
func (s *Step) missing(pool string) string {
	if shortage, is := s.Missing[pool]; is {
		return shortage.Of(pool)
	}
	return ""
}

// missingSince returns since when a pool whose launches fail has too few nodes under the applied revision; nil if it
// has enough.
func (s *Step) missingSince(pool string) *metav1.Time {
	if s.missing(pool) == "" {
		return nil
	}
	if s.Before.Status.LastAppliedRevision == s.Sync.Status.LastAppliedRevision {
		for _, before := range s.Before.Status.LaunchFailing {
			if before.Pool == pool && before.Since != nil {
				return before.Since
			}
		}
	}
	now := s.timestamp()
	return &now
}

// launchesFailed returns the pools of which a launch failed: a pool that has lost nodes is no failure of a commit.
func (s *Step) launchesFailed() []rollout.LaunchFailure {
	return slices.DeleteFunc(slices.Clone(s.LaunchFailures), func(l rollout.LaunchFailure) bool { return l.Lost })
}

// launchesMissing returns those that have too few nodes.
func (s *Step) launchesMissing() []rollout.LaunchFailure {
	return slices.DeleteFunc(s.launchesFailed(), func(l rollout.LaunchFailure) bool { return s.missing(l.Pool) == "" })
}

// launchTimedOut reports whether a pool has too few nodes for longer than spec.rollout.timeout because its launches
// fail.
func (s *Step) launchTimedOut() bool {
	limit := s.Sync.Spec.Rollout.Timeout
	return limit != nil && slices.ContainsFunc(s.launchesMissing(), func(l rollout.LaunchFailure) bool {
		return !s.Began.Before(s.missingSince(l.Pool).Add(limit.Duration))
	})
}

// withApproval adds to a verdict on what is held how people can approve it, if they can.
func (s *Step) withApproval(v Verdict) Verdict {
	held := s.Sync.Status.Held
	if held == nil {
		return v
	}
	v.Message += "; " + approval.Sentence(s.Sync)
	v.Brief = fault.Brief{What: "held", Cause: held.Summary, Then: approval.Instruction(held), Where: v.Brief.Where}
	return v
}

// approvedNow returns what this reconcile records as approved; nil if there is nothing. The reconcile's plan was made
// without it, so that it still holds what the next reconcile does.
func (s *Step) approvedNow() *v1alpha1.ApprovedPlan {
	held, approved := s.Before.Status.Held, s.Sync.Status.Approved
	if held == nil || s.Sync.Status.Held != nil {
		return nil
	}
	recorded := func(a v1alpha1.ApprovedPlan) bool { return a.Digest == held.Digest }
	i := slices.IndexFunc(approved, recorded)
	if i < 0 || slices.ContainsFunc(s.Before.Status.Approved, recorded) {
		return nil
	}
	return &approved[i]
}

// approvedVerdict reports who has approved what was held.
func (s *Step) approvedVerdict(approved *v1alpha1.ApprovedPlan) Verdict {
	words := fmt.Sprintf("approved by %s: %s", strings.Join(approved.By, ", "), s.Before.Status.Held.Summary)
	return Verdict{Class: Working, Reason: meta.ProgressingReason, Message: words, Brief: fault.Brief{What: words}}
}

// setDeletionUnguarded reports a deletion guard that is missing or altered, while it is, and when it is restored. A
// reconcile that did not check it keeps what was reported.
func (s *Step) setDeletionUnguarded() {
	const kind = v1alpha1.DeletionUnguardedCondition
	words, reason := s.Guard.Words(), s.Guard.Reason()
	if s.Guard.Looked && words == "" && conditions.IsTrue(s.Before, kind) {
		s.Event(v1alpha1.ReasonGuardRestored, "each policy of the deletion guard is as this version of plumbline installs it")
	}
	switch {
	case !s.Guard.Looked:
	case reason == v1alpha1.ReasonGuardUnknown:
		s.setUnknown(kind, reason, words)
	default:
		s.setTroubleInShort(kind, reason, words, s.Guard.Details())
	}
}

// setKarpenterDenied reports a deletion guard that denies Karpenter's controller the removal of its own finalizers,
// while it does. A reconcile that did not check it keeps what was reported.
func (s *Step) setKarpenterDenied() {
	const kind = v1alpha1.KarpenterDeniedCondition
	switch {
	case !s.Denial.Looked:
	case s.Denial.Unknown != "":
		s.setUnknown(kind, v1alpha1.ReasonFinalizerUnknown, s.Denial.Message())
	default:
		s.setTrouble(kind, v1alpha1.ReasonFinalizerDenied, s.Denial.Message())
	}
}

// setKarpenterUnsupported warns while upstream does not support the version of Karpenter that is in force, and notes when
// support ends soon.
func (s *Step) setKarpenterUnsupported() {
	const kind = v1alpha1.KarpenterUnsupportedCondition
	switch {
	case s.Support == nil:
		conditions.Delete(s.Sync, kind)
	case s.Support.Ended:
		s.setTrouble(kind, v1alpha1.ReasonSupportEnded, s.Support.Message)
	default:
		conditions.MarkFalse(s.Sync, kind, v1alpha1.ReasonSupportEnds, "%s", s.Support.Message)
		if !sameText(conditions.Get(s.Before, kind), conditions.Get(s.Sync, kind)) {
			s.Event(v1alpha1.ReasonSupportEnds, s.Support.Message)
		}
	}
}

// setKarpenterDefect reports known defects of Karpenter's version, while it runs in that version. A reconcile that did not
// check it keeps what was reported.
func (s *Step) setKarpenterDefect() {
	if s.SawDefects {
		s.setTrouble(v1alpha1.KarpenterDefectCondition, v1alpha1.ReasonKnownDefect, s.Defects)
	}
}

// setPreflight reports what will disrupt nodes. What is unknown neither raises the condition nor ends it.
func (s *Step) setPreflight() {
	if s.SawPreflight {
		s.setTrouble(v1alpha1.PreflightCondition, v1alpha1.ReasonPreflight, strings.Join(s.Preflight, "; "))
	}
}

// setImagesOutdated reports AMIs that are too old. What is unknown neither raises the condition nor ends it.
func (s *Step) setImagesOutdated() {
	if s.SawImages {
		s.setTrouble(v1alpha1.ImagesOutdatedCondition, v1alpha1.ReasonImagesOutdated, strings.Join(s.ImagesOutdated, "; "))
	}
}

// setAutoMode reports whose the NodePools are, in a cluster with EKS Auto Mode. A reconcile that did not look keeps what
// was reported.
func (s *Step) setAutoMode() {
	const kind = v1alpha1.AutoModeCondition
	switch {
	case !s.SawAutoMode:
	case s.AutoMode == "":
		conditions.Delete(s.Sync, kind)
	default:
		conditions.MarkTrue(s.Sync, kind, v1alpha1.ReasonBesideAutoMode, "%s", finding.Bounded(s.AutoMode, MaxMessage))
	}
}

// setChartsUnguarded reports policies that limit what plumbline writes and that are missing or altered, while they are.
// A reconcile that did not check it keeps what was reported.
func (s *Step) setChartsUnguarded() {
	const kind = v1alpha1.ChartsUnguardedCondition
	message, reason := s.Guard.ChartsMessage(), s.Guard.ChartsReason()
	switch {
	case !s.Guard.Looked:
	case reason == v1alpha1.ReasonChartPoliciesUnknown:
		s.setUnknown(kind, reason, message)
	default:
		s.setTroubleInShort(kind, reason, message, s.Guard.ChartsDetails())
	}
}

// setNodeClassRescued reports NodePools that refer to a copy of their class in Git, while they do. A reconcile that did
// not check it keeps what was reported.
func (s *Step) setNodeClassRescued() {
	if s.Set == nil {
		return
	}
	words := make([]string, 0, len(s.Set.Rescues))
	for _, r := range s.Set.Rescues {
		words = append(words, plan.RescueWords(r))
	}
	s.setTrouble(v1alpha1.NodeClassRescuedCondition, v1alpha1.ReasonNodeClassDeleted, finding.Few(words, "; "))
}

// rescuedBrief says in a commit status that everything is applied, and what must still be changed in Git.
func (s *Step) rescuedBrief() fault.Brief {
	if s.Set == nil || len(s.Set.Rescues) == 0 {
		return fault.Brief{}
	}
	r := s.Set.Rescues[0]
	users := r.Pools[0].String() + shortlist.More(" ", len(r.Pools)-1)
	return fault.Brief{What: fmt.Sprintf("applied; %s was deleted: have Git name %s for %s", r.Class, r.By.Name, users)}
}
