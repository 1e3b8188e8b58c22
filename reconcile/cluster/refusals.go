package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/plumbline-dev/plumbline/render"
)

// Refusals are the watches that the API server rejects, or cannot serve because a conversion fails. A cache whose watch
// is rejected is empty or outdated, and looks like any other. The zero value is ready for use.
type Refusals struct {
	mu sync.Mutex
	of map[Reflector]refused
}

// Reflector fills one cache. It is *cache.Reflector of client-go.
type Reflector interface {
	LastSyncResourceVersion() string
	TypeDescription() string
}

// refused is one watch, and the resourceVersion that its cache had reached.
type refused struct {
	err error
	at  string
}

// Handle is the cache's handler for failing watches. It also calls client-go's handler, which logs the error.
func (r *Refusals) Handle(ctx context.Context, reflector *toolscache.Reflector, err error) {
	r.Note(reflector, err)
	toolscache.DefaultWatchErrorHandler(ctx, reflector, err)
}

// Note records an error of a watch, if it is a rejection.
func (r *Refusals) Note(reflector Reflector, err error) {
	if _, unconverted := Unconverted(err.Error()); !unconverted && !apierrors.IsForbidden(err) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.of == nil {
		r.of = map[Reflector]refused{}
	}
	r.of[reflector] = refused{err: err, at: reflector.LastSyncResourceVersion()}
}

// Err returns which watches are rejected; nil if none is. A watch whose cache has advanced since is no longer rejected:
// no callback reports that.
func (r *Refusals) Err() error {
	_, err := r.Apart()
	return err
}

// Apart is like Err, but separates the watches of some types, given by their descriptions, from all others.
func (r *Refusals) Apart(descriptions ...string) (of, others error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var errs []error
	for reflector, watch := range r.of {
		if reflector.LastSyncResourceVersion() != watch.at {
			delete(r.of, reflector)
			continue
		}
		err := fmt.Errorf("watch %s: %w", reflector.TypeDescription(), watch.err)
		if slices.Contains(descriptions, reflector.TypeDescription()) {
			of = errors.Join(of, err)
			continue
		}
		errs = append(errs, err)
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return of, errors.Join(errs...)
}

// Of returns why the API server rejects the watch of a kind of definitions; nil if it does not. A nil Refusals has
// none.
func (r *Refusals) Of(kind render.Kind) error {
	if r == nil {
		return nil
	}
	of, _ := r.Apart(TypeOf(kind))
	return of
}

// TypeOf returns how a watch of a kind of definitions describes its type (NewReflectorWithOptions in client-go
// tools/cache/reflector.go).
func TypeOf(kind render.Kind) string { return kind.GVK.String() }

// Forget drops the watches of one type: they have stopped, so their caches no longer advance.
func (r *Refusals) Forget(description string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for reflector := range r.of {
		if reflector.TypeDescription() == description {
			delete(r.of, reflector)
		}
	}
}
