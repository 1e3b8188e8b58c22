package flux

import (
	"context"
	"errors"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/source"
	"github.com/plumbline-dev/plumbline/render"
)

// Either fetches from a Git host, or takes what Flux has fetched, as a request says. Of an artifact no
// history is known: a verdict on it is reported on its own commit only.
type Either struct {
	*source.Git
	*Sources
	Artifacts *Store
}

// Fetch is that of source.Git, or of Store.
func (e Either) Fetch(ctx context.Context, req source.Request) (*render.Snapshot, time.Time, error) {
	if req.Artifact == nil {
		if err := e.leave(req.Key); err != nil {
			return nil, time.Time{}, err
		}
		return e.Git.Fetch(ctx, req)
	}
	if err := e.Git.Forget(req.Key); err != nil {
		return nil, time.Time{}, err
	}
	return e.Artifacts.Fetch(ctx, req.Key, *req.Artifact)
}

// leave drops what is of Flux for a key that follows it no more.
func (e Either) leave(key string) error {
	namespace, name, _ := strings.Cut(key, "/")
	e.Sources.Forget(types.NamespacedName{Namespace: namespace, Name: name})
	return e.Artifacts.Forget(key)
}

// Since is that of source.Git.
func (e Either) Since(ctx context.Context, key, applied string, read render.Read, limit int) (commits []string, known bool) {
	if e.Artifacts.Holds(key) {
		return nil, true
	}
	return e.Git.Since(ctx, key, applied, read, limit)
}

// FindSince is that of source.Git.
func (e Either) FindSince(ctx context.Context, req source.Request, applied string, read render.Read, limit int) ([]string, error) {
	if req.Artifact != nil {
		return nil, nil
	}
	return e.Git.FindSince(ctx, req, applied, read, limit)
}

// Order is that of source.Git, or of Store.
func (e Either) Order(key, commit string) source.Order {
	if e.Artifacts.Holds(key) {
		return e.Artifacts.Order(key, commit)
	}
	return e.Git.Order(key, commit)
}

// FindOrder is that of source.Git, or Order: nobody else can be asked of an artifact.
func (e Either) FindOrder(ctx context.Context, req source.Request, commit string) (source.Order, error) {
	if req.Artifact != nil {
		order := e.Artifacts.Order(req.Key, commit)
		if order == source.OrderUnknown {
			return order, &source.HistoryError{Since: commit, Reason: "Flux keeps no artifact but the newest, and when it had made that one is not known"}
		}
		return order, nil
	}
	return e.Git.FindOrder(ctx, req, commit)
}

// Forget drops what is stored for a NodeSync that is gone.
func (e Either) Forget(key string) error { return errors.Join(e.leave(key), e.Git.Forget(key)) }
