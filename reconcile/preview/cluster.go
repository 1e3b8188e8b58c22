package preview

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/reconcile/grant"
	"github.com/plumbline-dev/plumbline/reconcile/inventory"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/removal"
)

// ownRights are those of a person who reads a Secret: it needs no annotation to be used.
var ownRights = grant.Policy{Unannotated: true}

// grants are the daemon's, or a person's.
func (s *Step) grants() grant.Policy {
	if s.Grants != nil {
		return *s.Grants
	}
	return ownRights
}

// WithheldError says that something is not read for a commit whose author is not trusted.
type WithheldError struct{ What string }

// Error names what is not read.
func (e *WithheldError) Error() string {
	return e.What + " is not read for a pull request from a fork"
}

// OutOfReach says that an error is of what the person who asks may or can read, and not of
// the commit: the daemon has other rights and another network.
func OutOfReach(err error) bool {
	var withheld *WithheldError
	if errors.As(err, &withheld) {
		return true
	}
	var unreachable *charts.UnreachableError
	var refused *charts.AuthError
	var untrusted *charts.CertificateError
	return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) ||
		errors.As(err, &unreachable) || errors.As(err, &refused) || errors.As(err, &untrusted)
}

// secret reads a Secret of the NodeSync's namespace.
func (s *Step) secret(ctx context.Context, name string) (*corev1.Secret, error) {
	if s.Withheld {
		return nil, &WithheldError{"secret " + name}
	}
	secret := &corev1.Secret{}
	return secret, s.Client.Get(ctx, client.ObjectKey{Namespace: s.sync.Namespace, Name: name}, secret)
}

// labelled reads what holds values of the chart.
func (s *Step) labelled(context.Context) (reader client.Reader, listed func() time.Duration, err error) {
	if s.Withheld {
		return nil, nil, &WithheldError{"what valuesFrom names"}
	}
	return s.Client, func() time.Duration { return 0 }, nil
}

// seeVanished finds the NodePools that were applied and that another client has deleted.
func (s *Step) seeVanished(ctx context.Context) {
	if !s.out.Live.Served {
		return
	}
	record, err := inventory.Load(ctx, s.Client, s.sync)
	if err == nil {
		s.out.Live.Recorded = record.Record.Objects
		s.recordLost = removal.RecordLost(record, plan.OwnerOf(s.sync.Namespace, s.sync.Name), s.out.Live, s.out.Set)
		s.out.Live.Vanished, err = removal.Vanished(ctx, s.Nodes, record.Record, s.out.Live, s.out.Set)
	}
	if err != nil {
		s.warn("whether a NodePool that left Git was deleted by hand is not known: %v", err)
	}
}

// hosts are the pods of Karpenter's controller and of plumbline that run on nodes of a
// NodePool.
func (s *Step) hosts(ctx context.Context) ([]plan.Host, error) {
	if len(s.out.Live.NodeClaims) == 0 {
		return nil, nil
	}
	if s.Own != nil {
		return s.view.PoolHosts(ctx, s.sync.Status.Karpenter, *s.Own, s.out.Live.NodeClaims)
	}
	pods := &corev1.PodList{}
	if err := s.Client.List(ctx, pods, client.InNamespace(s.sync.Namespace), client.MatchingLabels{"app.kubernetes.io/name": "plumbline"}); err != nil {
		return nil, fmt.Errorf("read which nodes plumbline runs on: %w", err)
	}
	found, err := s.view.PoolHosts(ctx, s.sync.Status.Karpenter, plan.Host{}, s.out.Live.NodeClaims)
	for i := range pods.Items {
		pod := &pods.Items[i]
		if err != nil || pod.Spec.NodeName == "" || pod.DeletionTimestamp != nil {
			continue
		}
		own := plan.Host{Workload: "plumbline", Pod: pod.Namespace + "/" + pod.Name, Node: pod.Spec.NodeName}
		var placed []plan.Host
		placed, err = s.view.PoolHosts(ctx, nil, own, s.out.Live.NodeClaims)
		found = append(found, placed...)
	}
	return found, err
}
