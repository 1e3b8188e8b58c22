package bench

import (
	"context"
	"fmt"
	"net"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

const (
	rawPrefix      = "raw-"
	rawConnections = 8
	// rawTries is how often a write that lost a race is tried.
	rawTries = 5
)

// raw is what the API server alone takes for the writes of a row.
type raw struct {
	first, one, all time.Duration
}

// measureRaw applies the same objects, under other names, before the daemon
// runs, and takes them away again.
func (b *bench) measureRaw(ctx context.Context) error {
	a, err := newRawApplier(ctx, b.kube.Config)
	if err != nil {
		return err
	}
	f := newFleet(b.options.Objects)
	if b.raw.first, err = a.measure(ctx, f.classes(rawPrefix), f.pools(rawPrefix)); err != nil {
		return err
	}
	var ones []time.Duration
	for i := range b.options.Repeat {
		took, err := a.measure(ctx, []definition{f.pool(rawPrefix, f.changeOne(i))})
		if err != nil {
			return err
		}
		ones = append(ones, took)
	}
	b.raw.one = median(ones)
	f.changeAll()
	if b.raw.all, err = a.measure(ctx, f.classes(rawPrefix), f.pools(rawPrefix)); err != nil {
		return err
	}
	return b.clear(ctx)
}

// clear takes all definitions away.
func (b *bench) clear(ctx context.Context) error {
	for _, kind := range []schema.GroupVersionResource{nodePools, nodeClasses} {
		if err := b.objects.Resource(kind).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
			return fmt.Errorf("delete the %s of the raw apply: %w", kind.Resource, err)
		}
		if err := b.await(ctx, "the "+kind.Resource+" of the raw apply to go", func(ctx context.Context) (bool, error) {
			left, err := b.objects.Resource(kind).List(ctx, metav1.ListOptions{Limit: 1})
			return err == nil && len(left.Items) == 0, err
		}); err != nil {
			return err
		}
	}
	return nil
}

// rawApplier writes over several connections, one request at a time on each.
type rawApplier []dynamic.Interface

func newRawApplier(ctx context.Context, config *rest.Config) (rawApplier, error) {
	var all rawApplier
	for range rawConnections {
		own := rest.CopyConfig(config)
		// client-go shares a connection between configurations that are the same.
		own.Dial = new(net.Dialer).DialContext
		client, err := dynamic.NewForConfig(own)
		if err != nil {
			return nil, fmt.Errorf("make a client: %w", err)
		}
		// The connection is there before the clock starts, as the daemon's is.
		if _, err := client.Resource(nodePools).List(ctx, metav1.ListOptions{Limit: 1}); err != nil {
			return nil, fmt.Errorf("open a connection: %w", err)
		}
		all = append(all, client)
	}
	return all, nil
}

// measure applies definitions, one list after the other.
func (a rawApplier) measure(ctx context.Context, lists ...[]definition) (time.Duration, error) {
	bodies := map[definition][]byte{}
	for _, list := range lists {
		for _, d := range list {
			body, err := d.json()
			if err != nil {
				return 0, err
			}
			bodies[d] = body
		}
	}
	began := time.Now()
	for _, list := range lists {
		if err := a.apply(ctx, list, bodies); err != nil {
			return 0, err
		}
	}
	return time.Since(began), nil
}

func (a rawApplier) apply(ctx context.Context, list []definition, bodies map[definition][]byte) error {
	todo := make(chan definition, len(list))
	for _, d := range list {
		todo <- d
	}
	close(todo)
	group, ctx := errgroup.WithContext(ctx)
	for _, client := range a {
		group.Go(func() error {
			for d := range todo {
				if err := write(ctx, client, d, bodies[d]); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

func write(ctx context.Context, client dynamic.Interface, d definition, body []byte) error {
	force := true
	options := metav1.PatchOptions{FieldManager: "raw", Force: &force}
	for try := 1; ; try++ {
		_, err := client.Resource(d.kind).Patch(ctx, d.name, types.ApplyPatchType, body, options)
		if err == nil {
			return nil
		}
		if !apierrors.IsConflict(err) || try == rawTries {
			return fmt.Errorf("apply %s %s: %w", d.kind.Resource, d.name, err)
		}
	}
}
