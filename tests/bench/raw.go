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
	rawConnections = 8
	// rawTries is how often a write that lost a race is tried.
	rawTries = 5
	// rawRounds is the maximum number of applies of all objects; it stops earlier if two consecutive rounds are close
	// enough.
	rawRounds = 4
	// rawClose is the maximum difference, as a share of the larger one.
	rawClose = 0.1
)

// raw is the time that only the API server takes for the writes of a row, for each measurement.
type raw struct {
	applier rawApplier
	// one is the fleet whose only pool is applied next to each small change.
	one              *fleet
	first, ones, all []time.Duration
}

// openRaw opens the connections, and applies the pair that is changed next to each small change.
func (b *bench) openRaw(ctx context.Context) error {
	var err error
	if b.raw.applier, err = newRawApplier(ctx, b.kube.Config); err != nil {
		return err
	}
	return b.openRawOne(ctx)
}

func (b *bench) openRawOne(ctx context.Context) error {
	b.raw.one = newFleet("", "raw-one-", 2)
	_, err := b.raw.applier.measure(ctx, b.raw.one.all())
	return err
}

// rawOne applies a change of one pool.
func (b *bench) rawOne(ctx context.Context) error {
	took, err := b.raw.applier.measure(ctx, []definition{b.raw.one.changeOne(0)})
	b.raw.ones = append(b.raw.ones, took)
	return err
}

// rawAll applies as many objects as a fleet has, changes all of them and deletes them again, until two times are close.
func (b *bench) rawAll(ctx context.Context) error {
	for range rawRounds {
		f := newFleet("", "raw-", b.options.Objects)
		first, err := b.raw.applier.measure(ctx, f.classes(), f.pools())
		if err != nil {
			return err
		}
		f.changeAll()
		all, err := b.raw.applier.measure(ctx, f.classes(), f.pools())
		if err != nil {
			return err
		}
		if err := b.takeAway(ctx, f); err != nil {
			return err
		}
		stable := agrees(b.raw.first, first) && agrees(b.raw.all, all)
		b.raw.first, b.raw.all = append(b.raw.first, first), append(b.raw.all, all)
		if stable {
			return nil
		}
	}
	return nil
}

// agrees reports whether the last time is close to another.
func agrees(before []time.Duration, now time.Duration) bool {
	if len(before) == 0 {
		return false
	}
	last := before[len(before)-1]
	return float64((now - last).Abs()) <= rawClose*float64(max(now, last))
}

// takeAway deletes what was applied for a measurement, pools first.
func (b *bench) takeAway(ctx context.Context, f *fleet) error {
	for _, list := range [][]definition{f.pools(), f.classes()} {
		if err := b.raw.applier.each(ctx, list, func(ctx context.Context, client dynamic.Interface, d definition) error {
			return client.Resource(d.kind).Delete(ctx, d.name, metav1.DeleteOptions{})
		}); err != nil {
			return err
		}
	}
	return nil
}

// clear deletes all definitions.
func (g *ground) clear(ctx context.Context) error {
	for _, kind := range []schema.GroupVersionResource{nodePools, nodeClasses} {
		if err := g.objects.Resource(kind).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
			return fmt.Errorf("delete the %s: %w", kind.Resource, err)
		}
		if err := g.await(ctx, "the "+kind.Resource+" to go", func(ctx context.Context) (bool, error) {
			left, err := g.objects.Resource(kind).List(ctx, metav1.ListOptions{Limit: 1})
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
		// client-go shares a connection between equal configurations.
		own.Dial = new(net.Dialer).DialContext
		client, err := dynamic.NewForConfig(own)
		if err != nil {
			return nil, fmt.Errorf("make a client: %w", err)
		}
		// The connection exists before the clock starts, as the daemon's does.
		if _, err := client.Resource(nodePools).List(ctx, metav1.ListOptions{Limit: 1}); err != nil {
			return nil, fmt.Errorf("open a connection: %w", err)
		}
		all = append(all, client)
	}
	return all, nil
}

// measure applies definitions, one list after another.
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
	return a.each(ctx, list, func(ctx context.Context, client dynamic.Interface, d definition) error {
		return write(ctx, client, d, bodies[d])
	})
}

// each calls do for each definition, over all connections.
func (a rawApplier) each(ctx context.Context, list []definition, do func(context.Context, dynamic.Interface, definition) error) error {
	todo := make(chan definition, len(list))
	for _, d := range list {
		todo <- d
	}
	close(todo)
	group, ctx := errgroup.WithContext(ctx)
	for _, client := range a {
		group.Go(func() error {
			for d := range todo {
				if err := do(ctx, client, d); err != nil {
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
