package watch_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade/installtest"
	"github.com/plumbline-dev/plumbline/reconcile/watch"
	"github.com/plumbline-dev/plumbline/reconcile/watch/watchtest"
	"github.com/plumbline-dev/plumbline/render"
)

// bed is Watches with fakes.
type bed struct {
	*watch.Watches
	cache *watchtest.Cache
	// objects are the objects on the API server.
	objects client.Client
	now     time.Time
	known   interests
}

func newBed(t *testing.T, objects ...client.Object) *bed {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, corev1.AddToScheme, apiextensionsv1.AddToScheme, cluster.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	b := &bed{cache: watchtest.NewCache(), now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	b.objects = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
	now := func() time.Time { return b.now }
	wakes := watch.Wakes{
		Cached: b.objects, Namespace: "plumbline-system",
		Launches: &cluster.Launches{Now: now}, Interests: &b.known,
	}
	b.Watches = b.cache.Watches(scheme, wakes, &cluster.Refusals{}, now)
	return b
}

// interests are what is known of NodeSyncs, by name.
type interests struct {
	wants         map[string]render.Ref
	awaits, holds string
}

func (i *interests) Wants(name types.NamespacedName, ref render.Ref) bool {
	return i.wants[name.Name] == ref
}
func (i *interests) Awaits(name types.NamespacedName) bool { return i.awaits == name.Name }
func (i *interests) Holds(name types.NamespacedName) bool  { return i.holds == name.Name }

// served returns Karpenter's CRDs, Established.
func served() []client.Object {
	var all []client.Object
	for _, name := range cluster.CRDNames() {
		all = append(all, installtest.Served(name))
	}
	return all
}

func nodeSync(name string, change func(*v1alpha1.NodeSync)) *v1alpha1.NodeSync {
	sync := &v1alpha1.NodeSync{ObjectMeta: metav1.ObjectMeta{Namespace: "plumbline-system", Name: name}}
	change(sync)
	return sync
}

func unchanged(*v1alpha1.NodeSync) {}

func approvalOf(namespace, name string) *v1alpha1.Approval {
	return &v1alpha1.Approval{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "yes"}, Spec: v1alpha1.ApprovalSpec{NodeSync: name}}
}

// noInstanceTypes returns an event about the NodePool "general".
func noInstanceTypes(reason string, at time.Time) *corev1.Event {
	return &corev1.Event{Reason: reason, InvolvedObject: corev1.ObjectReference{Kind: "NodePool", Name: "general"}, LastTimestamp: metav1.NewTime(at)}
}

// always is how many watches need only Kubernetes: Deployments, events about NodePools, and CRDs.
const always = 3

// TestWatchesBeginWhenDiscoveryListsTheKinds: a CRD is Established a moment before the API server's discovery lists its
// kind, and a watch that starts in between fails.
func TestWatchesBeginWhenDiscoveryListsTheKinds(t *testing.T) {
	b := newBed(t, served()...)
	b.cache.Unlisted["EC2NodeClass"] = true
	if filled, err := b.Listen(t.Context()); filled || err != nil || len(b.cache.Begun) != always {
		t.Fatalf("not listed yet: filled %t, error %v, begun: %v", filled, err, b.cache.Begun)
	}
	b.now = b.now.Add(watch.DiscoveryLag)
	if _, err := b.Listen(t.Context()); err == nil || !strings.Contains(err.Error(), "discovery does not list") || len(b.cache.Begun) != always {
		t.Fatalf("never listed: %v, begun: %v", err, b.cache.Begun)
	}
	delete(b.cache.Unlisted, "EC2NodeClass")
	if filled, err := b.Listen(t.Context()); !filled || err != nil || len(b.cache.Begun) != always+3 {
		t.Errorf("listed: filled %t, error %v, begun: %v", filled, err, b.cache.Begun)
	}
}

// TestAKindThatIsServedNoMore: its CRD stays Established, but discovery does not list it. A new daemon then does not
// wait for its watch, and running watches stop, until it is served again.
func TestAKindThatIsServedNoMore(t *testing.T) {
	b := newBed(t, served()...)
	claims := &apiextensionsv1.CustomResourceDefinition{}
	serve := func(serve bool) {
		t.Helper()
		if err := b.objects.Get(t.Context(), client.ObjectKey{Name: cluster.NodeClaimCRD}, claims); err != nil {
			t.Fatal(err)
		}
		claims.Spec.Versions[0].Served, b.cache.Unlisted["NodeClaim"] = serve, !serve
		if err := b.objects.Update(t.Context(), claims); err != nil {
			t.Fatal(err)
		}
	}
	listens := func(what string, begun, ended int) {
		t.Helper()
		b.now = b.now.Add(2 * watch.DiscoveryLag)
		if filled, err := b.Listen(t.Context()); !filled || err != nil || len(b.cache.Begun) != begun || len(b.cache.Ended) != ended {
			t.Errorf("%s: filled %t, error %v, begun: %v, ended: %v", what, filled, err, b.cache.Begun, b.cache.Ended)
		}
	}
	serve(false)
	listens("at the start", always, 0)
	listens("later", always, 0)
	serve(true)
	listens("it is served", always+3, 0)
	serve(false)
	listens("no more", always+3, 3)
	serve(true)
	listens("again", always+6, 3)
}

// TestWhatTheChartMakesIsWatchedWhereItIsOurs: with management External there is no permission to watch it.
func TestWhatTheChartMakesIsWatchedWhereItIsOurs(t *testing.T) {
	for management, want := range map[render.Management]int{render.Managed: len(cluster.ChartedKinds()), render.External: 0} {
		t.Run(string(management), func(t *testing.T) {
			b := newBed(t, nodeSync("prod", func(n *v1alpha1.NodeSync) {
				n.Status.Karpenter = &v1alpha1.KarpenterStatus{Management: string(management), Namespace: "kube-system"}
			}))
			b.cache.Empty["RoleBinding"] = true
			if filled, err := b.Listen(t.Context()); err != nil || filled != (want == 0) {
				t.Errorf("with an empty cache: filled %t, error %v", filled, err)
			}
			delete(b.cache.Empty, "RoleBinding")
			if filled, err := b.Listen(t.Context()); err != nil || !filled {
				t.Errorf("with a cache that is filled: filled %t, error %v", filled, err)
			}
			if got := len(b.cache.Begun) - always; got != want {
				t.Errorf("begun: %v, want %d more than Kubernetes' own", b.cache.Begun, want)
			}
		})
	}
}

// TestWhatHoldsValuesIsWatchedOnceItIsWanted, and is read from the cache once that is synced.
func TestWhatHoldsValuesIsWatchedOnceItIsWanted(t *testing.T) {
	b := newBed(t)
	hears := func(what string, want bool) {
		t.Helper()
		if _, err := b.Listen(t.Context()); err != nil {
			t.Fatal(err)
		}
		if heard, err := b.WatchesLabelled(t.Context()); err != nil || heard != want {
			t.Errorf("%s: heard %t, error %v", what, heard, err)
		}
	}
	b.cache.Empty["Secret"] = true
	hears("nobody wants it", false)
	if slices.Contains(b.cache.Begun, "Secret") {
		t.Errorf("begun: %v", b.cache.Begun)
	}
	b.WantLabelled()
	hears("its cache is empty", false)
	delete(b.cache.Empty, "Secret")
	hears("its cache is filled", true)
}

// TestWakes: the NodeSyncs of the daemon's namespace that each event enqueues.
func TestWakes(t *testing.T) {
	pool := render.Ref{Kind: render.NodePool, Name: "general"}
	open := func(kind, name string) func(*v1alpha1.NodeSync) {
		return func(n *v1alpha1.NodeSync) { n.Status.Removals = []v1alpha1.Removal{{Kind: kind, Name: name}} }
	}
	elsewhere := nodeSync("elsewhere", unchanged)
	elsewhere.Namespace = "default"
	b := newBed(t, elsewhere, nodeSync("idle", unchanged), nodeSync("wants", unchanged), nodeSync("awaits", unchanged), nodeSync("holds", unchanged),
		nodeSync("removes-pool", open(render.NodePool, "general")), nodeSync("removes-class", open(render.EC2NodeClass, "default")),
		nodeSync("drifts", func(n *v1alpha1.NodeSync) {
			n.Status.Karpenter = &v1alpha1.KarpenterStatus{NodeDrift: &v1alpha1.NodeDriftWatch{}}
		}),
		nodeSync("lost-class", func(n *v1alpha1.NodeSync) {
			n.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonClassTerminating}}
		}))
	b.known = interests{wants: map[string]render.Ref{"wants": pool, "drifts": pool, "lost-class": {Kind: render.EC2NodeClass, Name: "default"}}, awaits: "awaits", holds: "holds"}
	definition := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "general", Labels: map[string]string{v1alpha1.OwnerLabel: "plumbline-system.idle"}}}
	definition.Kind = render.NodePool
	names := func(class string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "karpenter.sh/v1", "kind": render.NodePool, "metadata": map[string]any{"name": "another"},
			"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"nodeClassRef": map[string]any{"kind": render.EC2NodeClass, "name": class}}}},
		}}
	}
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "general-1", Labels: map[string]string{karpv1.NodePoolLabelKey: "general"}}}
	claim.Spec.NodeClassRef = &karpv1.NodeClassReference{Kind: render.EC2NodeClass, Name: "default"}
	crd := func(name string) client.Object {
		return &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	all := []string{"awaits", "drifts", "holds", "idle", "lost-class", "removes-class", "removes-pool", "wants"}
	cases := map[string]struct {
		wakes func(context.Context, client.Object) []ctrl.Request
		event client.Object
		want  []string
	}{
		"a Deployment":                               {b.Wakes.All, &corev1.Pod{}, all},
		"a CRD of Karpenter's":                       {b.Wakes.OnCRD, crd("nodepools.karpenter.sh"), all},
		"the CRD of Approvals":                       {b.Wakes.OnCRD, crd(v1alpha1.ApprovalCRD), all},
		"an Approval":                                {b.Wakes.OnApproval, approvalOf("plumbline-system", "idle"), []string{"idle"}},
		"an Approval in another namespace":           {b.Wakes.OnApproval, approvalOf("default", "idle"), nil},
		"another CRD":                                {b.Wakes.OnCRD, crd("widgets.example.com"), nil},
		"a definition":                               {b.Wakes.OnDefinition, definition, []string{"awaits", "drifts", "idle", "wants"}},
		"another's NodePool that names a class":      {b.Wakes.OnDefinition, names("default"), []string{"awaits", "lost-class", "removes-class"}},
		"another's NodePool that names none of ours": {b.Wakes.OnDefinition, names("other"), []string{"awaits"}},
		"a NodeClaim":                                {b.Wakes.OnNodeClaim, claim, []string{"drifts", "holds", "removes-class", "removes-pool"}},
		"an event on a NodePool":                     {b.Wakes.OnEvent, noInstanceTypes("NoCompatibleInstanceTypes", b.now), []string{"drifts", "wants"}},
		"another event":                              {b.Wakes.OnEvent, noInstanceTypes("Ready", b.now), nil},
		"no NodeClaim":                               {b.Wakes.OnNodeClaim, definition, nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var woken []string
			for _, request := range c.wakes(t.Context(), c.event) {
				woken = append(woken, request.Name)
			}
			slices.Sort(woken)
			if !slices.Equal(woken, c.want) {
				t.Errorf("woken: %v, want %v", woken, c.want)
			}
		})
	}
}
