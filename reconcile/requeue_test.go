package reconcile

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/source"
	"github.com/plumbline-dev/plumbline/render"
)

// passesIn counts the consecutive reconciles within a time, if only what they request triggers them.
func (b *bed) passesIn(during time.Duration, pass func() time.Duration) int {
	b.t.Helper()
	n := 0
	for end := b.clock.at.Add(during); b.clock.at.Before(end); n++ {
		again := pass()
		if again <= 0 {
			b.t.Fatalf("the pass asks for the next one after %s", again)
		}
		b.clock.forward(again)
	}
	return n
}

// requeueBurst is how many reconciles may follow each other at once.
const requeueBurst = 20

// TestNothingSpins shows that a NodeSync that keeps requesting reconciles gets a few at once and then one each second.
func TestNothingSpins(t *testing.T) {
	cases := map[string]func(*pass){
		"at once":     func(p *pass) { p.WakeBy(p.now) },
		"in the past": func(p *pass) { p.WakeBy(p.now.Add(-time.Hour)) },
		"overtaken":   stopped(t, &source.StaleError{}),
	}
	for name, f := range cases {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, nodeSync(unchanged))
			pass := func() time.Duration { return b.concluded(b.pass(), f) }
			if n := b.passesIn(time.Second, pass); n > requeueBurst+2 {
				t.Errorf("%d passes in the first second", n)
			}
			if n := b.passesIn(time.Minute, pass); n > 60+requeueBurst {
				t.Errorf("%d passes in the next minute", n)
			}
		})
	}
}

// TestAFewPassesAtOnceDoNotWait shows that a few consecutive reconciles are not delayed.
func TestAFewPassesAtOnceDoNotWait(t *testing.T) {
	b := newBed(t, nodeSync(unchanged))
	for i := range requeueBurst {
		if again := b.concluded(b.pass(), func(p *pass) { p.WakeBy(p.now) }); again != time.Millisecond {
			t.Fatalf("pass %d: the next one after %s", i, again)
		}
	}
}

// TestLaunchesWithoutAnEventDoNotSpin shows this, and that one event that cannot be read does not block the others.
func TestLaunchesWithoutAnEventDoNotSpin(t *testing.T) {
	const pools = 8
	b := newBed(t, nodeSync(unchanged), eventOn("claim-7", "insufficient capacity"))
	b.Cluster.Uncached = interceptor.NewClient(b.client, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			events, ok := list.(*corev1.EventList)
			if !ok {
				return c.List(ctx, list, opts...)
			}
			options := (&client.ListOptions{}).ApplyOptions(opts)
			if options.FieldSelector.Matches(fieldOf("claim-7")) {
				return c.List(ctx, events, opts...)
			}
			return errors.New("the API server does not answer")
		},
	})
	set := &render.Set{}
	for i := range pools {
		name := fmt.Sprintf("pool-%d", i)
		set.Objects = append(set.Objects, render.Object{Ref: render.Ref{Kind: render.NodePool, Name: name}})
		claim := refusedLaunch(fmt.Sprintf("claim-%d", i))
		claim.Labels["karpenter.sh/nodepool"] = name
		b.Cluster.Launches.See(claim)
	}
	explained := false
	n := b.passesIn(time.Second, func() time.Duration {
		p := b.pass()
		p.want.Set = set
		p.takes(t.Context(), p.seeLaunches)
		return b.concluded(p)
	})
	if n > 2 {
		t.Errorf("%d passes in a second", n)
	}
	b.passesIn(10*time.Second, func() time.Duration {
		p := b.pass()
		p.want.Set = set
		p.takes(t.Context(), p.seeLaunches)
		explained = explained || len(p.LaunchFailures) > 0
		return b.concluded(p)
	})
	if !explained {
		t.Error("the pool whose event can be read is never named")
	}
}

// fieldOf returns an event on an object, as a field selector sees it.
func fieldOf(name string) eventFields { return eventFields(name) }

type eventFields string

func (e eventFields) Has(field string) bool { return field == "involvedObject.name" }

func (e eventFields) Get(string) string { return string(e) }

// TestARestoredAPIServerIsBelieved shows that an API server that keeps returning a NodeSync older than what was written
// is trusted.
func TestARestoredAPIServerIsBelieved(t *testing.T) {
	b := newBed(t, nodeSync(unchanged))
	before := b.read()
	b.reconcile()
	if b.read().ResourceVersion == before.ResourceVersion {
		t.Fatal("the first pass wrote nothing, so that nothing can be older")
	}
	restored := interceptor.NewClient(b.client, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if sync, ok := obj.(*v1alpha1.NodeSync); ok {
				before.DeepCopyInto(sync)
				return nil
			}
			return c.Get(ctx, key, obj, opts...)
		},
	})
	b.Client, b.Uncached = restored, restored
	fetched := len(b.source.requests)
	n := b.passesIn(2*time.Second, func() time.Duration {
		result, err := b.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(before)})
		if err != nil {
			t.Fatal(err)
		}
		return result.RequeueAfter
	})
	if n > requeueBurst+15 {
		t.Errorf("%d passes in two seconds", n)
	}
	if len(b.source.requests) == fetched {
		t.Error("the restored API server is still waited for")
	}
}

// TestACacheThatLagsIsGoneAround shows that a reconcile uses the API server's answer if the cache lags behind what was
// written.
func TestACacheThatLagsIsGoneAround(t *testing.T) {
	b := newBed(t, nodeSync(unchanged))
	before := b.read()
	b.reconcile()
	b.Client = interceptor.NewClient(b.client, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if sync, ok := obj.(*v1alpha1.NodeSync); ok {
				before.DeepCopyInto(sync)
				return nil
			}
			return c.Get(ctx, key, obj, opts...)
		},
	})
	memory := b.pass().memory
	waits := 0
	for ; waits < 50; waits++ {
		sync, wait, err := b.newest(t.Context(), before.DeepCopy())
		if err != nil {
			t.Fatal(err)
		}
		if wait == 0 {
			if sync.ResourceVersion != b.read().ResourceVersion {
				t.Errorf("goes by version %s", sync.ResourceVersion)
			}
			break
		}
		b.clock.forward(wait)
	}
	if waits == 0 || waits > 15 {
		t.Errorf("looked %d times", waits)
	}
	if b.pass().memory != memory {
		t.Error("what is remembered was dropped, and nothing was restored")
	}
}
