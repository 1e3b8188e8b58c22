package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllertest"
	ctrlreconcile "sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/observe"
	"github.com/plumbline-dev/plumbline/render"
)

// fakeWatching is a cache that notes what is watched.
type fakeWatching struct {
	cache.Cache
	begun, ended []string
	// empty are the kinds whose cache has not filled.
	empty map[string]bool
	// unlisted are the kinds that discovery does not list.
	unlisted map[string]bool
}

// fakeDiscovery lists all kinds but the unlisted.
type fakeDiscovery struct {
	meta.RESTMapper
	noted *fakeWatching
}

func (f fakeDiscovery) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	if f.noted.unlisted[kind.Kind] {
		return nil, &meta.NoKindMatchError{GroupKind: kind, SearchedVersions: versions}
	}
	return &meta.RESTMapping{}, nil
}

func kindOf(object client.Object) string {
	if kind := object.GetObjectKind().GroupVersionKind().Kind; kind != "" {
		return kind
	}
	_, name, _ := strings.Cut(fmt.Sprintf("%T", object), ".")
	return name
}

// fakeController notes the watches that begin.
type fakeController struct {
	controller.Controller
	noted *fakeWatching
}

func (f fakeController) Watch(watch source.TypedSource[ctrlreconcile.Request]) error {
	words := strings.FieldsFunc(fmt.Sprint(watch), func(r rune) bool { return r == '.' || r == ' ' || r == ']' })
	f.noted.begun = append(f.noted.begun, words[len(words)-1])
	return nil
}

func (f *fakeWatching) GetInformer(_ context.Context, object client.Object, _ ...cache.InformerGetOption) (cache.Informer, error) {
	if f.empty[kindOf(object)] {
		return controllertest.NewFakeInformer(), nil
	}
	return controllertest.NewFakeInformer(controllertest.Synced), nil
}

func (f *fakeWatching) RemoveInformer(_ context.Context, object client.Object) error {
	f.ended = append(f.ended, kindOf(object))
	return nil
}

// listeningBed is a bed whose watches are played.
func listeningBed(t *testing.T, objects ...client.Object) (*bed, *fakeWatching) {
	t.Helper()
	b := newBed(t, nodeSync(unchanged), objects...)
	b.source.files = files(karpenterYAML)
	b.Refusals = &observe.Refusals{}
	f := &fakeWatching{empty: map[string]bool{}, unlisted: map[string]bool{}}
	b.watches = &watches{controller: fakeController{noted: f}, cache: f, kinds: fakeDiscovery{noted: f}, reconciler: b.Reconciler}
	return b, f
}

// TestNoPassBeforeTheCachesAreFilled: to it, everything would be gone. Each watch
// begins once, and Karpenter's when its CRDs are served.
func TestNoPassBeforeTheCachesAreFilled(t *testing.T) {
	b, f := listeningBed(t)
	passes := func(what string, want bool) {
		t.Helper()
		before := b.read().ResourceVersion
		b.memories = memories{}
		result := b.reconcile()
		if waits := result.RequeueAfter == listening; waits == want || waits && b.read().ResourceVersion != before {
			t.Fatalf("%s: a pass %t, want %t", what, !waits, want)
		}
	}
	f.empty["Deployment"] = true
	passes("the cache of Deployments is empty", false)
	delete(f.empty, "Deployment")
	passes("it has filled", true)
	if want := []string{"Deployment", "CustomResourceDefinition"}; !slices.Equal(f.begun, want) {
		t.Fatalf("begun: %v, want %v", f.begun, want)
	}
	for _, name := range cluster.CRDNames() {
		if err := b.client.Create(t.Context(), establishedCRD(name)); err != nil {
			t.Fatal(err)
		}
	}
	f.empty["NodeClaim"] = true
	passes("the cache of NodeClaims is empty", false)
	delete(f.empty, "NodeClaim")
	passes("it has filled", true)
	passes("once more", true)
	if len(f.begun) != 5 || len(f.ended) != 0 {
		t.Fatalf("begun: %v, ended: %v", f.begun, f.ended)
	}
	if err := b.client.Delete(t.Context(), establishedCRD("nodepools.karpenter.sh")); err != nil {
		t.Fatal(err)
	}
	passes("a CRD is gone", true)
	if len(f.ended) != 3 {
		t.Fatalf("ended: %v, want all of Karpenter's kinds", f.ended)
	}
	if err := b.client.Create(t.Context(), establishedCRD("nodepools.karpenter.sh")); err != nil {
		t.Fatal(err)
	}
	passes("it is back", true)
	if len(f.begun) != 8 {
		t.Errorf("begun: %v, want those of Karpenter's kinds again", f.begun)
	}
}

// TestWatchesBeginWhenDiscoveryListsTheKinds: a CRD is Established a moment before
// the API server's discovery lists its kind, and a watch that begins in between fails.
func TestWatchesBeginWhenDiscoveryListsTheKinds(t *testing.T) {
	b, f := listeningBed(t)
	for _, name := range cluster.CRDNames() {
		if err := b.client.Create(t.Context(), establishedCRD(name)); err != nil {
			t.Fatal(err)
		}
	}
	kubernetes := len(b.watches.kubernetes())
	f.unlisted["EC2NodeClass"] = true
	if result := b.reconcile(); result.RequeueAfter != listening || len(f.begun) != kubernetes {
		t.Fatalf("not listed yet: next look after %s, begun: %v", result.RequeueAfter, f.begun)
	}
	b.clock.forward(discoveryLag)
	b.reconcile()
	if ready := conditions.Get(b.read(), fluxmeta.ReadyCondition); ready == nil || !strings.Contains(ready.Message, "discovery does not list") || len(f.begun) != kubernetes {
		t.Fatalf("never listed: %+v, begun: %v", ready, f.begun)
	}
	delete(f.unlisted, "EC2NodeClass")
	b.memories = memories{}
	b.reconcile()
	if len(f.begun) != kubernetes+3 {
		t.Errorf("listed: begun: %v", f.begun)
	}
}

// TestWhatTheChartMakesIsWatchedWhereItIsOurs: with management External there is
// no right to it.
func TestWhatTheChartMakesIsWatchedWhereItIsOurs(t *testing.T) {
	for management, want := range map[render.Management]int{render.Managed: len(observe.ChartedKinds()), render.External: 0} {
		t.Run(string(management), func(t *testing.T) {
			b, f := listeningBed(t)
			sync := b.read()
			sync.Status.Karpenter = &v1alpha1.KarpenterStatus{Management: string(management), Namespace: "kube-system"}
			if err := b.client.Status().Update(t.Context(), sync); err != nil {
				t.Fatal(err)
			}
			b.memories = memories{}
			f.empty["RoleBinding"] = true
			if waits := b.reconcile().RequeueAfter == listening; waits != (want > 0) {
				t.Errorf("a pass over an empty cache: %t", !waits)
			}
			delete(f.empty, "RoleBinding")
			b.memories = memories{}
			if b.reconcile().RequeueAfter == listening {
				t.Error("no pass over a cache that is filled")
			}
			if got := len(f.begun) - len(b.watches.kubernetes()); got != want {
				t.Errorf("begun: %v, want %d more than Kubernetes' own", f.begun, want)
			}
		})
	}
}

// reflector is a watch whose cache stands still.
type reflector struct{ at string }

func (r *reflector) LastSyncResourceVersion() string { return r.at }
func (*reflector) TypeDescription() string           { return "*v1.NodeClaim" }

// TestARefusedWatchIsTold and ends the pass before anything is done by what the
// cache does not say. It ends with the refusal.
func TestARefusedWatchIsTold(t *testing.T) {
	b, _ := listeningBed(t)
	watch := &reflector{}
	words := errors.New(`User "system:serviceaccount:plumbline-system:plumbline" cannot list resource "nodeclaims" in API group "karpenter.sh" at the cluster scope`)
	b.Refusals.Note(watch, apierrors.NewForbidden(schema.GroupResource{Group: "karpenter.sh", Resource: "nodeclaims"}, "", words))
	result := b.reconcile()
	ready := conditions.Get(b.read(), fluxmeta.ReadyCondition)
	if ready == nil || ready.Reason != "Forbidden" || !strings.Contains(ready.Message, "watch *v1.NodeClaim") || !strings.Contains(ready.Message, `resources: ["nodeclaims"], verbs: ["list"]`) {
		t.Errorf("ready: %+v", ready)
	}
	if len(b.source.requests) > 0 {
		t.Error("the pass went on")
	}
	if result.RequeueAfter != b.pass().retryInterval() {
		t.Errorf("looked at again in %s", result.RequeueAfter)
	}
	watch.at = "7"
	b.reconcile()
	if ready := conditions.Get(b.read(), fluxmeta.ReadyCondition); ready.Reason == "Forbidden" || len(b.source.requests) == 0 {
		t.Errorf("the watch has come through: %+v", ready)
	}
}
