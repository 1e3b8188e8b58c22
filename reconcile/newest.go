package reconcile

import (
	"context"
	"fmt"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

const (
	// catchUp is how long the watch cache is given, at first, to have what the last
	// pass wrote.
	catchUp = 10 * time.Millisecond
	// lagging is how long it is waited for. Then the API server itself is asked.
	lagging = time.Second
)

// newest is the NodeSync that a pass goes by: the cache's, unless that is older than
// what the last pass wrote. Then it is looked at again after wait, and when the cache
// has lagged for long, the API server's is taken. Where that is older, too, the API
// server was restored to an earlier state: all that is remembered is of a state that
// never was, and is dropped.
func (r *Reconciler) newest(ctx context.Context, cached *v1alpha1.NodeSync) (sync *v1alpha1.NodeSync, wait time.Duration, err error) {
	name := client.ObjectKeyFromObject(cached)
	m, now := r.memories.recall(name, cached.UID), r.Settings.Now()
	if !m.older(cached) {
		m.behind = time.Time{}
		return cached, 0, nil
	}
	if m.behind.IsZero() || now.Before(m.behind) {
		m.behind = now
	}
	if lag := now.Sub(m.behind); lag < lagging {
		return nil, max(lag, catchUp), nil
	}
	sync = &v1alpha1.NodeSync{}
	if err := r.Uncached.Get(ctx, name, sync); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return nil, lagging, nil // the cache has yet to learn of it
		}
		return nil, 0, fmt.Errorf("read NodeSync %s, which the cache has in an older version: %w", name, err)
	}
	if m.older(sync) {
		ctrl.LoggerFrom(ctx).Info("the API server has an older version of the NodeSync than was written: it was restored, and what is remembered is dropped",
			"written", m.conclude.Saved, "restored", sync.ResourceVersion)
		r.memories.forget(name)
		r.Reports.Forget(name)
	}
	return sync, 0, nil
}
