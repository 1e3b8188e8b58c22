package reconcile

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/watch"
)

// A reconcile waits for a cache that does not have the last reconcile's writes yet: its conditions and removals are
// outdated.
func TestNoPassOverAnOlderNodeSync(t *testing.T) {
	b := newBed(t, nodeSync(unchanged))
	before := b.read()
	b.reconcile()
	if b.read().ResourceVersion == before.ResourceVersion {
		t.Fatal("the first pass wrote nothing, so that nothing can be stale")
	}
	fetched, patched := len(b.source.requests), *b.patches

	fresh := b.Client
	b.Client = interceptor.NewClient(b.client, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if sync, ok := obj.(*v1alpha1.NodeSync); ok {
				before.DeepCopyInto(sync)
				return nil
			}
			return c.Get(ctx, key, obj, opts...)
		},
	})
	result, err := b.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(before)})
	if err != nil || result.RequeueAfter != watch.CatchUp {
		t.Errorf("over a stale cache: %v, %v; want another look in %s", result, err, watch.CatchUp)
	}
	if len(b.source.requests) != fetched || *b.patches != patched {
		t.Errorf("over a stale cache: %d fetches and %d patches", len(b.source.requests)-fetched, *b.patches-patched)
	}

	b.Client = fresh
	if result := b.reconcile(); result.RequeueAfter == watch.CatchUp {
		t.Error("the cache has caught up, and the pass still waits")
	}
}

// TestAWriteIsReportedThoughTheStatusIsNot shows that, if another client has changed the NodeSync meanwhile, the next
// reconcile finds everything again except what this one has written.
func TestAWriteIsReportedThoughTheStatusIsNot(t *testing.T) {
	b := newBed(t, nodeSync(unchanged))
	p := b.pass()
	p.Wait("charts", "the CRDs are not Established yet")
	p.Wrote("Normal", "ChartInstalled", "chart karpenter 1.14.1 is installed (revision 2)")
	p.Event("Removed", "NodePool/batch is gone")
	other := b.read()
	other.Annotations = map[string]string{"reconcile.fluxcd.io/requestedAt": "now"}
	if err := b.client.Update(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	if result, err := p.conclude(t.Context()); err != nil || result.RequeueAfter > time.Second {
		t.Fatalf("conclude() = %v, %v", result, err)
	}
	if diff := cmp.Diff([]string{"Normal ChartInstalled chart karpenter 1.14.1 is installed (revision 2)"}, b.told()); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}
