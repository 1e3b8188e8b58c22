package removal

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// Drainable returns an error if a drain cannot be recorded, or cannot see every pool.
func (s *Step) Drainable(ctx context.Context) (Result, error) {
	if err := s.recordable(ctx); err != nil {
		return Result{}, err
	}
	return Result{}, s.servedOrGone(ctx)
}

// recordable returns an error if the namespace is being deleted: a removal is recorded before it starts, and no record
// can be created there.
func (s *Step) recordable(ctx context.Context) error {
	if goes, err := s.namespaceGoes(ctx); err != nil || !goes {
		return err
	}
	return fault.NamespaceTerminating(fmt.Errorf(
		"namespace %s is terminating, so plumbline cannot create the ConfigMap that records a removal, and drains no node; "+
			"set onDelete: Orphan to keep the nodes and let the namespace be deleted (kubectl patch nodesync %s -n %s --type=merge -p '{\"spec\":{\"onDelete\":\"Orphan\"}}')",
		s.Sync.Namespace, s.Sync.Name, s.Sync.Namespace))
}

// namespaceGoes reports whether the NodeSync's namespace is being deleted: nothing can be created there any more, and
// plumbline's objects and permissions there are deleted in no particular order. With an older role, which may not read
// namespaces, the result is false.
func (s *Step) namespaceGoes(ctx context.Context) (bool, error) {
	namespace := &corev1.Namespace{}
	err := s.Uncached.Get(ctx, client.ObjectKey{Name: s.Sync.Namespace}, namespace)
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
		return false, fmt.Errorf("read namespace %s: %w", s.Sync.Namespace, err)
	}
	return namespace.DeletionTimestamp != nil, nil
}

// servedOrGone returns an error if some of Karpenter's kinds are served and some are not, while objects of the served
// ones are left: nodes may run whose pool is not visible. If a CRD is deleted, all its objects are gone; if no object
// of any kind is left, EC2 reports whether instances are.
func (s *Step) servedOrGone(ctx context.Context) error {
	established, err := s.View.Established(ctx)
	if err != nil || established.Ready {
		return err
	}
	missing, err := s.View.MissingCRDs(ctx)
	if err != nil {
		return err
	}
	if len(missing) == len(cluster.CRDNames()) {
		return nil
	}
	left, err := s.leftBeside(ctx, missing)
	if err != nil || left == "" && len(missing) > 0 && !s.Sync.KeepsDefinitions() {
		return err
	}
	if left != "" {
		left = ", but " + left + " still exists"
	}
	return fault.Waits(fmt.Errorf(
		"drain the nodes: %s%s: install Karpenter's CRDs again, or set onDelete: Orphan to keep the nodes", established.Message, left))
}

// leftBeside returns one object of the NodeSync, read past the cache, of the kinds whose CRDs exist; empty if there is
// none. A kind that cannot be read may have some.
func (s *Step) leftBeside(ctx context.Context, missing []string) (string, error) {
	if err := s.recallApplied(ctx); err != nil {
		return "", err
	}
	for _, kind := range cluster.Kinds() {
		if slices.Contains(missing, kind.CRD) {
			continue
		}
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind.GVK.GroupVersion().WithKind(kind.GVK.Kind + "List"))
		err := s.Nodes.Uncached.List(ctx, list)
		if served := !meta.IsNoMatchError(err) && !apierrors.IsNotFound(err); !served && kind.Optional() {
			continue
		} else if !served {
			return "an object of CRD " + kind.CRD + " possibly", nil
		}
		if err != nil {
			return "", fmt.Errorf("list the remaining objects of Karpenter's kinds: %w", err)
		}
		for i := range list.Items {
			if object := &list.Items[i]; s.mayBeOurs(kind, object) {
				return kind.GVK.Kind + "/" + object.GetName(), nil
			}
		}
	}
	return "", nil
}

// mayBeOurs reports whether an object belongs to the NodeSync, or is a NodeClaim of a pool that it has applied. Without
// a record, every NodeClaim may be one.
func (s *Step) mayBeOurs(kind render.Kind, object metav1.Object) bool {
	applied := s.Memory.applied
	if kind.CRD == cluster.NodeClaimCRD {
		return !applied.Exists() || applied.Record.Pools[object.GetLabels()[karpv1.NodePoolLabelKey]]
	}
	ref := render.RefTo(kind.GVK.Kind, object)
	return s.owner().Owns(object) || applied.Record.Objects[ref] == object.GetUID()
}

// FinishDrained completes the drain of a deleted NodeSync once nothing of it is left: no object, read past the cache,
// and no instance in EC2.
func (s *Step) FinishDrained(ctx context.Context) (Result, error) {
	if s.Sync.KeepsDefinitions() || len(s.Sync.Status.Removals) > 0 {
		return Result{}, nil
	}
	if waits, err := s.awaitRelabelled(ctx); err != nil || waits {
		return Result{}, err
	}
	again, done, err := s.nothingLives(ctx)
	if err != nil || !done {
		return Result{}, err
	}
	how, err := s.nothingRuns(ctx)
	if err != nil || how == "" {
		return Result{}, err
	}
	how = strings.Join(append([]string{how}, again...), "; ")
	if err := s.Memory.applied.Drop(ctx, s.Client); err != nil {
		s.Memory.applied = nil
		return Result{}, err
	}
	return Result{Ended: how}, nil
}

// nothingLives reports whether every object is gone, read past the cache, and which NodePools without a node another
// client has recreated.
func (s *Step) nothingLives(ctx context.Context) (again []string, done bool, err error) {
	if !s.Served {
		return nil, true, nil
	}
	live, err := cluster.Live(ctx, s.Nodes.Uncached)
	if err != nil {
		return nil, false, err
	}
	live.Recorded = s.Recorded()
	left, err := s.Left(ctx, live)
	if err != nil {
		return nil, false, err
	}
	if len(left.Kept) > 0 {
		s.WaitFor("NodeSync/"+left.Kept[0].By, left.Kept[0].Message, left.Kept[0].Since, s.Sync.GetStallAfter())
		return nil, false, nil
	}
	if len(left.Removals) > 0 {
		s.Wait(left.Removals[0].Ref.String(), "it still exists")
		s.wakeNow()
		return nil, false, nil
	}
	again, waits := s.awaitRecreated(live)
	return again, !waits, nil
}

// reasonInstancesLeft is the reason of a removal that was found by its instances.
const reasonInstancesLeft = "InstancesLeft"

// nothingRuns queries EC2, at the end of a drain, for all instances of the cluster that Karpenter has launched. If one
// is not terminated and belongs to a deleted pool of this NodeSync, a removal is recorded for the pool and waited for
// like any other. nothingRuns returns how the drain completed; empty until then.
func (s *Step) nothingRuns(ctx context.Context) (how string, err error) {
	store := s.Memory.applied
	if store.Exists() && len(store.Record.Pools) == 0 || !store.Exists() && s.Cluster == "" {
		return "it has applied no NodePool", nil
	}
	if s.Cluster == "" {
		s.Wait("EC2", "the cluster name of the NodePools is no longer recorded, so plumbline cannot verify in EC2 that their instances are terminated: set onDelete: Orphan to keep them")
		return "", nil
	}
	if gate := s.cloudGate(); !gate.Open {
		s.Wait("EC2", "plumbline cannot verify in EC2 that no instance is left: "+gate.Message+"; set onDelete: Orphan to keep the nodes")
		return "", nil
	}
	if !finding.Due(s.Now, s.Memory.askedAt, s.AskEvery) {
		s.Wait("EC2", "plumbline queries EC2 for remaining instances")
		s.WakeBy(s.Memory.askedAt.Add(s.AskEvery))
		return "", nil
	}
	s.Memory.askedAt = s.Now
	ec2, err := s.EC2(ctx, s.Region)
	if err != nil {
		return "", err
	}
	found, err := ec2.Instances(ctx, cloud.Query{Cluster: s.Cluster, AllPools: true})
	left := leftover(found, s.countedPools())
	switch {
	case len(left) > 0:
		s.recordLeftover(left)
		return "", nil
	case err != nil:
		s.Wait("EC2", fmt.Sprintf("query EC2 for remaining instances: %s", err))
		s.WakeBy(s.Now.Add(s.AskEvery))
		return "", nil
	}
	return "EC2 has terminated all of its instances", nil
}

// countedPools returns which pools' instances delay the completion of a drain: deleted pools that this NodeSync has
// applied. Without a record of these, all pools that do not exist count.
func (s *Step) countedPools() func(pool string) bool {
	recorded := s.Memory.applied.Exists()
	pools := s.Memory.applied.Record.Pools
	return func(pool string) bool {
		living := s.Live.Objects[render.Ref{Kind: render.NodePool, Name: pool}] != nil
		return !living && (pools[pool] || !recorded)
	}
}

// leftover returns the number of instances that are not terminated, by pool.
func leftover(found []cloud.Instance, counts func(pool string) bool) map[string]int {
	left := map[string]int{}
	for _, i := range found {
		if !i.Gone() && i.Pool != "" && counts(i.Pool) {
			left[i.Pool]++
		}
	}
	return left
}

// recordLeftover records a removal for each pool that has instances left. Its object no longer exists, so neither does
// its UID.
func (s *Step) recordLeftover(left map[string]int) {
	now := s.timestamp()
	for _, pool := range slices.Sorted(maps.Keys(left)) {
		s.Sync.Status.Removals = append(s.Sync.Status.Removals, v1alpha1.Removal{
			Kind: render.NodePool, Name: pool, UID: types.UID("instances-of-" + pool), Revision: plan.RevisionDeleted,
			RecordedAt: now, Phase: v1alpha1.RemovalPacing, Since: now, LastProgress: now,
			Remaining: int32(left[pool]), Reason: reasonInstancesLeft, Message: "its NodePool is deleted, but instances of it still run in EC2",
		})
		s.Warn(reasonInstancesLeft, fmt.Sprintf("NodePool/%s is deleted, but EC2 still has %s of it that are not terminated",
			pool, english.Plural(left[pool], "instance", "")))
		s.wakeNow()
	}
}
