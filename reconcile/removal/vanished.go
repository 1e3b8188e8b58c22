package removal

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/apply"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// Vanished finds the NodePools that were applied and that another client has deleted. One that is in Git is recreated,
// but its nodes are lost; for one that is no longer in Git, EC2 was not queried yet, so it becomes a removal.
func (s *Step) Vanished(ctx context.Context) ([]plan.Vanished, error) {
	if !s.Served && s.Sync.DeletionTimestamp.IsZero() {
		return nil, nil // everything was deleted with the CRDs; objects that are recreated are handled then
	}
	if err := s.recallApplied(ctx); err != nil {
		return nil, err
	}
	live := s.Live
	live.Removals = s.Sync.Status.Removals
	found, wanted, err := vanished(ctx, s.Nodes.Uncached, s.Memory.applied.Record, live, s.Set)
	if err != nil {
		return nil, err
	}
	return found, s.reportLostPools(ctx, append(wanted, s.terminating()...))
}

// Vanished returns the NodePools that were applied according to a record, that the Set does not contain, and that
// another client has deleted. live.Removals are the recorded removals.
func Vanished(ctx context.Context, reader client.Reader, record apply.Record, live plan.Live, set *render.Set) ([]plan.Vanished, error) {
	found, _, err := vanished(ctx, reader, record, live, set)
	return found, err
}

// vanished returns those, and the deleted NodePools that the Set contains.
func vanished(
	ctx context.Context, reader client.Reader, record apply.Record, live plan.Live, set *render.Set,
) (found []plan.Vanished, wanted []apply.RecordEntry, err error) {
	var left []apply.RecordEntry
	for _, e := range apply.Vanished(record, live.Objects) {
		switch {
		case e.Ref.Kind != render.NodePool, hasStarted(live.Removals, e.UID):
		case inGit(set, e.Ref):
			wanted = append(wanted, e)
		default:
			left = append(left, e)
		}
	}
	missing, err := apply.Missing(ctx, reader, left)
	for _, e := range missing {
		found = append(found, plan.Vanished{Ref: e.Ref, UID: e.UID})
	}
	return found, wanted, err
}

// hasStarted reports whether the removal of an object has started, that is, it is no longer held.
func hasStarted(removals []v1alpha1.Removal, uid types.UID) bool {
	return slices.ContainsFunc(removals, func(r v1alpha1.Removal) bool {
		return r.UID == uid && r.Phase != v1alpha1.RemovalHeld
	})
}

// terminating returns the NodePools in Git that another client has deleted in the foreground: they exist until their
// nodes are gone.
func (s *Step) terminating() []apply.RecordEntry {
	if s.Set == nil {
		return nil
	}
	var found []apply.RecordEntry
	for _, object := range s.Set.Objects {
		live := s.Live.Objects[object.Ref]
		if object.Ref.Kind != render.NodePool || live == nil || hasStarted(s.Sync.Status.Removals, live.GetUID()) {
			continue
		}
		if _, deleted, _ := unstructured.NestedString(live.Object, "metadata", "deletionTimestamp"); deleted {
			found = append(found, apply.RecordEntry{Ref: object.Ref, UID: live.GetUID()})
		}
	}
	return found
}

// reportLostPools reports once which nodes are lost with a NodePool in Git that was deleted by hand. NodePools that
// were deleted with a CRD are reported with the CRD.
func (s *Step) reportLostPools(ctx context.Context, pools []apply.RecordEntry) error {
	var names []string
	nodes := 0
	for _, e := range pools {
		if s.Memory.lost[e.UID] {
			continue
		}
		if s.Memory.lost == nil {
			s.Memory.lost = map[types.UID]bool{}
		}
		if orphans := s.orphans(e); len(orphans) > 0 {
			s.Memory.lost[e.UID] = true
			s.Warn(v1alpha1.ReasonNodesOrphaned, fmt.Sprintf("a NodePool was deleted by hand with --cascade=orphan, and %d %s running without an owner: %s: delete those that you do not need", len(orphans), english.PluralWord(len(orphans), "NodeClaim keeps", "NodeClaims keep"), finding.Some(orphans)))
			continue
		}
		lost := s.nodesLost(e)
		if len(lost) == 0 {
			continue
		}
		s.Memory.lost[e.UID] = true
		nodes += len(lost)
		names = append(names, lost...)
	}
	if nodes == 0 {
		return nil
	}
	kind, _ := render.KindOf(render.NodePool)
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := s.Nodes.Client.Get(ctx, client.ObjectKey{Name: kind.CRD}, crd); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read crd %s: %w", kind.CRD, err)
	}
	if crd.DeletionTimestamp != nil {
		return nil
	}
	after := "plumbline recreates it from Git, but these nodes terminate"
	if s.Sync.Spec.Drift == v1alpha1.DriftReport {
		after = "plumbline does not recreate it, because drift is Report"
	}
	slices.Sort(names)
	s.Warn(v1alpha1.ReasonNodesLost, fmt.Sprintf("a NodePool was deleted by hand, so %d %s: %s: %s",
		nodes, english.PluralWord(nodes, "NodeClaim terminates", "NodeClaims terminate"), finding.Some(names), after))
	return nil
}

// nodesLost returns the NodeClaims, with their nodes, that are terminated with a pool.
func (s *Step) nodesLost(pool apply.RecordEntry) []string {
	var lost []string
	for _, n := range s.Live.NodeClaims {
		if n.PoolUID == pool.UID || n.PoolUID == "" && n.Pool == pool.Ref.Name && n.Deleting {
			lost = append(lost, strings.TrimSuffix(fmt.Sprintf("%s: %s (%s)", pool.Ref, n.Name, n.Node), " ()"))
		}
	}
	return lost
}

// orphans returns the NodeClaims, with their nodes, that a deleted pool leaves behind: those of a pool that is deleted
// with --cascade=orphan, and those that have lost their owner and are not terminating.
func (s *Step) orphans(pool apply.RecordEntry) []string {
	live := s.Live.Objects[pool.Ref]
	leaving := live != nil && live.GetUID() == pool.UID && slices.Contains(live.GetFinalizers(), metav1.FinalizerOrphanDependents)
	var left []string
	for _, n := range s.Live.NodeClaims {
		if leaving && n.PoolUID == pool.UID || n.PoolUID == "" && n.Pool == pool.Ref.Name && !n.Deleting {
			left = append(left, strings.TrimSuffix(fmt.Sprintf("%s: %s (%s)", pool.Ref, n.Name, n.Node), " ()"))
		}
	}
	slices.Sort(left)
	return left
}
