package reconcile

import (
	"context"
	"errors"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/plumbline-dev/plumbline/reconcile/account"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/notify"
	"github.com/plumbline-dev/plumbline/reconcile/report"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade/installtest"
)

const namespace = "plumbline-system"

// bed is a Reconciler with fakes.
type bed struct {
	*Reconciler
	t       *testing.T
	client  client.WithWatch
	clock   *clock
	source  *fakeSource
	charts  *fakeCharts
	install *installtest.Helm
	cloud   *fakeCloud
	events  *record.FakeRecorder
	patches *int
}

// newBed returns a bed whose cluster has the NodeSync, the Secret "token" and the objects.
func newBed(t *testing.T, sync *v1alpha1.NodeSync, objects ...client.Object) *bed {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, corev1.AddToScheme, coordinationv1.AddToScheme, rbacv1.AddToScheme, policyv1.AddToScheme, appsv1.AddToScheme, storagev1.AddToScheme, apiextensionsv1.AddToScheme, cluster.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "token", Annotations: map[string]string{v1alpha1.HostsAnnotation: "git.example.com,plain.example.com"}}, Data: map[string][]byte{"token": []byte("s3cret"), "username": []byte("git"), "password": []byte("s3cret")}}
	patches := 0
	c := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(sync).WithReturnManagedFields().WithObjects(append(objects, sync, secret)...).WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			patches++
			return c.Patch(ctx, obj, patch, opts...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, subresource string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			patches++
			return c.SubResource(subresource).Patch(ctx, obj, patch, opts...)
		},
	}).WithIndex(&corev1.Event{}, "involvedObject.name", func(o client.Object) []string {
		return []string{o.(*corev1.Event).InvolvedObject.Name}
	}).WithIndex(&corev1.Pod{}, "spec.nodeName", func(o client.Object) []string {
		return []string{o.(*corev1.Pod).Spec.NodeName}
	}).WithIndex(&corev1.Pod{}, "status.phase", func(o client.Object) []string {
		return []string{string(o.(*corev1.Pod).Status.Phase)}
	}).Build()
	clock := newClock()
	b := &bed{
		t: t, client: c, clock: clock, source: &fakeSource{clock: clock}, charts: &fakeCharts{}, install: &installtest.Helm{Asked: map[string]int{}, Known: installtest.Deployed}, cloud: &fakeCloud{err: errUnreachable},
		events: record.NewFakeRecorder(100), patches: &patches,
	}
	b.Reconciler = &Reconciler{
		Cluster: Cluster{
			Clients: cluster.Clients{Launches: &cluster.Launches{Now: clock.now}}, Helm: b.install,
			Clouds: &account.Clouds{Dial: func(_ context.Context, region string) (account.Cloud, error) {
				if region == "" {
					return nil, errors.New("no region")
				}
				return b.cloud, nil
			}},
		},
		Events: b.events, Source: b.source, Reports: report.NewQueue(c, c), Notices: &notify.Sender{Secrets: c}, Charts: b.charts,
		Settings: Settings{Namespace: namespace, Now: b.clock.now, StillLeader: func(context.Context) error { return nil }},
	}
	b.uses(c)
	return b
}

// uses sets the API server of the Reconciler's clients.
func (b *bed) uses(c client.WithWatch) {
	home, nodes := side(c, true), side(c, false)
	b.Client, b.Standby, b.Uncached, b.Labelled = home, home, home, home
	b.Cluster.Client, b.Cluster.Uncached = nodes, nodes
}

// nodeSync returns a NodeSync that plumbline already manages, without waves.
func nodeSync(change func(*v1alpha1.NodeSync)) *v1alpha1.NodeSync {
	one := int32(1)
	sync := &v1alpha1.NodeSync{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "prod", UID: "11", Generation: 1, Finalizers: []string{v1alpha1.Finalizer}},
		Spec: v1alpha1.NodeSyncSpec{
			Interval:      metav1.Duration{Duration: 10 * time.Minute},
			RetryInterval: &metav1.Duration{Duration: time.Minute},
			Source:        v1alpha1.Source{Git: &v1alpha1.GitSource{URL: "https://git.example.com/acme/fleet.git"}},
			Path:          "./prod",
			Guard:         v1alpha1.Guard{MaxRemovedPools: &one},
			Rollout:       v1alpha1.RolloutPolicy{Waves: &v1alpha1.RolloutWaves{Disabled: true}},
			OnDelete:      v1alpha1.OnDeleteOrphan,
		},
	}
	change(sync)
	return sync
}

func unchanged(*v1alpha1.NodeSync) {}

// read returns the NodeSync in the cluster.
func (b *bed) read() *v1alpha1.NodeSync {
	b.t.Helper()
	sync := &v1alpha1.NodeSync{}
	if err := b.client.Get(b.t.Context(), client.ObjectKey{Namespace: namespace, Name: "prod"}, sync); err != nil {
		b.t.Fatal(err)
	}
	return sync
}

// reconcile runs a complete reconcile.
func (b *bed) reconcile() ctrl.Result {
	b.t.Helper()
	result, err := b.Reconcile(b.t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: namespace, Name: "prod"}})
	if err != nil {
		b.t.Fatal(err)
	}
	return result
}

// told returns the events so far, as "Type Reason message".
func (b *bed) told() []string {
	var events []string
	for {
		select {
		case e := <-b.events.Events:
			events = append(events, e)
		default:
			return events
		}
	}
}
