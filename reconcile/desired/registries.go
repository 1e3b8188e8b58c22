package desired

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/grant"
)

// openHost returns what the NodeSync has for a host that charts come from. It is
// asked when a host is, so that a pass without a pull reads no Secret, and each
// pull reads them again.
func (s *Step) openHost(ctx context.Context, host string) (charts.Credentials, error) {
	registry := s.registry(host)
	if registry == nil {
		return charts.Credentials{}, nil
	}
	var found charts.Credentials
	if ref := registry.SecretRef; ref != nil {
		secret, err := s.registrySecret(ctx, host, ref.Name)
		if err != nil {
			return charts.Credentials{}, err
		}
		if err := s.Grants.Check(secret, grant.Use{NodeSync: s.Sync.Name, Address: host}); err != nil {
			return charts.Credentials{}, err
		}
		if found, err = charts.CredentialsFromSecret(ctx, secret.Data, host); err != nil {
			return charts.Credentials{}, fmt.Errorf("read secret %s, which spec.charts.registries names for %s: %w", ref.Name, host, err)
		}
		found.Origin = "secret " + ref.Name
		s.HideCredential(found.Password)
	}
	if ref := registry.CertSecretRef; ref != nil {
		secret, err := s.registrySecret(ctx, host, ref.Name)
		if err != nil {
			return charts.Credentials{}, err
		}
		if found.CA, err = charts.AuthoritiesFromSecret(secret.Data); err != nil {
			return charts.Credentials{}, fmt.Errorf("read secret %s, which spec.charts.registries names for %s: %w", ref.Name, host, err)
		}
	}
	return found, nil
}

// registry is the NodeSync's entry for a host; nil where there is none.
func (s *Step) registry(host string) *v1alpha1.Registry {
	if s.Sync.Spec.Charts == nil {
		return nil
	}
	for i, registry := range s.Sync.Spec.Charts.Registries {
		if registry.Host == strings.ToLower(host) {
			return &s.Sync.Spec.Charts.Registries[i]
		}
	}
	return nil
}

func (s *Step) registrySecret(ctx context.Context, host, name string) (*corev1.Secret, error) {
	secret, err := s.Secret(ctx, name)
	if err != nil {
		err = fmt.Errorf("read secret %s, which spec.charts.registries names for %s: %w", name, host, err)
		return nil, fault.ChartFailed(err)
	}
	return secret, nil
}
