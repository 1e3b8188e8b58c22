package reconcile

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/source"
)

// fetched runs a fetch and reports whether the source was queried.
func (b *bed) fetched(sync *v1alpha1.NodeSync) (p *pass, asked bool, err error) {
	before := len(b.source.requests)
	p = b.begin(sync)
	err = p.fetch(b.t.Context())
	return p, len(b.source.requests) > before, err
}

// look is one reconcile: what happened before it, and whether it must query the source.
type look struct {
	after  time.Duration
	change func(*bed, *v1alpha1.NodeSync)
	asks   bool
	// behind is how long ago the fetch that answers began.
	behind time.Duration
	// fails: there is no Snapshot to continue with; goesOn: it continues with the last one.
	fails, goesOn bool
	// wake is when the next reconcile is due.
	wake time.Duration
}

func TestFetchPolicy(t *testing.T) {
	const interval, retry = 10 * time.Minute, time.Minute
	fails := func(b *bed, _ *v1alpha1.NodeSync) { b.source.err = errors.New("no route") }
	heals := func(b *bed, _ *v1alpha1.NodeSync) { b.source.err = nil }
	pushes := func(b *bed, _ *v1alpha1.NodeSync) {
		b.memories.Push(types.NamespacedName{Namespace: namespace, Name: "prod"}, b.clock.now())
	}
	requests := func(at string) func(*bed, *v1alpha1.NodeSync) {
		return func(_ *bed, n *v1alpha1.NodeSync) {
			n.Annotations = map[string]string{meta.ReconcileRequestAnnotation: at}
		}
	}
	cases := map[string][]look{
		"again at the interval": {
			{asks: true, wake: interval},
			{after: time.Minute, wake: 9 * time.Minute},
			{after: 9 * time.Minute, asks: true, wake: interval},
		},
		"at once when asked for": {
			{asks: true, wake: interval},
			{after: time.Second, change: requests("t1"), asks: true, wake: interval},
			{after: time.Second, wake: interval - time.Second},
			{after: time.Second, change: requests("t2"), asks: true, wake: interval},
		},
		"at once when the spec changes": {
			{asks: true, wake: interval},
			{after: time.Second, change: func(_ *bed, n *v1alpha1.NodeSync) { n.Generation = 2 }, asks: true, wake: interval},
		},
		"at once when something was pushed": {
			{asks: true, wake: interval},
			{after: time.Minute, change: pushes, asks: true, wake: interval},
			{after: time.Second, wake: interval - time.Second},
		},
		"not when what was pushed is fetched already": {
			{asks: true, wake: interval},
			{change: pushes, wake: interval},
		},
		"a push that cannot be fetched": {
			{asks: true, wake: interval},
			{after: time.Minute, change: func(b *bed, n *v1alpha1.NodeSync) { fails(b, n); pushes(b, n) }, asks: true, goesOn: true, wake: retry},
			{after: time.Second, goesOn: true, wake: retry - time.Second},
			{after: time.Second, change: func(b *bed, n *v1alpha1.NodeSync) { heals(b, n); pushes(b, n) }, asks: true, wake: interval},
		},
		"in phase with whoever has fetched": {
			{asks: true, behind: time.Minute, wake: interval - time.Minute},
			{after: interval - time.Minute, change: fails, asks: true, behind: time.Second, goesOn: true, wake: retry - time.Second},
		},
		"a failure is tried again after retryInterval": {
			{change: fails, asks: true, fails: true, wake: retry},
			{after: 20 * time.Second, fails: true, wake: 40 * time.Second},
			{after: 40 * time.Second, change: heals, asks: true, wake: interval},
			{after: time.Minute, wake: interval - time.Minute},
		},
		"a failure after a success": {
			{asks: true, wake: interval},
			{after: interval, change: fails, asks: true, goesOn: true, wake: retry},
			{after: time.Second, goesOn: true, wake: retry - time.Second},
			{after: retry, change: heals, asks: true, wake: interval},
		},
		"a failure is tried again when asked for": {
			{change: fails, asks: true, fails: true, wake: retry},
			{after: time.Second, change: requests("t1"), asks: true, fails: true, wake: retry},
		},
		"a failure after the spec has changed": {
			{asks: true, wake: interval},
			{after: time.Second, change: func(b *bed, n *v1alpha1.NodeSync) { fails(b, n); n.Generation = 2 }, asks: true, fails: true, wake: retry},
		},
		"a clock that is put forward": {
			{asks: true, wake: interval},
			{after: 24 * time.Hour, asks: true, wake: interval},
			{after: time.Minute, wake: interval - time.Minute},
		},
		"a clock that is put back": {
			{asks: true, wake: interval},
			{after: -time.Hour, asks: true, wake: interval},
			{after: time.Minute, wake: interval - time.Minute},
		},
		"a clock that is put back after a failure": {
			{change: fails, asks: true, fails: true, wake: retry},
			{after: -time.Hour, change: heals, asks: true, wake: interval},
		},
		"a failure within the interval of a success": {
			{asks: true, wake: interval},
			{after: time.Second, change: func(b *bed, n *v1alpha1.NodeSync) { fails(b, n); requests("t1")(b, n) }, asks: true, goesOn: true, wake: retry},
			{after: retry, asks: true, goesOn: true, wake: retry},
			{after: retry, change: heals, asks: true, wake: interval},
		},
	}
	for name, looks := range cases {
		t.Run(name, func(t *testing.T) {
			sync := nodeSync(unchanged)
			b := newBed(t, sync.DeepCopy())
			for i, l := range looks {
				b.clock.forward(l.after)
				b.source.behind = l.behind
				if l.change != nil {
					l.change(b, sync)
				}
				p, asked, err := b.fetched(sync.DeepCopy())
				if asked != l.asks || (err != nil) != l.fails || (p.Unfetched != nil) != l.goesOn {
					t.Fatalf("look %d: asked %t, want %t; err %v, went on without %v", i, asked, l.asks, err, p.Unfetched)
				}
				var wake time.Duration
				if !p.WakeAt.IsZero() {
					wake = p.WakeAt.Sub(b.clock.now())
				}
				if wake != l.wake {
					t.Errorf("look %d: next pass in %s, want %s", i, wake, l.wake)
				}
				if err == nil && (p.snapshot == nil || p.sync.Status.LastAttemptedRevision != p.snapshot.Revision) {
					t.Errorf("look %d: attempted %q of %v", i, p.sync.Status.LastAttemptedRevision, p.snapshot)
				}
				if want := sync.Annotations[meta.ReconcileRequestAnnotation]; p.sync.Status.LastHandledReconcileAt != want {
					t.Errorf("look %d: handled %q, want %q", i, p.sync.Status.LastHandledReconcileAt, want)
				}
			}
		})
	}
}

func TestFetchRequest(t *testing.T) {
	sync := nodeSync(func(n *v1alpha1.NodeSync) {
		n.Spec.Source.Git.Ref = v1alpha1.GitRef{Tag: "v1"}
		n.Spec.Source.Git.SecretRef = &v1alpha1.LocalReference{Name: "token"}
	})
	b := newBed(t, sync)
	if _, _, err := b.fetched(b.read()); err != nil {
		t.Fatal(err)
	}
	want := source.Request{
		Key: namespace + "/prod", URL: sync.Spec.Source.Git.URL, Ref: v1alpha1.GitRef{Tag: "v1"},
		Credentials: source.Credentials{Username: "git", Password: "s3cret"},
	}
	if diff := cmp.Diff(want, b.source.requests[0]); diff != "" {
		t.Error(diff)
	}
	if !b.source.deadline {
		t.Error("the fetch has no deadline")
	}
}

// TestFetchIsDueSince shows that an answer must be as new as the reason for the fetch, and not newer, so that one fetch
// serves all NodeSyncs of a repository.
func TestFetchIsDueSince(t *testing.T) {
	created := metav1.NewTime(newClock().now().Add(-time.Hour))
	sync := nodeSync(func(n *v1alpha1.NodeSync) { n.CreationTimestamp = created })
	b := newBed(t, sync.DeepCopy())
	name := types.NamespacedName{Namespace: namespace, Name: "prod"}
	began := b.clock.now()
	var pushed, asked time.Time
	steps := []struct {
		name   string
		change func()
		want   func() time.Time
	}{
		{"the first", func() {}, func() time.Time { return created.Time }},
		{"the interval", func() { b.clock.forward(10*time.Minute + time.Second) }, func() time.Time { return began.Add(10 * time.Minute) }},
		{"a push", func() {
			pushed = b.clock.now().Add(time.Millisecond)
			b.memories.Push(name, pushed)
			b.clock.forward(time.Second)
		}, func() time.Time { return pushed }},
		{"a request", func() {
			b.clock.forward(time.Second)
			asked = b.clock.now()
			sync.Annotations = map[string]string{meta.ReconcileRequestAnnotation: "t1"}
		}, func() time.Time { return asked }},
		{"a store that is gone", func() { b.recall(name, sync.UID).fetch.Forget() }, func() time.Time { return created.Time }},
		{"a failure", func() {
			b.source.err = errors.New("no route")
			b.clock.forward(10 * time.Minute)
		}, func() time.Time { return asked.Add(10 * time.Minute) }},
		{"a try after it", func() { b.clock.forward(time.Minute + time.Second) }, func() time.Time { return asked.Add(11 * time.Minute) }},
	}
	for _, s := range steps {
		s.change()
		if _, fetched, _ := b.fetched(sync.DeepCopy()); !fetched {
			t.Fatalf("%s: no fetch", s.name)
		}
		if got := b.source.requests[len(b.source.requests)-1].NotBefore; !got.Equal(s.want()) {
			t.Errorf("%s: due since %s, want %s", s.name, got, s.want())
		}
	}
}

// TestUnreadableSnapshotIsFetchedAnew shows that a snapshot is fetched again if its store is gone or damaged.
func TestUnreadableSnapshotIsFetchedAnew(t *testing.T) {
	for name, c := range map[string]struct {
		err   error
		class fault.Class
		again time.Duration
	}{
		"superseded": {&source.StaleError{}, fault.Superseded, time.Second},
		"incomplete": {&source.MissingError{}, fault.Transient, time.Minute},
		"damaged":    {&source.StoreError{Err: errors.New("no pack")}, fault.Transient, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, nodeSync(unchanged))
			p := b.pass()
			p.takes(t.Context(), p.fetch, func(context.Context) error { return fmt.Errorf("render: %w", c.err) })
			if again := b.concluded(p); p.Fault.Class != c.class || again > c.again {
				t.Errorf("%s, again in %s", p.Fault.Class, again)
			}
			if _, asked, _ := b.fetched(b.read()); !asked {
				t.Error("the snapshot is used again")
			}
		})
	}
}

func TestMissingSecretNeedsAPerson(t *testing.T) {
	b := newBed(t, nodeSync(func(n *v1alpha1.NodeSync) { n.Spec.Source.Git.SecretRef = &v1alpha1.LocalReference{Name: "absent"} }))
	_, asked, err := b.fetched(b.read())
	f := fault.Classify(err)
	if asked || f == nil || f.Class != fault.Terminal || f.Reason != v1alpha1.ReasonSourceFailed {
		t.Errorf("asked %t, %+v", asked, f)
	}
}

// TestASecretIsSentToItsHostsOnly shows that a Secret is sent only to the hosts that it lists: whoever may create a
// NodeSync can name any Secret of the namespace, and any URL.
func TestASecretIsSentToItsHostsOnly(t *testing.T) {
	b := newBed(t, nodeSync(func(n *v1alpha1.NodeSync) {
		n.Spec.Source.Git.SecretRef = &v1alpha1.LocalReference{Name: "token"}
	}))
	sync := b.read()
	if _, asked, err := b.fetched(sync); err != nil || !asked || b.source.requests[0].Credentials.Password != "s3cret" {
		t.Fatalf("its own host: asked %t, %v", asked, err)
	}
	sync.Spec.Source.Git.URL = "https://evil.example.com/acme/fleet.git"
	sync.Generation++
	_, asked, err := b.fetched(sync)
	if f := fault.Classify(err); asked || f == nil || f.Class != fault.Terminal || f.Reason != v1alpha1.ReasonSecretRefused {
		t.Errorf("another host: asked %t, %+v", asked, f)
	}
}
