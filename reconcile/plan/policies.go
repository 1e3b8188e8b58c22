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

// ReasonPolicy is the reason of what a policy of spec.policies holds.
const ReasonPolicy = "Policy"

// compile compiles the policies, unless the last Plan has.
func (m *maker) compile() (err error) {
	m.rules = m.live.Memo.rules
	if !m.rules.Of(m.policy.Policies) {
		m.rules, err = CompilePolicies(m.policy.Policies)
	}
	return err
}

// judge asks the policies about the Plan, before the guard weighs its nodes: what they hold disrupts
// none. An error reports that nothing of the Plan may be done.
func (m *maker) judge(ctx context.Context, p *Plan) error {
	if m.policy.Deleting || len(m.policy.Policies) == 0 {
		return nil
	}
	document := p.Document(m.live)
	holds, err := m.rules.Judge(ctx, &document)
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
		if h.Removal == nil && (h.Change == nil || *h.Change == i) && askedAboutChange(&document.Changes[i]) && !m.approvedBefore(h.Policy, &p.Changes[i]) {
			p.Changes[i].holdByPolicy(h)
		}
	}
}

// holdRemovals holds the removals likewise.
func (m *maker) holdRemovals(p *Plan, h PolicyHold) {
	for i := range p.Removals {
		if h.Change == nil && (h.Removal == nil || *h.Removal == i) && !m.approvedBefore(h.Policy, &p.Removals[i]) {
			p.Removals[i].holdByPolicy(h)
		}
	}
}

// holdByPolicy holds a Change that is written, or will be; what is refused is not written anyway. The message of the
// first policy is shown, and all are noted: people approve them together.
func (c *Change) holdByPolicy(h PolicyHold) {
	if !c.Action.Writes() && c.Action != Wait && c.Action != Hold {
		return
	}
	if message := noted(&c.policies, h); message != "" {
		c.hold(ReasonPolicy, message)
	}
}

// noted adds a policy, which may hold an object several times, and returns what to report of it; empty if it is
// noted already.
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

// holdByPolicy holds a removal that has not terminated a node yet; there is nothing left to hold of what
// another client has deleted.
func (c *Candidate) holdByPolicy(h PolicyHold) {
	if c.Terminating {
		return
	}
	if message := noted(&c.policies, h); message != "" {
		c.hold(ReasonPolicy, message)
	}
}

// awaitHeldClasses has the objects wait that name a class which is held and does not exist yet: of such
// a pool no node would come.
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
		}
	}
}

// Policy is what a NodeSync allows.
type Policy struct {
	// Owner is the NodeSync.
	Owner Owner
	// OtherSyncs are the other NodeSyncs that exist. A label that names none of
	// them counts as no label.
	OtherSyncs []OtherSync
	Adopt      v1alpha1.AdoptPolicy
	Drift      v1alpha1.DriftPolicy
	Guard      v1alpha1.Guard
	// Policies are asked about the Plan. One that does not compile is an error of Make, and what one
	// denies is Refused.
	Policies []v1alpha1.Policy
	// Applied are the definitions, with the schema's defaults, as each was found or
	// written in the cluster last. What differs from one that Git has not changed
	// since is drift. For one that is not among them NewRevision counts.
	Applied map[render.Ref]*unstructured.Unstructured
	// NewRevision reports whether the Set's revision has not been applied whole
	// before. What differs from a revision that was is drift.
	NewRevision bool
	// StatusLost reports whether the status knows of no revision that was applied, so
	// that nobody can report whether an entry has left the repository.
	StatusLost bool
	// SetBack reports whether the Set's revision is an ancestor of the one that was applied:
	// the branch was set back, or a mirror lags behind.
	SetBack bool
	// HistoryUnknown reports whether this may be so: the history in between cannot be known.
	// Unasked reports that the Git host has not answered yet whether it is.
	HistoryUnknown, Unasked bool
	// StatusOlder reports whether only the record of what was applied tells that: the status was
	// restored, and so were the removals that it has.
	StatusOlder bool
	// Keeps says, with Deleting, that only the nodes go: the definitions stay.
	Keeps bool
	// Orphans reports whether what is removed from Git is orphaned, with its nodes.
	Orphans bool
	// Brakes reports whether a rollout whose launches fail is stopped (spec.rollout.onFailure): only then
	// do replacements count by what may be replaced at one time.
	Brakes bool
	// Braked are the NodePools, by name, whose rollout is stopped.
	Braked map[string]bool
	// Emergency is the annotation by which windows and freezes do not count for a while; empty if
	// there is none.
	Emergency string
	// Released are the UIDs of removals that a person has released by name.
	Released map[types.UID]bool
	// Moves are what takes the place of NodePools, by their UID, whose removal is not recorded yet, as the last Plan has
	// found it.
	Moves map[types.UID][]string
	// Approved are what people have approved of what was held.
	Approved []v1alpha1.ApprovedPlan
	// UsedUp are those whose release counts no more, as Git has had the object since.
	UsedUp map[types.UID]bool
	// Deleting reports whether the NodeSync itself is being deleted and takes
	// everything with it: there is no Set, and nothing is weighed.
	Deleting bool
	// Offline reports whether nothing is known of a cluster.
	Offline bool
	// Hosts are the pods of Karpenter's controller and of plumbline that run on
	// nodes of a NodePool.
	Hosts []Host
	// DaemonSets are those that nodes need until their last pod has ended.
	DaemonSets DaemonSets
	// Karpenter is what Git wants of its charts; nil if that is not known. It decides
	// nothing here, and is part of the Digest. ConfigFile is the file that it stands in.
	Karpenter  *render.Karpenter
	ConfigFile string
	// CABundle is the cluster's authorities as Karpenter has them in its hash of an EC2NodeClass:
	// PEM in base64; empty if it is not known.
	CABundle string
	// Answers are what AWS says to the Questions of a Plan that was made without them. NotAsked is
	// why it was not asked; empty if nothing more is known.
	Answers  map[render.Ref]Answer
	NotAsked string
	// Loads are what Karpenter's consolidation reads of nodes, for the LoadQuestions of a Plan that was made without
	// them; a node that is not in it may be consolidated.
	Loads map[types.UID]Load
	// Landing is whether the pods of pools that leave by a Plan without it find a place elsewhere.
	Landing Landing
	// Now is the time of the plan, with which the age of nodes is compared.
	Now time.Time
}

// Host is a pod without which no node is launched, drained or watched, and the
// NodePool whose node it runs on.
type Host struct {
	// NodePool and Node are where it runs.
	NodePool, Node string
	// Workload says what it belongs to, such as "Karpenter's controller".
	Workload string
	// Pod is its namespace and name.
	Pod string
}

// HostsOf are the pods of Karpenter's controller and of plumbline that run on
// nodes of one NodePool.
func (p Policy) HostsOf(pool string) []Host {
	var found []Host
	for _, h := range p.Hosts {
		if h.NodePool == pool {
			found = append(found, h)
		}
	}
	return found
}

// name is the NodeSync's namespace and name; empty if there is none.
func (p Policy) name() string {
	if p.Owner == (Owner{}) {
		return ""
	}
	return p.Owner.String()
}

// cluster is the name of the cluster in Git; empty if that is not known.
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

// PolicyOf is what a NodeSync allows for a Set; nil if it is deleted. all are the
// NodeSyncs that exist, in every namespace: the label of one that exists counts,
// wherever it lives. Nothing is known of what they have in Git.
func PolicyOf(sync *v1alpha1.NodeSync, all []v1alpha1.NodeSync, set *render.Set) Policy {
	policy := Policy{
		Owner:       OwnerOf(sync.Namespace, sync.Name),
		Adopt:       sync.Spec.Adopt,
		Drift:       sync.Spec.Drift,
		Guard:       sync.Spec.Guard,
		Policies:    sync.Spec.Policies,
		NewRevision: set == nil || isNew(sync, set),
		StatusLost:  sync.Status.LastAppliedRevision == "",
		Emergency:   sync.Annotations[v1alpha1.EmergencyAnnotation],
		Released:    released(sync),
		UsedUp:      usedUp(sync),
		Approved:    sync.Status.Approved,
		Deleting:    !sync.DeletionTimestamp.IsZero(),
		Orphans:     sync.Spec.Removal.Strategy == v1alpha1.RemovalOrphan,
		Brakes:      sync.Spec.Rollout.OnFailure != v1alpha1.RolloutReport,
		Braked:      sync.Status.BrakedPools(),
		ConfigFile:  render.ConfigFile(sync.Spec.Path),
	}
	for i := range all {
		if owner := OwnerOf(all[i].Namespace, all[i].Name); owner != policy.Owner {
			policy.OtherSyncs = append(policy.OtherSyncs, OtherSync{Owner: owner})
		}
	}
	return policy
}

// isNew reports whether a Set was made of anything else than the one that was applied
// last. A status of before inputs were noted goes by the revision.
func isNew(sync *v1alpha1.NodeSync, set *render.Set) bool {
	if sync.Status.LastAppliedInputs == "" {
		return sync.Status.LastAppliedRevision != set.Revision
	}
	return sync.Status.LastAppliedInputs != set.Fingerprint()
}
