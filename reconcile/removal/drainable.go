package removal

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/render"
)

// Drainable ends a drain that cannot be recorded, or that could not see every pool.
func (s *Step) Drainable(ctx context.Context) (Result, error) {
	if err := s.recordable(ctx); err != nil {
		return Result{}, err
	}
	return Result{}, s.servedOrGone(ctx)
}

// recordable ends a drain in a namespace that is being deleted: a removal is
// recorded before it begins, and no record can be written there.
func (s *Step) recordable(ctx context.Context) error {
	if goes, err := s.namespaceGoes(ctx); err != nil || !goes {
		return err
	}
	return fault.NamespaceTerminating(fmt.Errorf(
		"namespace %s is being deleted, and no ConfigMap can be created in it: a removal is recorded in one before it begins, so nothing is drained; "+
			"set onDelete: Orphan to leave the nodes and let the namespace go (kubectl patch nodesync %s -n %s --type=merge -p '{\"spec\":{\"onDelete\":\"Orphan\"}}')",
		s.Sync.Namespace, s.Sync.Name, s.Sync.Namespace))
}

// namespaceGoes says whether the NodeSync goes with its namespace: nothing can be
// created there any more, and what plumbline keeps there, and its rights to it, go
// in no order. An older role cannot say.
func (s *Step) namespaceGoes(ctx context.Context) (bool, error) {
	namespace := &corev1.Namespace{}
	err := s.Uncached.Get(ctx, client.ObjectKey{Name: s.Sync.Namespace}, namespace)
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
		return false, fmt.Errorf("read namespace %s: %w", s.Sync.Namespace, err)
	}
	return namespace.DeletionTimestamp != nil, nil
}

// servedOrGone ends a drain while some of Karpenter's kinds are served and some
// are not, and something is left in those that are there: nodes may be left whose
// pool cannot be seen. Of a CRD that is gone every object is, and where none is left
// of any, EC2 says whether an instance is.
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
	if err != nil || left == "" && len(missing) > 0 && !s.Sync.Keeps() {
		return err
	}
	if left != "" {
		left = ", and " + left + " is left"
	}
	return fault.Waits(fmt.Errorf(
		"drain the nodes: %s%s: install Karpenter's CRDs again, or set onDelete: Orphan to keep the nodes", established.Message, left))
}

// leftBeside is one object of the NodeSync that is left in the kinds whose CRDs are there, seen past the cache;
// empty where there is none. A kind of which nobody can be asked may have some.
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
		if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
			return "what may be there of " + kind.CRD, nil
		}
		if err != nil {
			return "", fmt.Errorf("find out what is left beside the CRDs that are gone: %w", err)
		}
		for i := range list.Items {
			if object := &list.Items[i]; s.mayBeOurs(kind, object) {
				return kind.GVK.Kind + "/" + object.GetName(), nil
			}
		}
	}
	return "", nil
}

// mayBeOurs says whether an object is the NodeSync's, or a NodeClaim of a pool that it has applied. Without a record
// each may be.
func (s *Step) mayBeOurs(kind render.Kind, object metav1.Object) bool {
	applied := s.Memory.applied
	if kind.CRD == cluster.NodeClaimCRD {
		return !applied.Exists() || applied.Record.Pools[object.GetLabels()[karpv1.NodePoolLabelKey]]
	}
	ref := render.Ref{Kind: kind.GVK.Kind, Name: object.GetName()}
	return s.owner().Owns(object) || applied.Record.Objects[ref] == object.GetUID()
}
