package reconcile

import "context"

// see reads what lives from the watch cache.
func (p *pass) see(ctx context.Context) (err error) {
	if p.live, err = p.view.Live(ctx); err != nil {
		return err
	}
	p.live.Removals = p.sync.Status.Removals
	return nil
}
