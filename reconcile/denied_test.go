package reconcile

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/status"
	"github.com/plumbline-dev/plumbline/reconcile/watch"
	"github.com/plumbline-dev/plumbline/render"
)

// TestADeniedStatusIsReported shows that, while writes of the status are denied, an annotation, an event, a metric and
// the commit status report it.
func TestADeniedStatusIsReported(t *testing.T) {
	group := schema.GroupResource{Group: v1alpha1.GroupVersion.Group, Resource: "nodesyncs"}
	for name, refusal := range map[string]error{
		"by a webhook or a role": apierrors.NewForbidden(group, "prod", errors.New("admission webhook \"no.example.com\" denied the request")),
		"by a policy":            apierrors.NewInvalid(schema.GroupKind{Group: group.Group, Kind: v1alpha1.NodeSyncKind}, "prod", nil),
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, reporting(unchanged))
			registry := metered(b)
			applied := func(p *pass) {
				p.snapshot = &render.Snapshot{Revision: "main@sha1:" + commit, Commit: commit}
				p.want.Karpenter = &render.Karpenter{Cluster: render.Cluster{Name: "prod-eu"}}
			}
			b.concluded(b.pass())
			b.told()
			before := b.read()
			b.denies(refusal)
			if again := b.concluded(b.pass(), applied, func(p *pass) { p.sync.Status.LastAppliedRevision = p.snapshot.Revision }); again != time.Minute {
				t.Errorf("again in %s, want the retry interval", again)
			}
			sync := b.read()
			said := sync.Annotations[v1alpha1.StatusNotWrittenAnnotation]
			if !strings.Contains(said, "denies each write of this NodeSync's status") {
				t.Errorf("annotated: %q", said)
			}
			if !conditions.IsReady(sync) || sync.Status.LastAppliedRevision != before.Status.LastAppliedRevision {
				t.Errorf("the status: %+v", sync.Status)
			}
			if got := strings.Join(b.told(), "\n"); strings.Count(got, "Warning "+v1alpha1.ReasonStatusNotWritten) != 1 {
				t.Errorf("events:\n%s", got)
			}
			if got := series(t, registry)["plumbline_status_writes_failed_total{name=prod,namespace=plumbline-system}"]; got < 1 {
				t.Errorf("%v refusals are counted", got)
			}
			if got := b.queued(); len(got) != 1 || !strings.Contains(got[0], "failure: the API server denies each write of this NodeSync's status") {
				t.Errorf("the commit status: %v", got)
			}

			version := sync.ResourceVersion
			b.clock.forward(time.Minute)
			b.concluded(b.pass(), applied)
			if b.read().ResourceVersion != version {
				t.Error("nothing has changed, and the NodeSync is written")
			}

			b.Client = b.client
			b.concluded(b.pass(), applied)
			if said, marked := b.read().Annotations[v1alpha1.StatusNotWrittenAnnotation]; marked || conditions.GetReason(b.read(), meta.ReadyCondition) != v1alpha1.ReasonSucceeded {
				t.Errorf("it is written again, and annotated: %q", said)
			}
			if got := b.queued(); len(got) != 1 || !strings.Contains(got[0], "success") {
				t.Errorf("the commit status: %v", got)
			}
		})
	}
}

// denies makes each write of a status fail.
func (b *bed) denies(err error) { b.deniesOn(b.client, err) }

func (b *bed) deniesOn(c client.WithWatch, err error) {
	b.Client = interceptor.NewClient(c, interceptor.Funcs{SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
		return err
	}})
}

// TestADeniedNodeSyncIsReported shows that, if the NodeSync cannot be annotated either, a ConfigMap reports it, which
// the CLI reads, and which is deleted when the status is current again.
func TestADeniedNodeSyncIsReported(t *testing.T) {
	b := newBed(t, nodeSync(unchanged))
	applied := func(p *pass) {
		p.snapshot = &render.Snapshot{Revision: "main@sha1:" + commit, Commit: commit}
	}
	standIn := func() string {
		t.Helper()
		message, err := status.StandIn(t.Context(), b.client, b.read())
		if err != nil {
			t.Fatal(err)
		}
		return message
	}
	b.concluded(b.pass(), applied)
	if said := standIn(); said != "" {
		t.Errorf("all is well, and a ConfigMap says %q", said)
	}
	refusal := apierrors.NewForbidden(schema.GroupResource{Group: v1alpha1.GroupVersion.Group, Resource: "nodesyncs"}, "prod", errors.New("no writes"))
	denied := interceptor.NewClient(b.client, interceptor.Funcs{Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
		if _, ours := object.(*v1alpha1.NodeSync); ours {
			return refusal
		}
		return c.Patch(ctx, object, patch, options...)
	}})
	b.deniesOn(denied, refusal)
	changed := func(p *pass) { p.sync.Status.LastAppliedRevision = p.snapshot.Revision }
	theirs := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: v1alpha1.ObjectName("plumbline.status-not-written-", "prod")}, Data: map[string]string{"message": "theirs"}}
	if err := b.client.Create(t.Context(), theirs); err != nil {
		t.Fatal(err)
	}
	b.told()
	b.concluded(b.pass(), applied, changed)
	if said := strings.Join(b.told(), "\n"); standIn() != "" || !strings.Contains(said, "it is in the way") {
		t.Errorf("another client has the ConfigMap, which says %q; events:\n%s", standIn(), said)
	}
	if err := b.client.Delete(t.Context(), theirs); err != nil {
		t.Fatal(err)
	}
	b.concluded(b.pass(), applied, changed)
	b.memories = watch.Memories[remembered]{} // a new daemon
	b.concluded(b.pass(), applied, changed)
	if said := standIn(); !strings.Contains(said, "denies each write of this NodeSync's status") {
		t.Errorf("the ConfigMap says %q", said)
	}

	// A new daemon has not written it.
	b.memories, b.Client = watch.Memories[remembered]{}, b.client
	b.concluded(b.pass(), applied)
	if said := standIn(); said != "" {
		t.Errorf("the status is written again, and a ConfigMap says %q", said)
	}
}
