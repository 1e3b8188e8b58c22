package recorder

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	awsstatus "github.com/awslabs/operatorpkg/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
)

var errKilled, errRefused = errors.New("killed"), errors.New("refused once")

// tester is a test, or a property test.
type tester interface {
	Fatal(args ...any)
	Context() context.Context
}

// world is a cluster whose daemon can be killed.
type world struct {
	t      tester
	client client.WithWatch
	now    time.Time
	r      *Recorder
	// claims are the existing NodeClaims.
	claims map[string]*karpv1.NodeClaim
	events []corev1.Event
	// fuse is how many writes are left until the daemon is killed; negative means unlimited. done reports whether the
	// write that kills it is carried out.
	fuse   int
	done   bool
	writes atomic.Int64
	// refuse makes the next write fail.
	refuse bool
	// ec2 are the instances in EC2, asked is the number of queries, and unasked their error.
	ec2     map[string]cloud.Instance
	asked   int
	unasked error
	// refused is the error of reading events.
	refused error
	// pods are those on nodes, counted is the number of reads, and uncounted their error.
	pods      map[string][]metav1.ObjectMeta
	counted   int
	uncounted error
	// nodeless are the deleted nodes.
	nodeless map[string]bool
}

func newWorld(t tester) *world {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, corev1.AddToScheme, cluster.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	w := &world{t: t, now: noon.Time, fuse: -1, claims: map[string]*karpv1.NodeClaim{}, ec2: map[string]cloud.Instance{}}
	sync := &v1alpha1.NodeSync{ObjectMeta: metav1.ObjectMeta{Namespace: "plumbline-system", Name: "prod", UID: "11"}}
	sync.Status.LastAppliedRevision = "main@sha1:1"
	sync.Status.Karpenter = &v1alpha1.KarpenterStatus{Region: "eu-west-1"}
	w.client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(sync, w.pool("general")).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return w.burn(func() error { return c.Create(ctx, o, opts...) })
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			return w.burn(func() error { return c.Update(ctx, o, opts...) })
		},
		List: w.list,
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if node, is := o.(*metav1.PartialObjectMetadata); is && node.Kind == "Node" && !w.nodeless[key.Name] {
				return nil
			}
			return c.Get(ctx, key, o, opts...)
		},
	}).Build()
	w.start()
	return w
}

// list answers what the fake client does not support: fields of events, and NodeClaims.
func (w *world) list(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
	switch l := list.(type) {
	case *corev1.EventList:
		l.Items = w.events
		return w.refused
	case *metav1.PartialObjectMetadataList:
		if l.Kind == "PodList" {
			return w.listPods(l, opts)
		}
		for _, name := range slices.Sorted(maps.Keys(w.claims)) {
			l.Items = append(l.Items, metav1.PartialObjectMetadata{ObjectMeta: w.claims[name].ObjectMeta})
		}
		return nil
	}
	return c.List(ctx, list, opts...)
}

// listPods answers reads of the unfinished pods of a node.
func (w *world) listPods(list *metav1.PartialObjectMetadataList, opts []client.ListOption) error {
	var asked client.ListOptions
	asked.ApplyOptions(opts)
	node, exact := asked.FieldSelector.RequiresExactMatch("spec.nodeName")
	if want := "spec.nodeName=" + node + ",status.phase!=Succeeded,status.phase!=Failed"; !exact || asked.FieldSelector.String() != want {
		return fmt.Errorf("pods are read by %s, want %s", asked.FieldSelector, want)
	}
	w.counted++
	for _, pod := range w.pods[node] {
		list.Items = append(list.Items, metav1.PartialObjectMetadata{ObjectMeta: pod})
	}
	return w.uncounted
}

func (w *world) burn(write func() error) error {
	if w.refuse {
		w.refuse = false
		return errRefused
	}
	if w.fuse == 0 {
		if w.done {
			w.done = false
			if err := write(); err != nil {
				return err
			}
		}
		return errKilled
	}
	w.fuse--
	w.writes.Add(1)
	return write()
}

// pool returns a NodePool of the NodeSync.
func (w *world) pool(name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(karpenter.WithKind("NodePool"))
	u.SetName(name)
	u.SetUID(types.UID("pool-" + name))
	u.SetLabels(map[string]string{v1alpha1.OwnerLabel: "plumbline-system.prod"})
	return u
}

// start starts a daemon, which sees the existing objects.
func (w *world) start() {
	w.fuse = -1
	w.r = New(Options{Cached: w.client, Uncached: w.client, Writer: w.client, Namespace: "plumbline-system", Now: func() time.Time { return w.now }, EC2: func(context.Context, string) (EC2, error) { return w, nil }})
	for _, name := range slices.Sorted(maps.Keys(w.claims)) {
		w.r.See(w.claims[name].DeepCopy())
	}
}

// Fleet returns EC2's response.
func (w *world) Fleet(_ context.Context, query cloud.Query) (shown []cloud.Instance, err error) {
	w.asked++
	for _, provider := range query.ProviderIDs {
		if i, known := w.ec2[InstanceID(provider)]; known && i.ProviderID() == provider {
			shown = append(shown, i)
		}
	}
	return shown, w.unasked
}

// ends makes EC2 terminate an instance.
func (w *world) ends(id string) {
	i := w.ec2[id]
	i.State, i.Reason, i.Since = "terminated", "Client.UserInitiatedShutdown: User initiated shutdown", w.now
	w.ec2[id] = i
}

// launch creates a NodeClaim with a node.
func (w *world) launch(name string) *karpv1.NodeClaim {
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{
		Name: name, UID: types.UID("uid-" + name), CreationTimestamp: metav1.NewTime(w.now),
		Labels: map[string]string{
			karpv1.NodePoolLabelKey: "general", corev1.LabelInstanceTypeStable: "m5.large", corev1.LabelTopologyZone: "eu-west-1a",
			karpv1.CapacityTypeLabelKey: "spot",
		},
		OwnerReferences: []metav1.OwnerReference{{Kind: "NodePool", Name: "general", UID: "pool-general"}},
	}}
	claim.Status.NodeName, claim.Status.ProviderID = "node-"+name, "aws:///eu-west-1a/i-"+name
	w.claims[name] = claim
	w.ec2["i-"+name] = cloud.Instance{ID: "i-" + name, Zone: "eu-west-1a", State: "running"}
	w.see(claim)
	return claim
}

func (w *world) see(claim *karpv1.NodeClaim) {
	if w.r != nil {
		w.r.See(claim.DeepCopy())
	}
}

// delete starts its deletion.
func (w *world) delete(name string) {
	claim := w.claims[name]
	claim.DeletionTimestamp = &metav1.Time{Time: w.now}
	w.see(claim)
}

// end completes its deletion, drained.
func (w *world) end(name string) {
	claim := w.claims[name]
	for _, kind := range []string{karpv1.ConditionTypeDrained, karpv1.ConditionTypeVolumesDetached, karpv1.ConditionTypeInstanceTerminating} {
		condition(claim, kind, kind, w.now)
	}
	delete(w.claims, name)
	if w.ec2["i-"+name].State == "running" {
		w.ends("i-" + name)
	}
	if w.r != nil {
		w.r.Gone(claim.DeepCopy(), false)
	}
}

func condition(claim *karpv1.NodeClaim, kind, reason string, at time.Time) {
	claim.Status.Conditions = append(claim.Status.Conditions, awsstatus.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: reason, LastTransitionTime: metav1.NewTime(at)})
}

// after lets time pass, and makes the daemon write what is due.
func (w *world) after(d time.Duration) error {
	w.now = w.now.Add(d)
	_, err := w.r.round(w.t.Context(), false)
	return err
}

// log returns the record.
func (w *world) log() *Log {
	logs, err := Read(w.t.Context(), w.client, "plumbline-system")
	if err != nil {
		w.t.Fatal(err)
	}
	if logs["prod"] == nil {
		return &Log{}
	}
	return logs["prod"]
}

// said returns what is recorded about each, the latest first.
func (w *world) said() (said []string) {
	for _, r := range w.log().Records {
		state := "gone"
		if r.Gone.IsZero() {
			state = "ending"
		}
		said = append(said, fmt.Sprintf("%s %s %s %s %s", r.NodeClaim, state, r.Cause, r.Detail, r.Revision))
	}
	return said
}
