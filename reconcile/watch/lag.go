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
	// CatchUp is how long the watch cache is given, at first, to have what the last
	// pass wrote.
	CatchUp = 10 * time.Millisecond
	// patience is how long it is waited for. Then the API server itself is asked.
	patience = time.Second
)

// CacheLag follows how long the watch cache has lacked what the last reconcile wrote. The zero value
// has seen no lag.
type CacheLag struct {
	since time.Time
}

// Newest is the NodeSync that a reconcile goes by.
type Newest struct {
	// Sync is that NodeSync; nil if it is to be looked at again after Wait.
	Sync *v1alpha1.NodeSync
	Wait time.Duration
	// Restored reports whether the API server itself has an older one than was written: it was
	// restored to an earlier state, and what is remembered is of a state that never was.
	Restored bool
}

// Newest returns the cached NodeSync, unless that is older than the resourceVersion that the
// last reconcile wrote. A reconcile over it would go by conditions and removals of before: it could end
// nodes on an answer that has been taken back. When the cache has lagged for long, the API
// server's is taken. It returns an error where the API server cannot be read.
func (l *CacheLag) Newest(ctx context.Context, cached *v1alpha1.NodeSync, written string, server client.Reader, now time.Time) (Newest, error) {
	if !Older(cached.ResourceVersion, written) {
		l.since = time.Time{}
		return Newest{Sync: cached}, nil
	}
	if l.since.IsZero() || now.Before(l.since) {
		l.since = now
	}
	if lag := now.Sub(l.since); lag < patience {
		return Newest{Wait: max(lag, CatchUp)}, nil
	}
	sync, name := &v1alpha1.NodeSync{}, client.ObjectKeyFromObject(cached)
	if err := server.Get(ctx, name, sync); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return Newest{Wait: patience}, nil // the cache has yet to learn of it
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

// Older reports whether what the watch cache has is older than what was written, by their
// resourceVersions. Where nothing was written, or one of them cannot be read, it is not.
func Older(cached, written string) bool {
	order, err := resourceversion.CompareResourceVersion(cached, written)
	return err == nil && order < 0
}
