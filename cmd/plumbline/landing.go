package main

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/confine"
	"github.com/plumbline-dev/plumbline/provision/cloud/offers"
	"github.com/plumbline-dev/plumbline/reconcile/account"
	"github.com/plumbline-dev/plumbline/reconcile/landing"
)

// simulator simulates for the daemon where pods can go.
func simulator(uncached client.Reader, namespaces []string, runner *confine.Runner, clouds *account.Clouds) *landing.Simulator {
	return &landing.Simulator{Reader: uncached, Namespaces: namespaces, Confine: runner, Now: time.Now, Catalogs: &landing.Catalogs{
		Ask: func(ctx context.Context, region string) (*offers.Catalog, error) {
			aws, err := clouds.Within(awsPatience)(ctx, region)
			if err != nil {
				return nil, err
			}
			return aws.Catalog(ctx)
		},
	}}
}
