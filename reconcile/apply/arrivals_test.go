package apply_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/apply"
	"github.com/plumbline-dev/plumbline/reconcile/apply/applytest"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

var otherOwner = plan.OwnerOf("plumbline-system", "another")

// plannedByAnother is what another NodeSync plans at the same time.
func (c *cluster) plannedByAnother(t *testing.T, definitions ...string) *plan.Plan {
	t.Helper()
	another := *c
	another.policy.Owner = otherOwner
	return another.plan(t, definitions...)
}

func TestOfTwoNodeSyncsTheFirstKeepsAnObject(t *testing.T) {
	tests := map[string]struct {
		// before is done to the cluster before both plan.
		before func(t *testing.T, c *cluster)
	}{
		"that both make": {func(*testing.T, *cluster) {}},
		"that both adopt": {func(t *testing.T, c *cluster) {
			c.Edit(t, general, "loader", func(o *unstructured.Unstructured) {
				o.Object["spec"] = c.Definition(t, pool).Desired.Object["spec"]
			})
		}},
		"that both adopt from a person": {func(t *testing.T, c *cluster) {
			c.Edit(t, general, "kubectl-create", func(o *unstructured.Unstructured) {
				o.Object["spec"] = c.Definition(t, pool).Desired.Object["spec"]
			})
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, class)
			test.before(t, c)
			first, second := c.plan(t, class, pool), c.plannedByAnother(t, pool)
			var arrivals apply.Arrivals
			options := apply.Options{Uncached: c, Arrivals: &arrivals, Owner: owner}
			if err := apply.Apply(t.Context(), c, first.Changes, options).Err(); err != nil {
				t.Fatal(err)
			}
			options.Owner = otherOwner
			var stale *apply.StaleError
			if err := apply.Apply(t.Context(), c, second.Changes, options).Err(); !errors.As(err, &stale) {
				t.Errorf("got %v, want a StaleError", err)
			}
			if !owner.Owns(c.Object(general)) {
				t.Errorf("taken by the second: %v", c.Object(general).GetLabels())
			}
		})
	}
}

// elsewhere is an API server as another NodeSync sees it: empty, and it takes
// no write.
type elsewhere struct{}

func (elsewhere) Get(_ context.Context, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	return apierrors.NewNotFound(schema.GroupResource{Resource: "nodepools"}, key.Name)
}

func (elsewhere) List(context.Context, client.ObjectList, ...client.ListOption) error { return nil }

var errWritten = errors.New("the second wrote, too")

func (elsewhere) Patch(context.Context, client.Object, client.Patch, ...client.PatchOption) error {
	return errWritten
}

func TestAnObjectIsMadeByOneAtATime(t *testing.T) {
	c := newCluster(t, class)
	first, second := c.plan(t, class, pool), c.plannedByAnother(t, pool)
	options := apply.Options{Uncached: c, Arrivals: &apply.Arrivals{}, Owner: owner}
	var inside error
	c.Fault = func(applytest.Write) error { // the first has looked, and is about to write
		inside = apply.Apply(t.Context(), elsewhere{}, second.Changes, apply.Options{Uncached: elsewhere{}, Arrivals: options.Arrivals, Owner: otherOwner}).Err()
		return nil
	}
	if err := apply.Apply(t.Context(), c, first.Changes, options).Err(); err != nil {
		t.Fatal(err)
	}
	var stale *apply.StaleError
	if !errors.As(inside, &stale) {
		t.Errorf("the second got %v, want a StaleError", inside)
	}
	after := apply.Apply(t.Context(), elsewhere{}, second.Changes, apply.Options{Uncached: elsewhere{}, Arrivals: options.Arrivals, Owner: otherOwner}).Err()
	if !errors.Is(after, errWritten) {
		t.Errorf("a name is not free again when the first is done: %v", after)
	}
}

// asking counts what is read past the cache.
type asking struct {
	*applytest.Server
	gets, lists int
	unlisted    error
}

func (a *asking) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	a.gets++
	return a.Server.Get(ctx, key, object, options...)
}

func (a *asking) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	a.lists++
	if a.unlisted != nil {
		return a.unlisted
	}
	return a.Server.List(ctx, list, options...)
}

// fleet is a class and some NodePools.
func fleet(pools int) []string {
	texts := []string{class}
	for i := range pools {
		texts = append(texts, strings.Replace(pool, "general", fmt.Sprintf("general-%d", i), 1))
	}
	return texts
}

func TestNamesAreAskedForOnceWhereManyArrive(t *testing.T) {
	for name, tc := range map[string]struct {
		pools       int
		unlisted    error
		gets, lists int
	}{
		"one":                      {1, nil, 2, 0},
		"some":                     {15, nil, 16, 0},
		"many":                     {16, nil, 1, 1},
		"many, and no right to it": {16, errWritten, 17, 1},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			uncached := &asking{Server: c.Server, unlisted: tc.unlisted}
			options := apply.Options{Uncached: uncached, Arrivals: &apply.Arrivals{}, Owner: owner}
			if err := apply.Apply(t.Context(), c, c.plan(t, fleet(tc.pools)...).Changes, options).Err(); err != nil {
				t.Fatal(err)
			}
			if uncached.gets != tc.gets || uncached.lists != tc.lists {
				t.Errorf("%d gets and %d lists, want %d and %d", uncached.gets, uncached.lists, tc.gets, tc.lists)
			}
		})
	}
}

// TestOfManyArrivalsNoneIsTakenFromAnother: the names are asked for once, and
// each stays one's own until it is made.
func TestOfManyArrivalsNoneIsTakenFromAnother(t *testing.T) {
	c := newCluster(t)
	first, second := c.plan(t, fleet(20)...), c.plannedByAnother(t, fleet(20)...)
	var arrivals apply.Arrivals
	var inside []error
	c.Fault = func(applytest.Write) error { // the first has asked, and is about to write
		inside = append(inside, apply.Apply(t.Context(), elsewhere{}, second.Changes[1:2], apply.Options{Uncached: elsewhere{}, Arrivals: &arrivals, Owner: otherOwner}).Err())
		return nil
	}
	options := apply.Options{Uncached: c, Arrivals: &arrivals, Owner: owner}
	if err := apply.Apply(t.Context(), c, first.Changes, options).Err(); err != nil {
		t.Fatal(err)
	}
	// The class is written first: the pools are not being made yet.
	if !errors.Is(inside[0], errWritten) {
		t.Errorf("before its stage the second got %v", inside[0])
	}
	var stale *apply.StaleError
	if !errors.As(inside[1], &stale) {
		t.Errorf("the second got %v, want a StaleError", inside[1])
	}
	options.Owner = otherOwner
	result := apply.Apply(t.Context(), c, second.Changes, options)
	if len(result.Written) > 0 || len(result.Failed) != len(second.Changes) {
		t.Errorf("the second wrote %d of %d", len(result.Written), len(second.Changes))
	}
}
