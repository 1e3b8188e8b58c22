package removal

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
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
// are not: nodes may be left whose pool cannot be seen. Where none is, no object
// is left, and EC2 says whether an instance is.
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
	return fault.Waits(fmt.Errorf(
		"drain the nodes: %s: install Karpenter's CRDs again, or set onDelete: Orphan to keep the nodes", established.Message))
}
