package evaluate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/confine"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/approval"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/source"
	"github.com/plumbline-dev/plumbline/render"
	"github.com/plumbline-dev/plumbline/render/schema"
)

// PlanTools are the dependencies of a PlanStep, the same for all NodeSyncs.
type PlanTools struct {
	// Cached reads the NodeSyncs and Approvals, Uncached reads what the API server enforces for Approvals, and
	// Expire deletes the Approvals that have expired.
	Cached   client.Reader
	Uncached client.Reader
	Expire   client.Writer
	// ServesApprovals reports whether Cached has Approvals: their CRD may not be installed yet, or their watch may
	// be refused.
	ServesApprovals func() (serves bool, refused error)
	// Registry contains what each NodeSync has in Git; nil if a commit is only reviewed.
	Registry *Registry
	// Namespace is the one in which NodeSyncs are served, and Reconciles reports whether the daemon reconciles a NodeSync.
	Namespace  string
	Reconciles func(*v1alpha1.NodeSync) bool
	// CABundle contains the cluster's certificate authorities, PEM in base64; empty if unknown.
	CABundle string
	// Confine builds kustomizations in child processes; nil builds them in this one.
	Confine *confine.Runner
	// Fetch requests a reconcile of a NodeSync that fetches no older state than that of a time, and Enqueue requests any
	// reconcile.
	Fetch   func(name types.NamespacedName, at time.Time)
	Enqueue func(name types.NamespacedName)
}

// PlanStep makes the Plan in one reconcile of one NodeSync.
type PlanStep struct {
	PlanTools
	finding.Findings

	// Sync is the NodeSync, which is only read, and Before is its status before this reconcile.
	Sync   *v1alpha1.NodeSync
	Before v1alpha1.NodeSyncStatus
	// Recorded is the newest revision of which anything was written, according to the record of what was
	// applied; empty if the record does not contain one.
	Recorded string
	// RecordLost reports whether this record does not match the live objects: it was deleted, restored, or
	// has lost its revision.
	RecordLost bool
	// Snapshot is the last fetched snapshot; nil if there is none.
	Snapshot *render.Snapshot
	// Set is nil if the NodeSync is being deleted, or drained.
	Set *render.Set
	// Karpenter is the part of Git that defines Karpenter's charts, and FileValues are the values in its valuesFiles.
	Karpenter  *render.Karpenter
	FileValues []map[string]any
	Schema     *schema.Validator
	Live       plan.Live
	// Applied are the definitions in the form that each last had in the cluster.
	Applied map[render.Ref]*unstructured.Unstructured
	Memory  *PlanMemory

	Now time.Time
	// Retry is how long plumbline waits before it queries a Git host again that did not answer.
	Retry time.Duration

	// Ask queries AWS for what the selectors resolve to, for the EKS cluster with a name in a region; nil if AWS is not
	// queried. NotAsked is the reason then; empty if there is nothing to report. Resolve does the same for the cluster
	// that Git names.
	Ask      func(cluster, region string) plan.Ask
	NotAsked string
	Resolve  plan.Ask
	// Loads reads the facts about nodes that Karpenter's consolidation uses; nil reads nothing.
	Loads plan.ReadLoads
	// Landing reports whether the pods of pools that a Plan of the Set removes can be scheduled elsewhere, and when to
	// check again; nil if this is not simulated.
	Landing func(ctx context.Context, set *render.Set, made *plan.Plan, live plan.Live) (plan.Landing, time.Time)
	// Hosts returns the pods of Karpenter's controller and of the daemon that run on nodes of a NodePool.
	Hosts func(ctx context.Context, claims []plan.NodeClaim) ([]plan.Host, error)
	// DaemonSets returns those that nodes need until their last pod has stopped, and when to query them again.
	DaemonSets func(ctx context.Context, claims []plan.NodeClaim) (plan.DaemonSets, time.Time)
	// Order compares HEAD to a commit using the cached history; FindOrder queries the Git host.
	Order     func(commit string) source.Order
	FindOrder func(ctx context.Context, commit string) (source.Order, error)
	// Ignored returns which of the kinds that are used Karpenter ignores both before and after the commit, because their
	// feature gate is off.
	Ignored func(ctx context.Context, used func(kind string) bool) (map[string]bool, error)
	// ChangesCharts reports whether Karpenter's charts would change.
	ChangesCharts func() bool
	// Read fetches the source of a suspended NodeSync, no older than a time, and verifies it.
	// It returns when that fetch began.
	Read func(ctx context.Context, notBefore time.Time) (*render.Snapshot, time.Time, error)
}

// PlanMemory is kept from one reconcile to the next, so that unchanged work is not repeated. The zero value remembers
// nothing.
type PlanMemory struct {
	// compared contains the objects that matched Git in the last Plan.
	compared plan.Memo
	// commitAt is when the first fetch of the current commit began, and deletedAt when the NodeSync was first seen
	// being deleted.
	commitAt, deletedAt time.Time
	// awaitedSince maps each NodeSync whose entries in Git are unknown to the time since when this one waits for it.
	awaitedSince map[types.UID]time.Time
	// moves maps the UID of each NodePool whose removal is not recorded yet to the entries that replace it. For a
	// NodePool that waits for other NodeSyncs, they can be found only while the replacement arrives.
	moves map[types.UID][]string
	// ordered is when a host was last queried for the order of two commits.
	ordered ordered
	// loads is the last result of Loads.
	loads loads
	// expired is the name of the expired Approval that a reconcile tried last to delete.
	expired string
}

// Fetched records when the fetch began that found another commit.
func (m *PlanMemory) Fetched(at time.Time) { m.commitAt = at }

// Planned is a Plan, with the doubt about it.
type Planned struct {
	*plan.Plan
	// Doubt is why entries that HEAD does not contain may not have been removed from Git; nil if they were removed.
	Doubt *v1alpha1.Withheld
	// Older reports whether HEAD is older than what was applied, or may be because the Git host was not queried yet: no
	// change of Karpenter's charts starts for it.
	Older bool

	approvals approvals
}

// Note writes into the status the doubt, the releases that are used up, and the approvals.
func (p Planned) Note(ctx context.Context, sync *v1alpha1.NodeSync, relabelled func(context.Context) (bool, error)) {
	sync.Status.Withheld, sync.Status.UsedReleases = p.Withheld(ctx, sync, relabelled), p.UsedReleases
	sync.Status.Held, sync.Status.Approved = p.approvals.held, p.approvals.approved
	sync.Status.UsedApprovals, sync.Status.UsedGitApprovals = p.approvals.used, p.approvals.usedInGit
}

// reviews reports whether the Plan is for a commit that is not pushed, or is made by a person. Only the daemon finds
// out what other NodeSyncs have in Git, how commits are ordered, and what people have approved.
func (s *PlanStep) reviews() bool { return s.Registry == nil }

// errNothing prevents a revision that was not rendered from counting as an empty one.
var errNothing = errors.New("plan the revision: nothing was rendered")

// Make plans the Set against the live objects, or an empty Set if all nodes are to be terminated.
func (s *PlanStep) Make(ctx context.Context) (Planned, error) {
	all, err := s.nodeSyncs(ctx)
	switch {
	case err != nil:
		return Planned{}, err
	case s.Sync.DrainsNodes() && !s.reviews():
		return s.makeEmpty(ctx, all)
	case s.Set == nil:
		return Planned{}, errNothing
	}
	planned, err := s.planWith(ctx, all, s.Doubt())
	switch {
	case err != nil:
		return Planned{}, err
	case s.reviews():
		return planned, nil
	}
	if doubt, found := s.requestOrder(ctx, planned); found {
		if planned, err = s.planWith(ctx, all, doubt); err != nil {
			return Planned{}, err
		}
	}
	s.warnOfRecord(planned)
	s.awaitWindow(planned.Plan)
	s.awaitOthers(planned.Plan, all, holdsNodes(planned.Plan))
	listed, err := s.listApprovals(ctx)
	if err != nil {
		return Planned{}, err
	}
	if err := s.weighApprovals(ctx, &planned, listed); err != nil {
		return Planned{}, err
	}
	if err := s.expireApprovals(ctx, listed.all); err != nil {
		return Planned{}, err
	}
	for _, used := range planned.Used {
		s.Event(v1alpha1.ReasonReleaseUsed,
			fmt.Sprintf("%s is in Git again: its release in the annotation %s no longer applies", used.Ref, v1alpha1.RemoveAnnotation))
	}
	for _, u := range planned.InUse {
		if stalls := u.Since.Add(s.Sync.GetStallAfter()); s.Now.Before(stalls) {
			s.WakeBy(stalls)
		}
	}
	return planned, nil
}

// warnOfRecord warns if the status is older than the record of what was applied, or if this record is lost.
func (s *PlanStep) warnOfRecord(planned Planned) {
	if s.statusIsOlder(planned.Doubt) {
		s.Warn(v1alpha1.ReasonStatusOlder, fmt.Sprintf("the status is older than the record of applied objects, which has %s: the status was restored or changed by hand. Removals of objects that %s does not contain are held",
			render.ShortRevision(s.Recorded), render.ShortRevision(s.Snapshot.Revision)))
	}
	if s.RecordLost && len(planned.unrecorded(s.Sync, "")) > 0 {
		s.Warn(v1alpha1.ReasonRecordLost, fmt.Sprintf("the record of applied objects was deleted, restored or changed by hand, so it is unknown which objects were removed from Git. Removals of objects that %s does not contain are held",
			render.ShortRevision(s.Snapshot.Revision)))
	}
}

// planWith makes the Plan from what is known about other NodeSyncs and from the answers of AWS. If something is held
// and AWS could still give an exact answer, it schedules another reconcile soon. If it returns an error, nothing of the
// Plan may be applied.
func (s *PlanStep) planWith(ctx context.Context, all []v1alpha1.NodeSync, doubt *v1alpha1.Withheld) (Planned, error) {
	policy, err := s.policy(ctx, all, doubt)
	if err != nil {
		return Planned{}, err
	}
	live := s.Live
	live.Memo, live.LeavingElsewhere = s.Memory.compared, plan.LeavingElsewhere(all, s.Sync)
	live.RecentTerminations = plan.TerminationsOf(s.Set, live, all, s.Sync)
	made, err := plan.MakeExact(ctx, s.Set, live, policy, s.Schema, s.Resolve, s.readLoads())
	if err != nil {
		return Planned{}, err
	}
	if made, err = s.simulateLanding(ctx, made, live, policy); err != nil {
		return Planned{}, err
	}
	s.Memory.compared, s.Memory.moves = made.Memo, movesOf(made)
	unsure := func(c plan.Change) bool { return c.Action == plan.Hold && c.Unavailable != "" }
	if s.Resolve != nil && len(made.Questions()) > 0 && slices.ContainsFunc(made.Changes, unsure) {
		s.WakeBy(s.Now.Add(s.Retry))
	}
	return Planned{Plan: made, Doubt: doubt, Older: policy.BranchReset || policy.Unasked}, made.Refused
}

// movesOf returns the entries that a Plan has found to replace NodePools whose removal is not recorded yet.
func movesOf(made *plan.Plan) map[types.UID][]string {
	moves := map[types.UID][]string{}
	for _, k := range made.Kept {
		moves[k.UID] = k.MovesTo
	}
	for i := range made.Removals {
		if c := &made.Removals[i]; !c.Recorded && c.Ref.Kind == render.NodePool {
			moves[c.UID] = c.MovesTo
		}
	}
	return moves
}

// makeEmpty plans for a NodeSync that loses all of its nodes, whether it is deleted or not, as if it had nothing in
// Git.
func (s *PlanStep) makeEmpty(ctx context.Context, all []v1alpha1.NodeSync) (Planned, error) {
	made, err := s.empty(ctx, all, s.Live)
	if err != nil {
		return Planned{}, err
	}
	s.awaitOthers(made, all, s.Registry.Holds(s.name()))
	return Planned{Plan: made}, nil
}

// Left makes the same Plan from objects that were read past the cache.
func (s *PlanStep) Left(ctx context.Context, live plan.Live) (*plan.Plan, error) {
	all, err := s.nodeSyncs(ctx)
	if err != nil {
		return nil, err
	}
	return s.empty(ctx, all, live)
}

func (s *PlanStep) empty(ctx context.Context, all []v1alpha1.NodeSync, live plan.Live) (*plan.Plan, error) {
	policy, err := s.policy(ctx, all, nil)
	if err != nil {
		return nil, err
	}
	policy.Deleting, policy.Keeps = true, s.Sync.KeepsDefinitions()
	return plan.Make(ctx, nil, live, policy, nil)
}

// awaitWindow schedules a reconcile for when changes that wait for a window may proceed.
func (s *PlanStep) awaitWindow(made *plan.Plan) {
	waits := len(made.Removals)+len(s.Before.Removals) > 0 ||
		slices.ContainsFunc(made.Changes, func(c plan.Change) bool { return c.Reason == plan.ReasonFrozen })
	if waits && !made.Frozen.Until.IsZero() {
		s.WakeBy(made.Frozen.Until)
	}
}

// holdsNodes reports whether something is held that may be released once nodes are terminated.
func holdsNodes(made *plan.Plan) bool {
	return slices.ContainsFunc(made.Changes, func(c plan.Change) bool { return c.Action == plan.Hold }) ||
		slices.ContainsFunc(made.Removals, func(c plan.Candidate) bool {
			return slices.Contains([]string{
				plan.ReasonMaxDisruptedNodes, plan.ReasonMaxDisruptedNodesPerPool, plan.ReasonMaxReplacedNodes, plan.ReasonMaxRemovedPools,
				plan.ReasonPolicy,
			}, c.Reason)
		})
}

// nodeSyncs returns all NodeSyncs, in every namespace. They are the cache's own objects: do not change them.
func (s *PlanStep) nodeSyncs(ctx context.Context) ([]v1alpha1.NodeSync, error) {
	all := &v1alpha1.NodeSyncList{}
	if err := s.Cached.List(ctx, all, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("read the NodeSyncs: %w", err)
	}
	return all.Items, nil
}

// policy returns what the NodeSync allows, given all NodeSyncs that exist.
func (s *PlanStep) policy(ctx context.Context, all []v1alpha1.NodeSync, doubt *v1alpha1.Withheld) (plan.Policy, error) {
	policy := plan.PolicyOf(s.Sync, all, s.Set)
	policy.Applied, policy.Karpenter, policy.FileValues, policy.Moves = s.Applied, s.Karpenter, s.FileValues, s.Memory.moves
	policy.NotAsked, policy.Now, policy.CABundle = s.NotAsked, s.Now, s.CABundle
	policy.Waves = policy.Waves && !s.reviews() // a preview shows what the commit changes, not how it is written
	if !s.reviews() {
		policy.OtherSyncs = s.otherSyncs(all)
	}
	policy.StatusLost = policy.StatusLost || s.RecordLost || is(doubt, v1alpha1.ReasonStatusLost)
	policy.Unasked = s.orderPending(doubt)
	policy.BranchReset, policy.HistoryUnknown = is(doubt, v1alpha1.ReasonOlderRevision), is(doubt, v1alpha1.ReasonHistoryUnknown)
	policy.StatusOlder = s.statusIsOlder(doubt)
	policy.NewRevision = policy.NewRevision || policy.StatusOlder // what an older status has as applied may be older, too
	var again time.Time
	if policy.DaemonSets, again = s.DaemonSets(ctx, s.Live.NodeClaims); !again.IsZero() {
		s.WakeBy(again)
	}
	var err error
	if s.Karpenter != nil {
		if policy.Ignored, err = s.Ignored(ctx, s.uses); err != nil {
			return policy, err
		}
	}
	policy.Hosts, err = s.Hosts(ctx, s.Live.NodeClaims)
	return policy, err
}

// uses reports whether Git or the cluster has objects of a kind.
func (s *PlanStep) uses(kind string) bool {
	inGit := func(o render.Object) bool { return o.Ref.Kind == kind }
	return len(s.Live.OfKind(kind)) > 0 || s.Set != nil && slices.ContainsFunc(s.Set.Objects, inGit)
}

func (s *PlanStep) name() types.NamespacedName { return client.ObjectKeyFromObject(s.Sync) }

// approvals are what is held of a Plan, what people have approved of it, and which of their Approvals have counted, in
// the form of the status.
type approvals struct {
	held     *v1alpha1.HeldPlan
	approved []v1alpha1.ApprovedPlan
	used     []types.UID
	// usedInGit are the digests in plumbline.yaml that have counted.
	usedInGit []string
}

// listedApprovals are the Approvals that exist in the namespace of the NodeSync, of any NodeSync. They are the cache's own
// objects: do not change them.
type listedApprovals struct {
	all []v1alpha1.Approval
	// unserved is why they are unknown, so that nothing can be approved; empty if they are known.
	unserved string
}

// listApprovals reads the Approvals from the cache, if they are watched.
func (s *PlanStep) listApprovals(ctx context.Context) (listedApprovals, error) {
	if serves, refused := s.ServesApprovals(); !serves {
		return listedApprovals{unserved: unserved(refused)}, nil
	}
	list := &v1alpha1.ApprovalList{}
	if err := s.Cached.List(ctx, list, client.InNamespace(s.Sync.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return listedApprovals{}, fmt.Errorf("read the Approvals: %w", err)
	}
	return listedApprovals{all: list.Items}, nil
}

// weighApprovals looks for Approvals of what is held. It records what they approve, and the next reconcile applies it.
func (s *PlanStep) weighApprovals(ctx context.Context, planned *Planned, listed listedApprovals) error {
	before, was := s.Before, &planned.approvals
	was.held = approval.Publish(before.Held, planned.Approvable, s.Sync.GetNeededApprovals())
	was.approved = planned.LeftOf(before.Approved)
	was.used, was.usedInGit = before.UsedApprovals, before.UsedGitApprovals
	inGit := s.approvesInGit(was)
	if was.held == nil && len(was.used) == 0 {
		return nil
	}
	if inGit {
		s.approved(was)
		return nil
	}
	if listed.unserved != "" {
		if was.held != nil {
			was.held.Message = listed.unserved
		}
		return nil
	}
	of := approval.Of(s.Sync, listed.all)
	naming := approval.MayCount(was.held, of, was.used, s.Now)
	if len(naming) > 0 {
		proof, err := s.prove(ctx)
		if err != nil {
			return err
		}
		if approval.Count(was.held, naming, proof, s.Sync.Spec.Guard.TrustedSessions) {
			was.used = approval.Used(was.used, of, naming)
			s.approved(was)
			return nil
		}
	}
	was.used = approval.Used(was.used, of, nil)
	return nil
}

// approvesInGit reports whether HEAD approves what is held. If so, it records that this digest has counted: from then
// on the recorded approval applies.
func (s *PlanStep) approvesInGit(was *approvals) bool {
	if s.Karpenter == nil || s.Snapshot == nil {
		return false
	}
	digests := s.Karpenter.Approve
	was.usedInGit = approval.UsedInGit(was.usedInGit, digests)
	if !approval.InGit(was.held, s.Sync.Spec.Guard, digests, was.usedInGit, s.Snapshot.Revision) {
		return false
	}
	was.usedInGit = append(was.usedInGit, was.held.Digest)
	return true
}

// approved records that what is held was approved.
func (s *PlanStep) approved(was *approvals) {
	was.approved = approval.Record(was.approved, was.held, s.Now)
	s.Event(v1alpha1.ReasonApproved,
		fmt.Sprintf("%s approved %s: %s", strings.Join(was.held.Approvers, ", "), render.ShownDigest(was.held.Digest), was.held.Summary))
	s.WakeBy(s.Now)
	was.held = nil
}

// unserved returns why nothing can be approved if Approvals are not watched.
func unserved(refused error) string {
	if refused == nil {
		return approval.NotServed
	}
	return approval.Nothing + fault.Classify(refused).Error()
}

// prove reads, past the cache, whether the API server verifies who creates an Approval.
func (s *PlanStep) prove(ctx context.Context) (approval.Proof, error) {
	proof, err := ReadProof(ctx, s.Uncached)
	if apierrors.IsForbidden(err) {
		return approval.Proof{Missing: fault.Classify(fmt.Errorf("read the admission policy for Approvals: %w", err)).Error()}, nil
	}
	if err != nil {
		return approval.Proof{}, fmt.Errorf("read the admission policy for Approvals: %w", err)
	}
	return proof, nil
}

// ReadProof reads whether the API server verifies who creates an Approval; the error is the API server's.
func ReadProof(ctx context.Context, c client.Reader) (approval.Proof, error) {
	policy, binding := &admissionv1.ValidatingAdmissionPolicy{}, &admissionv1.ValidatingAdmissionPolicyBinding{}
	for _, object := range []client.Object{policy, binding} {
		err := c.Get(ctx, types.NamespacedName{Name: approval.PolicyName}, object)
		if client.IgnoreNotFound(err) != nil {
			return approval.Proof{}, err
		}
	}
	if policy.UID == "" {
		policy = nil
	}
	if binding.UID == "" {
		binding = nil
	}
	return approval.Prove(policy, binding), nil
}

// maxExpired limits the Approvals that one reconcile deletes: anyone who may create them can create thousands, and what
// follows in the reconcile waits meanwhile.
const maxExpired = 50

// expireApprovals deletes the Approvals that have expired, of whichever NodeSync: one that does not exist any more
// deletes none. It continues after the last one that it tried, so that those that cannot be deleted keep no others.
func (s *PlanStep) expireApprovals(ctx context.Context, all []v1alpha1.Approval) error {
	expired := approval.Expired(all, s.Now)
	if len(expired) == 0 {
		return nil
	}
	slices.SortFunc(expired, func(a, b v1alpha1.Approval) int { return strings.Compare(a.Name, b.Name) })
	first := slices.IndexFunc(expired, func(a v1alpha1.Approval) bool { return a.Name > s.Memory.expired })
	expired = slices.Concat(expired[max(first, 0):], expired[:max(first, 0)])
	some := expired[:min(len(expired), maxExpired)]
	s.Memory.expired = some[len(some)-1].Name
	deleted, failed := DeleteExpired(ctx, s.Expire, some)
	switch {
	case failed == nil:
	case ctx.Err() != nil:
		return ctx.Err()
	default: // they no longer count in any case
		f := fault.Classify(failed)
		s.Warn(f.Reason, f.Error())
	}
	if len(expired) > maxExpired && deleted > 0 { // if none could be deleted, the next reconcile is early enough
		s.WakeBy(s.Now.Add(time.Second))
	}
	return nil
}

// DeleteExpired deletes expired Approvals, also those after one that cannot be deleted. It returns how many are gone, and the first
// failure.
func DeleteExpired(ctx context.Context, writer client.Writer, expired []v1alpha1.Approval) (deleted int, failed error) {
	for i := range expired {
		a := expired[i].DeepCopy() // the others belong to the cache
		err := writer.Delete(ctx, a, client.Preconditions{UID: &a.UID})
		switch {
		case err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err):
			deleted++
		case ctx.Err() != nil:
			return deleted, ctx.Err()
		case failed == nil:
			failed = fmt.Errorf("delete Approval %s, which has expired: %w", a.Name, err)
		}
	}
	return deleted, failed
}

// simulateLanding makes a Plan again if it removes pools with nodes, or would if people approved it. The second Plan
// includes the result of simulating where their pods can be scheduled.
func (s *PlanStep) simulateLanding(ctx context.Context, made *plan.Plan, live plan.Live, policy plan.Policy) (*plan.Plan, error) {
	if !s.needsLanding(made, policy.Guard) {
		return made, nil
	}
	landing, wake := s.Landing(ctx, s.Set, made, live)
	s.WakeBy(wake)
	if landing.Unknown != "" {
		s.Warn(v1alpha1.ReasonNotSimulated, "unknown whether the pods of "+strings.Join(made.NeedLanding(), ", ")+" can be scheduled elsewhere, so the removals are not held for it: "+landing.Unknown)
	}
	live.Memo, policy.Landing = made.Memo, landing
	return plan.MakeExact(ctx, s.Set, live, policy, s.Schema, s.Resolve, s.readLoads())
}

// needsLanding reports whether a Plan has removals that the guard holds if their pods cannot be scheduled elsewhere.
func (s *PlanStep) needsLanding(made *plan.Plan, guard v1alpha1.Guard) bool {
	return s.Landing != nil && guard.UnschedulablePods.Holds() && made.Refused == nil && len(made.NeedLanding()) > 0
}

// loadsLast is how long the result of Loads is valid: a commit may be held for hours, and many reconciles plan it
// again.
const loadsLast = time.Minute

// loads is the result of Loads, with the questions that it answers, and its time.
type loads struct {
	about string
	at    time.Time
	found map[types.UID]plan.Load
}

// readLoads returns a function that calls Loads at most once a minute for the same nodes; nil reads nothing.
func (s *PlanStep) readLoads() plan.ReadLoads {
	if s.Loads == nil {
		return nil
	}
	return func(ctx context.Context, questions []plan.LoadQuestion) map[types.UID]plan.Load {
		about := ""
		for _, q := range questions {
			about += fmt.Sprintf("%s %t %t", q.Pool, q.Pods, q.Deprovision)
			for _, claim := range q.Claims {
				about += " " + string(claim.UID)
			}
			about += "\n"
		}
		if known := s.Memory.loads; known.about == about && s.Now.Before(known.at.Add(loadsLast)) && !s.Now.Before(known.at) {
			return known.found
		}
		s.Memory.loads = loads{about: about, at: s.Now, found: s.Loads(ctx, questions)}
		return s.Memory.loads.found
	}
}
