// Package removal takes away what has left Git, and what a NodeSync leaves behind that is
// being deleted. Candidates of a Plan and what lives go in; status.removals, and the record
// of what was applied (package inventory), come out of it. Each removal is recorded first,
// and taken one step further in each later pass by package teardown, which is the rule and
// the driver; this package says on which terms. It never forces, and never waits.
package removal

import (
	"context"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/inventory"
	"github.com/plumbline-dev/plumbline/reconcile/observe"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/teardown"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade"
	"github.com/plumbline-dev/plumbline/render"
)

// Tools are what a Step works with, the same for all NodeSyncs.
type Tools struct {
	// Client writes what is recorded beside the NodeSync to the API server; Uncached reads it past the cache.
	Client   client.Client
	Uncached client.Reader
	// Nodes is the cluster whose nodes end.
	Nodes cluster.Clients
	// EC2 is the client of a region.
	EC2 func(ctx context.Context, region string) (teardown.EC2, error)
	// AskEvery is the least time between two questions to EC2.
	AskEvery time.Duration
	// Log is what Karpenter's controller has logged last, for a diagnosis; empty if it cannot be read.
	Log func(context.Context) string
	// Gate says whether one of Karpenter's feature gates is on; nil where that is not known.
	Gate func(ctx context.Context, name string) (bool, error)
	// Denied is why the deletion guard denies Karpenter's controller the removal of its finalizers; empty if it does not. It
	// reads the API server. nil if nobody looks.
	Denied func(context.Context) string
	// StillLeader returns an error when the lease is no longer ours.
	StillLeader func(context.Context) error
	// Reached gets each phase that a removal comes to.
	Reached func(kind, phase string)
}

// Step is the work on removals of one pass over one NodeSync.
type Step struct {
	Tools
	finding.Findings

	// Sync is the NodeSync. Its status.removals and status.recentRemovals are the record; nothing else of it is
	// written. Before is the NodeSync as the cluster has it.
	Sync, Before *v1alpha1.NodeSync
	View         *cluster.View
	Memory       *Memory
	Now          time.Time

	// Set is what Git has; nil where the NodeSync is being deleted.
	Set *render.Set
	// Live is what lives of the definitions, and Served says that their kinds are.
	Live   plan.Live
	Served bool
	Plan   *plan.Plan
	// Revision is the Set's. Applied says that every arrival and change of it stands in
	// the cluster, Written are those of this pass, and Ready how far each definition is.
	Revision string
	Applied  bool
	Written  []plan.Write
	Ready    observe.ByRef

	// Controller says how far Karpenter's controller is, and Alive that it has a ready
	// replica.
	Controller observe.Readiness
	Alive      bool
	// Cluster is the name by which Karpenter tags instances, and Region where they are.
	Cluster, Region string
	// Account is what AWS says of the account; nil where it was not asked.
	Account *cloud.Verdict
	// GoesTo returns what names the NodeSync that an object goes to.
	GoesTo func(context.Context) (func(*unstructured.Unstructured) string, error)
	// ReadSince says whether Git was read since a time; if not, why, and when the next pass
	// is wanted, which reads it: zero where that is a retry.
	ReadSince func(at time.Time) (read bool, why string, wake time.Time)
	// Withheld is why it is in doubt that what the revision lacks was taken out of Git, as
	// the status is to keep it; nil where it was.
	Withheld func(ctx context.Context, sync *v1alpha1.NodeSync, relabelled func(context.Context) (bool, error)) *v1alpha1.Withheld
	// counts are the removals that begin once status.recentRemovals, read back, has them.
	counts map[types.UID]bool
	// Left plans for a NodeSync that has nothing in Git any more.
	Left func(ctx context.Context, live plan.Live) (*plan.Plan, error)
}

// Result is what a Step comes to.
type Result struct {
	// Writes are the writes to the cluster.
	Writes []teardown.Write
	// Ended says how the deletion of the NodeSync has ended; empty while it has not.
	Ended string
}

// Memory is what one pass leaves to the next so that unchanged things are not done
// again. The zero value remembers nothing.
type Memory struct {
	// applied is the record of what was applied; nil until it is read.
	applied *inventory.Store
	// lost are the NodePools whose nodes were reported lost with them.
	lost map[types.UID]bool
	// askedAt is when EC2 was asked last about removals, and absent are the instances that
	// its answers lack, and for how long.
	askedAt time.Time
	absent  map[string]teardown.Absence
	// evicted are the NodeClaims that end and whose pods are noted.
	evicted map[types.UID]bool
	// settled says that no pod is left without a node by a removal.
	settled bool
	// lease is the newest renewal of the lease of Karpenter's controller.
	lease upgrade.Renewal
	// diagnosedAt is when what keeps the nodes of removals was looked for.
	diagnosedAt time.Time
}

// wakeNow asks for a pass at once.
func (s *Step) wakeNow() { s.WakeBy(s.Now) }

// timestamp is the pass's time as status holds it.
func (s *Step) timestamp() metav1.Time { return metav1.NewTime(s.Now.Truncate(time.Second)) }

// wants says whether Git has an entry. A NodeSync that is being deleted has none.
func (s *Step) wants(ref render.Ref) bool { return wants(s.Set, ref) }

func wants(set *render.Set, ref render.Ref) bool {
	return set != nil && slices.ContainsFunc(set.Objects, func(o render.Object) bool { return o.Ref == ref })
}

func (s *Step) owner() plan.Owner { return plan.OwnerOf(s.Sync.Namespace, s.Sync.Name) }

// refOf is the entry of a removal.
func refOf(r v1alpha1.Removal) render.Ref { return render.Ref{Kind: r.Kind, Name: r.Name} }
