package plan

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan/planjson"
	"github.com/plumbline-dev/plumbline/render"
)

// ReasonPolicy is the reason of what a policy in spec.policies holds.
const ReasonPolicy = "Policy"

// compile compiles the policies, or reuses those of the last Plan.
func (m *maker) compile() (err error) {
	m.rules = m.live.Memo.rules
	if !m.rules.Of(m.policy.Policies) {
		m.rules, err = CompilePolicies(m.policy.Policies)
	}
	return err
}

// applyPolicies evaluates the policies for the Plan, before the guard counts its nodes: what they hold disrupts none.
// An error means that nothing of the Plan may be applied.
func (m *maker) applyPolicies(ctx context.Context, p *Plan) error {
	if m.policy.Deleting || len(m.policy.Policies) == 0 {
		return nil
	}
	document := p.Document(m.live)
	holds, err := m.rules.Evaluate(ctx, &document)
	if err != nil {
		return err
	}
	for _, h := range holds {
		m.holdChanges(p, h, &document)
		m.holdRemovals(p, h)
	}
	m.awaitHeldClasses(p)
	return nil
}

// holdChanges holds the Changes that a policy holds, and that nobody has approved.
func (m *maker) holdChanges(p *Plan, h PolicyHold, document *planjson.Plan) {
	for i := range p.Changes {
		if h.Removal == nil && (h.Change == nil || *h.Change == i) && appliesToChange(&document.Changes[i]) &&
			!m.approvedBefore(h.Policy, &p.Changes[i]) {
			p.Changes[i].holdByPolicy(h)
		}
	}
}

// holdRemovals does the same for removals.
func (m *maker) holdRemovals(p *Plan, h PolicyHold) {
	for i := range p.Removals {
		if h.Change == nil && (h.Removal == nil || *h.Removal == i) && !m.approvedBefore(h.Policy, &p.Removals[i]) {
			p.Removals[i].holdByPolicy(h)
		}
	}
}

// holdByPolicy holds a Change that is, or will be, written; a refused one is not written anyway. The message of the
// first policy is shown, and all are recorded: people approve them together.
func (c *Change) holdByPolicy(h PolicyHold) {
	if !c.Action.Writes() && c.Action != Wait && c.Action != Hold {
		return
	}
	if message := noted(&c.policies, h); message != "" {
		c.hold(ReasonPolicy, message)
	}
}

// noted records a policy, which may hold an object several times, and returns the message; empty if it is recorded
// already.
func noted(policies *[]string, h PolicyHold) (message string) {
	if slices.Contains(*policies, h.Policy) {
		return ""
	}
	message = h.Message
	if len(*policies) > 0 {
		message = fmt.Sprintf("policy %s also holds it", h.Policy)
	}
	*policies = append(*policies, h.Policy)
	return message
}

// holdByPolicy holds a removal that has not terminated a node yet. If another client has deleted the object, there is
// nothing left to hold.
func (c *Candidate) holdByPolicy(h PolicyHold) {
	if c.Terminating {
		return
	}
	if message := noted(&c.policies, h); message != "" {
		c.hold(ReasonPolicy, message)
	}
}

// awaitHeldClasses makes the objects wait that reference a class which is held and does not exist yet: such a pool
// could not launch nodes.
func (m *maker) awaitHeldClasses(p *Plan) {
	held := map[string]bool{}
	for i := range p.Changes {
		if c := &p.Changes[i]; c.Action == Hold && c.Live == nil {
			held[c.Ref.String()] = true
		}
	}
	for i := range p.Changes {
		c := &p.Changes[i]
		class, names := render.Reference(c.Ref, c.Object.Desired)
		if names && held[class.String()] && c.Action.Writes() {
			c.wait(ReasonClassNotMade, class, fmt.Sprintf("%s references %s, which is held", c.Ref, class))
			c.Effect, c.Nodes, c.UpTo, c.touched, c.unnamed, c.consolidated, c.expiring, c.DriftReasons, c.Warnings = EffectBlocked, 0, false, nil, 0, nil, nil, nil, nil
			c.scaledDown, c.mayScaleDown = nil, nil
		}
	}
}

// Policy is what a NodeSync allows.
type Policy struct {
	// Owner is the NodeSync.
	Owner Owner
	// OtherSyncs are the other NodeSyncs that exist. A label that names none of them counts as no label.
	OtherSyncs []OtherSync
	Adopt      v1alpha1.AdoptPolicy
	Drift      v1alpha1.DriftPolicy
	Guard      v1alpha1.Guard
	// Policies are evaluated for the Plan. If one does not compile, Make returns an error; what one denies is Refused.
	Policies []v1alpha1.Policy
	// Applied are the definitions, with the schema's defaults, as each was last found or written in the cluster. A
	// difference from one that Git has not changed since is drift. For objects without an entry, NewRevision decides.
	Applied map[render.Ref]*unstructured.Unstructured
	// NewRevision reports whether the Set's revision has never been fully applied, or something of another revision was
	// written since. Otherwise, a difference from it is drift.
	NewRevision bool
	// StatusLost reports whether the status records no applied revision, so that it is unknown whether an object was
	// removed from Git.
	StatusLost bool
	// BranchReset reports whether the Set's revision is an ancestor of the applied one: the branch was reset, or a mirror
	// lags behind.
	BranchReset bool
	// HistoryUnknown reports whether this may be so: the history in between is unavailable. Unasked reports whether the
	// Git host has not answered yet.
	HistoryUnknown, Unasked bool
	// StatusOlder reports whether only the record of what was applied shows that: the status was restored, including
	// its removals.
	StatusOlder bool
	// Keeps reports, with Deleting, whether only the nodes are removed: the definitions stay.
	Keeps bool
	// Orphans reports whether objects that are removed from Git are orphaned, with their nodes.
	Orphans bool
	// Brakes reports whether a rollout whose launches fail is stopped (spec.rollout.onFailure): only then do
	// replacements count by how many may be replaced at one time.
	Brakes bool
	// Braked are the NodePools, by name, whose rollout is stopped or proceeds in waves: their disruption budgets belong to
	// the brake. Waves reports whether commits replace nodes in waves.
	Braked map[string]bool
	Waves  bool
	// Reverted are the NodePools that were reverted during this freeze.
	Reverted []v1alpha1.RevertedPool
	// Conflict is why nothing may be removed or replaced because another controller uses this cluster's name; empty if that
	// is not so. The disruption budgets of all NodePools then belong to the brake.
	Conflict string
	// Emergency is the annotation that temporarily overrides windows and freezes; empty if there is none.
	Emergency string
	// Released are the UIDs of removals that a person has released explicitly.
	Released map[types.UID]bool
	// Moves are the replacements of NodePools, by UID, whose removal is not recorded yet, as found by the last Plan.
	Moves map[types.UID][]string
	// Approved are the held plans that people have approved.
	Approved []v1alpha1.ApprovedPlan
	// UsedUp are those whose release has expired, because Git has contained the object since.
	UsedUp map[types.UID]bool
	// Deleting reports whether the NodeSync itself is being deleted with everything in it: there is no Set, and the
	// guard does not apply.
	Deleting bool
	// Offline reports whether there is no cluster to compare with.
	Offline bool
	// Ignored are the kinds that Karpenter ignores both before and after the commit, because their feature gate is off.
	Ignored map[string]bool
	// Hosts are the pods of Karpenter's controller and of plumbline that run on nodes of a NodePool.
	Hosts []Host
	// DaemonSets are those that nodes need until their last pod has terminated.
	DaemonSets DaemonSets
	// Karpenter is what Git wants of its charts; nil if that is not known. It decides
	// nothing here, and is part of the Digest. ConfigFile is the file that it stands in, and FileValues are the values in
	// its valuesFiles.
	Karpenter  *render.Karpenter
	ConfigFile string
	FileValues []map[string]any
	// CABundle is the cluster's authorities as Karpenter has them in its hash of an EC2NodeClass:
	// PEM in base64; empty if it is not known.
	CABundle string
	// Answers are the answers of AWS to the Questions of a Plan that was made without them. NotAsked is why AWS was not
	// queried; empty if unknown.
	Answers  map[render.Ref]Answer
	NotAsked string
	// Loads are the answers to the LoadQuestions of a Plan that was made without them; a node without a Load may be
	// consolidated.
	Loads map[types.UID]Load
	// Landing reports whether the pods of removed pools can be scheduled elsewhere, for the removals of a Plan that was
	// made without it.
	Landing Landing
	// Now is the time of the plan, which the age of nodes is compared with.
	Now time.Time
}

// Host is a pod that is required to launch, drain or watch nodes, and the NodePool whose node it runs on.
type Host struct {
	// NodePool and Node are where it runs.
	NodePool, Node string
	// Workload is what it belongs to, such as "Karpenter's controller".
	Workload string
	// Pod is its namespace and name.
	Pod string
}

// HostsOf returns the pods of Karpenter's controller and of plumbline that run on nodes of one NodePool.
func (p Policy) HostsOf(pool string) []Host {
	var found []Host
	for _, h := range p.Hosts {
		if h.NodePool == pool {
			found = append(found, h)
		}
	}
	return found
}

// name returns the NodeSync's namespace and name; empty if there is none.
func (p Policy) name() string {
	if p.Owner == (Owner{}) {
		return ""
	}
	return p.Owner.String()
}

// cluster returns the name of the cluster in Git; empty if unknown.
func (p Policy) cluster() string {
	if p.Karpenter == nil {
		return ""
	}
	return p.Karpenter.Cluster.Name
}

func (p Policy) maxRemovedPools() int {
	if p.Guard.MaxRemovedPools == nil {
		return 1
	}
	return int(*p.Guard.MaxRemovedPools)
}

// PolicyOf returns what a NodeSync allows for a Set; the Set is nil if the NodeSync is deleted. all are the NodeSyncs
// of every namespace: a label counts if its NodeSync exists in any of them. The content of their Git is left unknown.
func PolicyOf(sync *v1alpha1.NodeSync, all []v1alpha1.NodeSync, set *render.Set) Policy {
	policy := Policy{
		Owner:       OwnerOf(sync.Namespace, sync.Name),
		Adopt:       sync.Spec.Adopt,
		Drift:       sync.Spec.Drift,
		Guard:       sync.Spec.Guard,
		Policies:    sync.Spec.Policies,
		NewRevision: set == nil || isNew(&sync.Status, set),
		StatusLost:  sync.Status.LastAppliedRevision == "",
		Emergency:   sync.Annotations[v1alpha1.EmergencyAnnotation],
		Released:    released(sync),
		UsedUp:      usedUp(sync),
		Approved:    sync.Status.Approved,
		Deleting:    !sync.DeletionTimestamp.IsZero(),
		Orphans:     sync.Spec.Removal.Strategy == v1alpha1.RemovalOrphan,
		Brakes:      sync.Spec.Rollout.OnFailure != v1alpha1.RolloutReport,
		Braked:      sync.Status.LimitedPools(),
		Waves:       sync.Spec.Rollout.GetWaves() != nil,
		Reverted:    sync.Status.RevertedPools,
		ConfigFile:  render.ConfigFile(sync.Spec.Path),
	}
	if sync.HoldsDisruption() {
		policy.Conflict = fmt.Sprintf("another controller uses this cluster's name (IdentityConflict): plumbline identity %s -n %s", sync.Name, sync.Namespace)
	}
	for i := range all {
		if owner := OwnerOf(all[i].Namespace, all[i].Name); owner != policy.Owner {
			policy.OtherSyncs = append(policy.OtherSyncs, OtherSync{Owner: owner})
		}
	}
	return policy
}

// isNew reports whether a Set has other inputs than the last applied one, or something of other inputs was written
// since: the live objects may then be as another commit defined them, and restoring them is not drift correction.
func isNew(status *v1alpha1.NodeSyncStatus, set *render.Set) bool {
	return status.PartlyAppliedInputs != "" || status.LastAppliedInputs != set.Fingerprint()
}
