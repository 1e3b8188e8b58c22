package reconcile

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/reconcile/observe"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// see reads what lives from the watch cache. Before the CRDs are served there
// is nothing, and nothing is asked.
func (p *pass) see(ctx context.Context) error {
	p.live = plan.Live{Objects: map[render.Ref]*unstructured.Unstructured{}}
	established, err := p.view.Established(ctx)
	if err != nil {
		return err
	}
	p.served = established.Ready
	if established.Ready {
		if p.live, err = observe.Live(ctx, p.Client); err != nil {
			return err
		}
	}
	p.live.Removals = p.sync.Status.Removals
	return nil
}
