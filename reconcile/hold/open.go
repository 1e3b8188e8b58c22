package hold

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/grant"
)

// Secrets open conditions with Secrets of the NodeSync's namespace.
type Secrets struct {
	// Reader reads past the cache.
	Reader client.Reader
	// Grants say to which hosts one may be sent.
	Grants   grant.Policy
	NodeSync types.NamespacedName
}

// open reads what a condition is asked with.
func (s Secrets) open(ctx context.Context, of v1alpha1.RolloutHold) (credentials, error) {
	if of.SecretRef == nil {
		return credentials{}, nil
	}
	secret := &corev1.Secret{}
	if err := s.Reader.Get(ctx, types.NamespacedName{Namespace: s.NodeSync.Namespace, Name: of.SecretRef.Name}, secret); err != nil {
		return credentials{}, fmt.Errorf("read secret %s: %w", of.SecretRef.Name, err)
	}
	if err := s.Grants.Check(secret, grant.Use{NodeSync: s.NodeSync.Name, Address: of.URL}); err != nil {
		return credentials{}, err
	}
	return credentials{
		Token: string(secret.Data["token"]), Username: string(secret.Data["username"]), Password: string(secret.Data["password"]), CA: secret.Data["ca.crt"],
	}, nil
}
