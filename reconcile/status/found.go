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

// Found is what a reconcile has found, the words of it not redacted yet. Every string and
// every error in it is redacted, in structs, slices and pointers however deep, but for what is
// tagged
// `redact:"-"`: names, by which an object is known.
type Found struct {
	finding.Findings

	// Revision is the one that the reconcile is about, and Commit its commit; both empty
	// if no reconcile has fetched one since the daemon started.
	Revision string `redact:"-"`
	Commit   string `redact:"-"`
	// Cluster is the name of the EKS cluster; empty while it is not known.
	Cluster string `redact:"-"`

	// Suspended, Elsewhere and Finished report that nothing was looked at: the NodeSync is
	// suspended, is in a namespace that is not watched, or its deletion is concluded.
	Suspended, Elsewhere, Finished bool

	// Fault is what stopped the reconcile.
	Fault *fault.Error
	// Unfetched is why the source could not be fetched, where the reconcile went on with the
	// last Snapshot, and Unverified why the revision lacks a signature that it needs.
	Unfetched, Unverified error
	// Unpulled is why the charts could not be pulled, Unkept why what they made may not
	// be corrected, and NotUpgraded why they are not changed; the reconcile went on under
	// what is installed.
	Unpulled, Unkept, NotUpgraded error
	// Unwritten joins the errors of objects that could not be written.
	Unwritten error

	// Applying is how many changes are about to be written; 0 once they have been.
	Applying int

	// CloudVerified is what AWS says of the account; nil if it was not asked.
	CloudVerified *CloudVerified
	// Collision is the emergency of a controller that runs under another cluster's name.
	// SawAccount reports that it was looked for.
	Collision  string
	SawAccount bool

	// Stages are how far each has come; nil if none was looked at.
	Stages []Stage
	// InUse are the classes that were deleted while something names them.
	InUse []plan.InUse `redact:"-"`
	// Extra are the definitions with fields that Git does not write, and that stay. Planned
	// reports that they were looked for.
	Extra   []plan.Extra `redact:"-"`
	Planned bool
	// Changed are the first MostBefore definitions that the reconcile planned to change, as they were.
	Changed []plan.Before `redact:"-"`
	// Orphaned are the NodePools with nodes that the NodeSync has no longer managed.
	Orphaned []plan.OrphanedPool `redact:"-"`
	// Appliers are the other clients that apply what a deletion with Drain ends, each with what, in words.
	Appliers []string
	// DaemonSets are those that nodes need until their last pod has ended.
	DaemonSets plan.DaemonSets
	// Guard is what is known of the deletion guard.
	Guard deletion.Answer
	// Denial is whether the guard denies Karpenter's controller the removal of its finalizers.
	Denial deletion.Denial
	// Fought is what the charts made and another client keeps changing, in words.
	Fought string
	// Drifts are the objects that another client has changed or deleted; nil if the reconcile has
	// not come so far.
	Drifts []Drift
	// Instances are the EC2 instances that differ from their definitions and NodeClaims; nil if
	// that is not known.
	Instances *v1alpha1.InstanceDrift
	// Terminations are what has been terminating for longer than expected, the oldest first; nil if the reconcile has not come so
	// far.
	Terminations []v1alpha1.Termination
	// Unserved is why one of Karpenter's kinds is not served, so that nothing is known of its objects; empty if all are, or
	// the reconcile has not come so far.
	Unserved string
	// Held are the changes that the guard or a policy holds; nil if the reconcile has not come so far.
	Held []Held
	// LaunchFailures are the pools that get no nodes, each with why, and Missing the pools of Git that have too few nodes.
	// Looked reports that launches were looked at.
	LaunchFailures []rollout.LaunchFailure
	Missing        map[string]rollout.Shortage
	Looked         bool
	// Rollout is the replacement of nodes that do not match their definitions; nil if each
	// does. SawRollout reports that it was looked at.
	Rollout    *v1alpha1.Rollout
	SawRollout bool
	// Restored are the nodes of an older commit that match again, as a newer one took it back.
	Restored rollout.Restored
	// PoolRollouts are the pools in which there are such nodes.
	PoolRollouts []v1alpha1.PoolRollout
	// Drifting says which nodes drift unexpectedly after a change of Karpenter.
	// WatchedDrift reports that they were looked for.
	Drifting     string
	WatchedDrift bool
}

// Stage is how far one Stage has come, and why no further.
type Stage struct {
	Name    render.Stage
	Ready   bool
	Message string
}

// CloudVerified reports whether EC2 can be asked, and is the account that this cluster's
// nodes are in, and why.
type CloudVerified struct {
	OK      bool
	Reason  string `redact:"-"`
	Message string
}

// Held is a change that the guard holds, and why.
type Held struct {
	Ref     render.Ref `redact:"-"`
	Message string
}

// HeldChanges are those of a Plan; never nil.
func HeldChanges(changes []plan.Change) []Held {
	held := []Held{}
	for _, c := range changes {
		held = append(held, Held{Ref: c.Ref, Message: c.Message})
	}
	return held
}

// Work are what a reconcile has done.
type Work struct {
	// Durations is how long each step took.
	Durations []step.Timing
	// Written are the definitions that were written, Removed what was done for removals.
	Written []apply.Written
	Removed []removal.Write
	// Saves is how often the NodeSync itself was written, and Stored as what; nil if
	// it was not.
	Saves  int
	Stored *v1alpha1.NodeSync
}

// Refs are the definitions that were written.
func (d *Work) Refs() map[render.Ref]bool {
	refs := map[render.Ref]bool{}
	for _, w := range d.Written {
		refs[w.Ref] = true
	}
	return refs
}

// Writes are the definitions that were written, as a removal asks about them.
func (d *Work) Writes() []plan.Write {
	writes := make([]plan.Write, 0, len(d.Written))
	for _, w := range d.Written {
		writes = append(writes, plan.Write{Ref: w.Ref, New: w.Action == plan.Create, CreatedAt: w.Object.GetCreationTimestamp()})
	}
	return writes
}

// Tools are what a conclusion speaks to.
type Tools struct {
	// Client writes the NodeSync.
	Client  client.Client
	Events  record.EventRecorder
	Metrics controller.Metrics
	Meter   *Meter
	Reports Reports
	Notices Notices
	History History
	// Now tells the time.
	Now func() time.Time
	// Namespace is the daemon's.
	Namespace string
	// PageURL is where users find the page of the daemon; empty if there is none.
	PageURL string
}

// Step concludes one reconcile.
type Step struct {
	Tools
	Found
	Work
	// Set is what Git has; nil if that is not known.
	Set *render.Set
	// Sync is the NodeSync as the reconcile leaves it, Before as it was read.
	Sync, Before *v1alpha1.NodeSync
	Memory       *Memory
	// Began is the reconcile's time.
	Began time.Time
}

// Memory is what one conclusion leaves to the next. Losing it costs time and nothing
// else.
type Memory struct {
	// Saved is the resourceVersion of what was written last; empty if nothing was.
	Saved string
	// applied is the revision that an event has said was applied, unless one said that
	// something went wrong since.
	applied string
	// began is when the first conclusion was.
	began time.Time
	// launchFailures are the pools that a look has found to get no nodes since then.
	launchFailures map[string]bool
	history        history
	requeues       requeueLimiter
	counted        counted
	hidden         hidden
	standIn        standInMemory
	// read are the credentials that this reconcile has read.
	read []string
}

// recallLaunches adds the pools that were reported to get no nodes before the daemon was started. Which launches
// have failed is kept in memory, and Karpenter tries again within minutes: until then, or while it is not
// known, nothing reports that these have nodes but the nodes.
func (s *Step) recallLaunches() {
	if s.Memory.began.IsZero() {
		s.Memory.began = s.Began
	}
	for _, l := range s.LaunchFailures {
		if s.Memory.launchFailures == nil {
			s.Memory.launchFailures = map[string]bool{}
		}
		s.Memory.launchFailures[l.Pool] = true // from now on the looks know
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

// setLaunchFailing tells of pools that get no nodes, for as long as that is so.
func (s *Step) setLaunchFailing() {
	if !s.Looked {
		return
	}
	var failing []v1alpha1.LaunchFailure
	var words []string
	for _, l := range s.LaunchFailures {
		why := finding.Bounded(l.Why, maxEventMessage) // Karpenter's events have no more
		failing = append(failing, v1alpha1.LaunchFailure{Pool: l.Pool, Message: why, Missing: s.missing(l.Pool), Lost: l.Lost, Since: s.missingSince(l.Pool)})
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

// missingSince is since when a pool whose launches fail has too few nodes under the revision that is applied; nil if it
// has them.
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

// launchesFailed are the pools of which a launch failed: a pool that has lost nodes is no failure of a commit.
func (s *Step) launchesFailed() []rollout.LaunchFailure {
	return slices.DeleteFunc(slices.Clone(s.LaunchFailures), func(l rollout.LaunchFailure) bool { return l.Lost })
}

// launchesMissing are those that have too few nodes.
func (s *Step) launchesMissing() []rollout.LaunchFailure {
	return slices.DeleteFunc(s.launchesFailed(), func(l rollout.LaunchFailure) bool { return s.missing(l.Pool) == "" })
}

// launchTimedOut reports whether a pool has too few nodes for longer than spec.rollout.timeout because its launches fail.
func (s *Step) launchTimedOut() bool {
	limit := s.Sync.Spec.Rollout.Timeout
	return limit != nil && slices.ContainsFunc(s.launchesMissing(), func(l rollout.LaunchFailure) bool {
		return !s.Began.Before(s.missingSince(l.Pool).Add(limit.Duration))
	})
}

// withApproval says of what is held how people approve it, where they may.
func (s *Step) withApproval(v Verdict) Verdict {
	held := s.Sync.Status.Held
	if held == nil {
		return v
	}
	v.Message += "; " + approval.Sentence(s.Sync)
	v.Brief = fault.Brief{What: "held", Cause: held.Summary, Then: approval.Ask(held), Where: v.Brief.Where}
	return v
}

// approvedNow is what this reconcile records as approved; nil if there is none. The plan of the reconcile was made without it, so
// that it still holds what the next reconcile does.
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

// setDeletionUnguarded tells of a deletion guard that is missing or altered, for as long as it is, and
// when it is there again. A reconcile that has not looked leaves what was reported.
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

// setKarpenterDenied tells of a deletion guard that denies Karpenter's controller the removal of its own finalizers, for as
// long as it does. A reconcile that has not looked leaves what was reported.
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

// setChartsUnguarded tells of policies that limit what plumbline writes and that are missing or altered, for as long as they are. A
// pass that has not looked leaves what was reported.
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

// setNodeClassRescued tells of NodePools that name a copy of the class that Git names for them, for as
// long as they do. A reconcile that has not come so far leaves what was reported.
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

// rescuedBrief says in a commit status that all is applied, and what Git has yet to say.
func (s *Step) rescuedBrief() fault.Brief {
	if s.Set == nil || len(s.Set.Rescues) == 0 {
		return fault.Brief{}
	}
	r := s.Set.Rescues[0]
	users := r.Pools[0].String() + shortlist.More(" ", len(r.Pools)-1)
	return fault.Brief{What: fmt.Sprintf("applied; %s was deleted: have Git name %s for %s", r.Class, r.By.Name, users)}
}
