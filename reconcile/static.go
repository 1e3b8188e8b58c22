package reconcile

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/reconcile/upgrade"
	"github.com/plumbline-dev/plumbline/render"
)

// staticGate is the feature gate without which Karpenter does nothing for static pools
// (sigs.k8s.io/karpenter pkg/operator/options/options.go).
const staticGate = "StaticCapacity"

// seeStatic finds the static pools without a node that Karpenter passes over: such a
// pool is Ready, and no condition says why it is empty.
func (p *pass) seeStatic(ctx context.Context, words map[string]string) error {
	empty := p.emptyStatic()
	if len(empty) == 0 || p.sync.Status.Karpenter == nil {
		return nil
	}
	deployments, err := p.controllers(ctx)
	if err != nil {
		return err
	}
	for i := range deployments {
		containers, err := p.containers(ctx, &deployments[i])
		if err != nil {
			return err
		}
		if on, known := upgrade.FeatureGate(containers, staticGate); known && !on {
			for _, pool := range empty {
				words[pool] = "it is static (spec.replicas), and Karpenter's feature gate " + staticGate + " is off: set settings.featureGates.staticCapacity: true in the chart's values"
			}
		}
	}
	return nil
}

// emptyStatic are the static pools of the Set that want nodes and have no NodeClaim.
func (p *pass) emptyStatic() []string {
	var empty []string
	for _, object := range p.set.Objects {
		live := p.live.Objects[object.Ref]
		if object.Ref.Kind != render.NodePool || live == nil {
			continue
		}
		if replicas, found, err := unstructured.NestedInt64(live.Object, "spec", "replicas"); err == nil && found && replicas > 0 {
			empty = append(empty, object.Ref.Name)
		}
	}
	if len(empty) == 0 {
		return nil
	}
	has := map[string]bool{}
	for i := range p.live.NodeClaims {
		has[p.live.NodeClaims[i].Pool] = true
	}
	return slices.DeleteFunc(empty, func(pool string) bool { return has[pool] })
}
