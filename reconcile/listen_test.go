package reconcile

import (
	"errors"
	"slices"
	"strings"
	"testing"

	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade/installtest"
	"github.com/plumbline-dev/plumbline/reconcile/watch"
	"github.com/plumbline-dev/plumbline/reconcile/watch/watchtest"
)

// listeningBed returns a bed with fake watches.
func listeningBed(t *testing.T, objects ...client.Object) (*bed, *watchtest.Cache) {
	t.Helper()
	b := newBed(t, nodeSync(unchanged), objects...)
	b.source.files = files(karpenterYAML)
	b.Cluster.Refusals = &cluster.Refusals{}
	f := watchtest.NewCache()
	f.Objects = b.Cluster.Client
	b.watches = f.Watches(b.Client.Scheme(), b.wakes(), b.Cluster.Refusals, b.clock.now)
	return b, f
}

// TestNoPassBeforeTheCachesAreFilled shows that a reconcile waits for the caches: otherwise, everything would seem to
// be deleted. Each watch starts once, and Karpenter's when its CRDs are served.
func TestNoPassBeforeTheCachesAreFilled(t *testing.T) {
	b, f := listeningBed(t)
	passes := func(what string, want bool) {
		t.Helper()
		before := b.read().ResourceVersion
		b.memories = watch.Memories[remembered]{}
		result := b.reconcile()
		if waits := result.RequeueAfter == watch.Filling; waits == want || waits && b.read().ResourceVersion != before {
			t.Fatalf("%s: a pass %t, want %t", what, !waits, want)
		}
	}
	f.Empty["Deployment"] = true
	passes("the cache of Deployments is empty", false)
	delete(f.Empty, "Deployment")
	passes("it has filled", true)
	if want := []string{"Deployment", "Event", "CustomResourceDefinition"}; !slices.Equal(f.Begun, want) {
		t.Fatalf("begun: %v, want %v", f.Begun, want)
	}
	for _, name := range cluster.CRDNames() {
		if err := b.client.Create(t.Context(), installtest.Served(name)); err != nil {
			t.Fatal(err)
		}
	}
	f.Empty["NodeClaim"] = true
	passes("the cache of NodeClaims is empty", false)
	delete(f.Empty, "NodeClaim")
	passes("it has filled", true)
	passes("once more", true)
	if len(f.Begun) != 6 || len(f.Ended) != 0 {
		t.Fatalf("begun: %v, ended: %v", f.Begun, f.Ended)
	}
	if err := b.client.Delete(t.Context(), installtest.Served("nodepools.karpenter.sh")); err != nil {
		t.Fatal(err)
	}
	passes("a CRD is gone", true)
	if len(f.Ended) != 3 {
		t.Fatalf("ended: %v, want all of Karpenter's kinds", f.Ended)
	}
	if err := b.client.Create(t.Context(), installtest.Served("nodepools.karpenter.sh")); err != nil {
		t.Fatal(err)
	}
	passes("it is back", true)
	if len(f.Begun) != 9 {
		t.Errorf("begun: %v, want those of Karpenter's kinds again", f.Begun)
	}
}

// reflector is a watch whose cache does not change.
type reflector struct{ at string }

func (r *reflector) LastSyncResourceVersion() string { return r.at }
func (*reflector) TypeDescription() string           { return "*v1.NodeClaim" }

// TestARefusedWatchIsReported shows that a refused watch is reported and stops the reconcile before it acts on missing
// objects in the cache, until the watch is allowed.
func TestARefusedWatchIsReported(t *testing.T) {
	b, _ := listeningBed(t)
	watch := &reflector{}
	words := errors.New(`User "system:serviceaccount:plumbline-system:plumbline" cannot list resource "nodeclaims" in API group "karpenter.sh" at the cluster scope`)
	b.Cluster.Refusals.Note(watch, apierrors.NewForbidden(schema.GroupResource{Group: "karpenter.sh", Resource: "nodeclaims"}, "", words))
	result := b.reconcile()
	ready := conditions.Get(b.read(), fluxmeta.ReadyCondition)
	if ready == nil || ready.Reason != "Forbidden" || !strings.Contains(ready.Message, "watch *v1.NodeClaim") || !strings.Contains(ready.Message, `resources: ["nodeclaims"], verbs: ["list"]`) {
		t.Errorf("ready: %+v", ready)
	}
	if len(b.source.requests) > 0 {
		t.Error("the pass went on")
	}
	if result.RequeueAfter != b.pass().sync.GetRetryInterval() {
		t.Errorf("looked at again in %s", result.RequeueAfter)
	}
	watch.at = "7"
	b.reconcile()
	if ready := conditions.Get(b.read(), fluxmeta.ReadyCondition); ready.Reason == "Forbidden" || len(b.source.requests) == 0 {
		t.Errorf("the watch has come through: %+v", ready)
	}
}

// TestItIsRenderedWhileTheCachesFill shows that what takes longest after a restart is done by then, once, and that
// nothing of it is written or reported.
func TestItIsRenderedWhileTheCachesFill(t *testing.T) {
	b, f := listeningBed(t)
	for _, name := range cluster.CRDNames() {
		if err := b.client.Create(t.Context(), installtest.Served(name)); err != nil {
			t.Fatal(err)
		}
	}
	b.reconcile()
	b.memories = watch.Memories[remembered]{}
	b.source.requests = nil
	f.Empty["NodeClaim"] = true
	before := b.read().ResourceVersion
	for range 2 {
		if result := b.reconcile(); result.RequeueAfter != watch.Filling {
			t.Fatalf("looked at again in %s", result.RequeueAfter)
		}
	}
	if len(b.source.requests) != 1 {
		t.Errorf("%d fetches, want one", len(b.source.requests))
	}
	if now := b.read().ResourceVersion; now != before {
		t.Error("the NodeSync was written")
	}
	delete(f.Empty, "NodeClaim")
	b.reconcile()
	if len(b.source.requests) != 1 {
		t.Errorf("the pass has fetched once more: %d", len(b.source.requests))
	}
}
