package removal

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// stage is a cluster and an account in memory, with a Karpenter that the test controls.
type stage struct {
	t       *testing.T
	client  client.Client
	cache   client.Reader
	live    client.Reader
	sync    *v1alpha1.NodeSync
	now     time.Time
	asked   time.Time
	absent  map[string]Absence
	evicted map[types.UID]bool

	instances map[string]cloud.Instance
	// ec2, if not nil, responds instead of the stage.
	ec2       EC2
	questions int
	silence   error
	shown     []string // instances that EC2 returns in addition to its silence
	leader    error
	diagnosed time.Time
	// others is what another client does just before a write.
	others func()

	controller, verified, arrivals, successor, leads Gate

	pace  Pace
	holds map[types.UID]Hold
	// protected are the instances that EC2 protects, by provider ID. sets is the result of Pass.DaemonSets.
	protected map[string]bool
	sets      plan.DaemonSets
	// endsFirst is Pass.TerminatesFirst; it may be nil.
	endsFirst func() bool
	// unremoved is Pass.Unremoved.
	unremoved map[string]string
	// frozen is Pass.Frozen.
	frozen string
	last   DriveResult
}

const karpenterFinalizer = "karpenter.sh/termination"

func newStage(t *testing.T, objects ...client.Object) *stage {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, policyv1.AddToScheme, storagev1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	karpenter := schema.GroupVersion{Group: "karpenter.sh", Version: "v1"}
	scheme.AddKnownTypes(karpenter, &karpv1.NodeClaim{}, &karpv1.NodeClaimList{})
	metav1.AddToGroupVersion(scheme, karpenter)
	s := &stage{
		t: t, now: time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC), instances: map[string]cloud.Instance{},
		controller: Gate{Open: true}, verified: Gate{Open: true}, arrivals: Gate{Open: true},
		successor: Gate{Open: true}, leads: Gate{Open: true}, pace: Pace{All: true},
	}
	s.sync = &v1alpha1.NodeSync{ObjectMeta: metav1.ObjectMeta{Namespace: "plumbline-system", Name: "prod", UID: "sync", Generation: 1}}
	s.client = fake.NewClientBuilder().WithScheme(scheme).
		WithObjects(append(objects, s.sync)...).WithStatusSubresource(s.sync).WithReturnManagedFields().
		WithIndex(&corev1.Pod{}, "spec.nodeName", func(o client.Object) []string {
			pod, _ := o.(*corev1.Pod)
			return []string{pod.Spec.NodeName}
		}).
		WithIndex(&corev1.Pod{}, "status.phase", func(o client.Object) []string {
			pod, _ := o.(*corev1.Pod)
			return []string{string(pod.Status.Phase)}
		}).
		WithIndex(&corev1.Event{}, "involvedObject.name", func(o client.Object) []string {
			event, _ := o.(*corev1.Event)
			return []string{event.InvolvedObject.Name}
		}).
		WithInterceptorFuncs(interceptor.Funcs{Delete: onlyThat}).Build()
	s.cache, s.live = s.client, s.client
	return s
}

// onlyThat checks the UID precondition of a delete, which the fake client ignores.
func onlyThat(ctx context.Context, c client.WithWatch, o client.Object, options ...client.DeleteOption) error {
	wanted := (&client.DeleteOptions{}).ApplyOptions(options).Preconditions
	if wanted == nil || wanted.UID == nil || wanted.ResourceVersion == nil {
		return fmt.Errorf("delete %s without preconditions", o.GetName())
	}
	live, _ := o.DeepCopyObject().(client.Object)
	if err := c.Get(ctx, client.ObjectKeyFromObject(o), live); err != nil {
		return err
	}
	if live.GetUID() != *wanted.UID || live.GetResourceVersion() != *wanted.ResourceVersion {
		return apierrors.NewConflict(schema.GroupResource{Resource: "objects"}, o.GetName(), errors.New("precondition failed"))
	}
	return c.Delete(ctx, o)
}

func pool(name string, uid types.UID, spec map[string]any) *unstructured.Unstructured {
	kind, _ := render.KindOf(render.NodePool)
	object := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	object.SetGroupVersionKind(kind.GVK)
	object.SetName(name)
	object.SetUID(uid)
	object.SetLabels(map[string]string{v1alpha1.OwnerLabel: "plumbline-system.prod"})
	return object
}

func nodeClass(name string, uid types.UID) *unstructured.Unstructured {
	kind, _ := render.KindOf(render.EC2NodeClass)
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{}}}
	object.SetGroupVersionKind(kind.GVK)
	object.SetName(name)
	object.SetUID(uid)
	object.SetLabels(map[string]string{v1alpha1.OwnerLabel: "plumbline-system.prod"})
	return object
}

func (s *stage) write() {
	s.t.Helper()
	if err := s.client.Status().Update(s.t.Context(), s.sync); err != nil {
		s.t.Fatal(err)
	}
}

// drive runs one reconcile and does not write its result.
func (s *stage) drive() error {
	var err error
	s.last, err = Drive(s.t.Context(), s.world(), Pass{
		Now: s.now, Sync: s.sync, Cluster: "demo", StallAfter: 10 * time.Minute, AskEvery: 10 * time.Second, AskedAt: s.asked, Absent: s.absent, Evicted: s.evicted,
		Controller: s.controller, Cloud: s.verified, Arrivals: func(v1alpha1.Removal) Gate { return s.arrivals }, Holds: s.holds,
		Successor: func(v1alpha1.Removal) Gate { return s.successor }, Leader: func(context.Context) Gate { return s.leads }, DaemonSets: func(context.Context) plan.DaemonSets { return s.sets }, NewOwner: s.goesTo, Unremoved: s.unremoved, Frozen: s.frozen, Pace: s.pace, DiagnosedAt: s.diagnosed,
		TerminatesFirst: func(context.Context) bool { return s.endsFirst != nil && s.endsFirst() },
	}, s.sync.Status.Removals)
	return err
}

// goesTo reads the owner of an object from its label.
func (s *stage) goesTo(object *unstructured.Unstructured) string {
	if label := object.GetLabels()[v1alpha1.OwnerLabel]; label != "plumbline-system.prod" {
		return label
	}
	return ""
}

func (s *stage) world() World {
	var ec2 EC2 = s
	if s.ec2 != nil {
		ec2 = s.ec2
	}
	return World{
		Cache: s.cache, Live: s.live, Writer: s.client, Home: Home{Reader: s.live, Writer: s.client}, EC2: ec2,
		StillLeader: func(context.Context) error {
			if s.others != nil {
				s.others()
			}
			return s.leader
		},
	}
}

// pass runs one reconcile, as soon as EC2 may be queried again, and writes its status.
func (s *stage) pass() []string {
	s.t.Helper()
	return s.passAfter(11 * time.Second)
}

// passAfter runs one reconcile some time after the last one, and writes its status.
func (s *stage) passAfter(pause time.Duration) []string {
	s.t.Helper()
	s.now = s.now.Add(pause)
	if err := s.drive(); err != nil {
		s.t.Fatalf("pass: %v", err)
	}
	s.asked, s.absent, s.diagnosed, s.evicted = s.last.AskedAt, s.last.Absent, s.last.DiagnosedAt, s.last.Evicted
	s.sync.Status.Removals = nil
	for _, r := range s.last.Removals {
		if r.Phase != v1alpha1.RemovalGone {
			s.sync.Status.Removals = append(s.sync.Status.Removals, r)
		}
	}
	s.write()
	var lines []string
	for _, r := range s.last.Removals {
		lines = append(lines, fmt.Sprintf("%s %s", r.Name, r.Phase))
	}
	for _, d := range s.last.Writes {
		lines = append(lines, d.Action.String())
	}
	return lines
}

func (s *stage) exists(object client.Object) bool {
	s.t.Helper()
	err := s.client.Get(s.t.Context(), client.ObjectKeyFromObject(object), object)
	if client.IgnoreNotFound(err) != nil {
		s.t.Fatal(err)
	}
	return err == nil
}

func (s *stage) recorded() *corev1.ConfigMap {
	configMap := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "plumbline-system", Name: RecordName("prod")}}
	if !s.exists(configMap) {
		return nil
	}
	return configMap
}

func (s *stage) record() map[string]string {
	if configMap := s.recorded(); configMap != nil {
		return configMap.Data
	}
	return nil
}
