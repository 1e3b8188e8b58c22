package install

import (
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/plumbline-dev/plumbline/provision/karpenter"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade"
	"github.com/plumbline-dev/plumbline/render"
)

// forecast finds the pools whose nodes a change of the version may replace, while
// the CRDs of both versions are at hand.
func (s *Step) forecast(seen *upgrade.Seen, live, next []*apiextensionsv1.CustomResourceDefinition) error {
	effects, err := karpenter.Effects(karpenter.Upgrade{
		From: s.k().Version, To: s.Charts.Version, Old: live, New: next,
		Classes: s.Live.OfKind(render.EC2NodeClass), Pools: s.Live.OfKind(render.NodePool),
	})
	if err != nil {
		return err
	}
	var words []string
	for _, effect := range effects {
		if effect.MayReplace() {
			seen.ExpectedPools = append(seen.ExpectedPools, effect.Pool)
			words = append(words, fmt.Sprintf("nodes of %s %s", effect.Pool, effect))
		}
	}
	if len(words) == 0 {
		words = []string{"no node is replaced"}
	}
	s.Event(v1alpha1.ReasonUpgradeForecast, fmt.Sprintf("Karpenter %s to %s: %s", s.k().Version, s.Charts.Version, finding.Some(words)))
	return nil
}
