package watch

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

const (
	// CatchUp is the first delay for the watch cache to receive what the last reconcile wrote.
	CatchUp = 10 * time.Millisecond
	// cacheLagTimeout is how long to wait for it. Then the API server itself is read.
	cacheLagTimeout = time.Second
)

// CacheLag measures how long the watch cache has been older than what the last reconcile wrote. The zero value has seen
// no lag.
type CacheLag struct {
	since time.Time
}

// Newest is the NodeSync to reconcile.
type Newest struct {
	// Sync is that NodeSync; nil to check again after Wait.
	Sync *v1alpha1.NodeSync
	Wait time.Duration
	// Restored reports whether the API server itself has an older one than was written: it was restored from a backup,
	// and what is in memory no longer applies.
	Restored bool
}

// Newest returns the cached NodeSync, unless it is older than the resourceVersion that the last reconcile wrote: its
// conditions and removals would be outdated, and plumbline could terminate nodes because of a decision that was
// reverted. If the cache has lagged for too long, Newest reads the API server. It returns an error if that fails.
func (l *CacheLag) Newest(
	ctx context.Context, cached *v1alpha1.NodeSync, written string, server client.Reader, now time.Time,
) (Newest, error) {
	if !Older(cached.ResourceVersion, written) {
		l.since = time.Time{}
		return Newest{Sync: cached}, nil
	}
	if l.since.IsZero() || now.Before(l.since) {
		l.since = now
	}
	if lag := now.Sub(l.since); lag < cacheLagTimeout {
		return Newest{Wait: max(lag, CatchUp)}, nil
	}
	sync, name := &v1alpha1.NodeSync{}, client.ObjectKeyFromObject(cached)
	if err := server.Get(ctx, name, sync); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return Newest{Wait: cacheLagTimeout}, nil // the cache has yet to see the deletion
		}
		return Newest{}, fmt.Errorf("read NodeSync %s, which the cache has in an older version: %w", name, err)
	}
	newest := Newest{Sync: sync, Restored: Older(sync.ResourceVersion, written)}
	if newest.Restored {
		ctrl.LoggerFrom(ctx).Info("the API server has an older version of the NodeSync than was written: it was restored, and what is remembered is dropped",
			"written", written, "restored", sync.ResourceVersion)
	}
	return newest, nil
}

// Older reports whether the cached resourceVersion is older than the written one. It is false if nothing was written,
// or if one of them cannot be parsed.
func Older(cached, written string) bool {
	order, err := resourceversion.CompareResourceVersion(cached, written)
	return err == nil && order < 0
}
