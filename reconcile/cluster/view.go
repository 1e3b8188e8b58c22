// Package cluster reads the facts of one cluster that a pass goes by: Karpenter's CRDs, its
// controller and where that runs, and what the charts have made there.
package cluster

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/observe"
)

// View is one cluster as one pass sees it. Each fact out of the watch cache is read
// once, so that two steps never see two answers.
type View struct {
	// Cached is the watch cache, and Uncached the API server itself.
	Cached, Uncached client.Reader
	// Definitions is shared by all passes over the watch cache; nil remembers none.
	Definitions *observe.Definitions
	// Memory is what earlier passes have read.
	Memory *Memory

	established *observe.Readiness
	controllers map[string][]appsv1.Deployment
}

// Memory is what one pass leaves to the next so that unchanged things are not read again.
// The zero value remembers nothing.
type Memory struct {
	templates templates
	hosts     hosts
	// daemonSets are those that nodes need.
	daemonSets daemonSets
}

// Changed forgets what was read: the pass has changed the charts.
func (v *View) Changed() { v.established, v.controllers = nil, nil }

// Controllers are the Deployments of Karpenter's controller in a namespace, found by
// their label, whichever tool installed them.
func (v *View) Controllers(ctx context.Context, namespace string) ([]appsv1.Deployment, error) {
	if known, read := v.controllers[namespace]; read {
		return known, nil
	}
	found := &appsv1.DeploymentList{}
	err := v.Cached.List(ctx, found, client.InNamespace(namespace), client.MatchingLabels(observe.ControllerLabels()))
	if err != nil {
		return nil, fmt.Errorf("find Karpenter's Deployment in %s: %w", namespace, err)
	}
	if v.controllers == nil {
		v.controllers = map[string][]appsv1.Deployment{}
	}
	v.controllers[namespace] = found.Items
	return found.Items, nil
}

// Claims are the NodeClaims that live; none where their kind is not served.
func (v *View) Claims(ctx context.Context) ([]observe.Claim, error) {
	if established, err := v.Established(ctx); err != nil || !established.Ready {
		return nil, err
	}
	return observe.Claims(ctx, v.Cached)
}
