package reconcile

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
)

// seeNamespace notes whether the NodeSync goes with its namespace: nothing can be
// created there any more, and what plumbline keeps there, and its rights to it, go
// in no order. An older role cannot say.
func (p *pass) seeNamespace(ctx context.Context) error {
	namespace := &corev1.Namespace{}
	err := p.Uncached.Get(ctx, client.ObjectKey{Name: p.sync.Namespace}, namespace)
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
		return fmt.Errorf("read namespace %s: %w", p.sync.Namespace, err)
	}
	p.namespaceGoes = namespace.DeletionTimestamp != nil
	return nil
}

// recordable ends a drain in a namespace that is being deleted: a removal is
// recorded before it begins, and no record can be written there.
func (p *pass) recordable(context.Context) error {
	if !p.namespaceGoes {
		return nil
	}
	return &fault.Error{Class: fault.Waiting, Reason: v1alpha1.ReasonNamespaceTerminating, Err: fmt.Errorf(
		"namespace %s is being deleted, and no ConfigMap can be created in it: a removal is recorded in one before it begins, so nothing is drained; "+
			"set onDelete: Orphan to leave the nodes and let the namespace go (kubectl patch nodesync %s -n %s --type=merge -p '{\"spec\":{\"onDelete\":\"Orphan\"}}')",
		p.sync.Namespace, p.sync.Name, p.sync.Namespace)}
}
