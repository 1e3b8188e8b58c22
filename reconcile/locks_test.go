package reconcile

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/removal"
	"github.com/plumbline-dev/plumbline/render"
)

// overtaken returns a cluster in which another client always writes first.
func overtaken(c client.WithWatch) client.WithWatch {
	faster := func(object client.Object) error {
		return apierrors.NewConflict(schema.GroupResource{Resource: "objects"}, object.GetName(), errors.New("the object has been modified"))
	}
	return interceptor.NewClient(c, interceptor.Funcs{
		Update: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.UpdateOption) error {
			return faster(o)
		},
		Delete: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.DeleteOption) error {
			return faster(o)
		},
		Patch: func(_ context.Context, _ client.WithWatch, o client.Object, _ client.Patch, _ ...client.PatchOption) error {
			return faster(o)
		},
		SubResourcePatch: func(_ context.Context, _ client.Client, _ string, o client.Object, _ client.Patch, _ ...client.SubResourcePatchOption) error {
			return faster(o)
		},
	})
}

// TestAnOvertakenStatusIsMadeAnew shows that nothing of it is written, and that the next reconcile comes at once and
// uses what was written.
func TestAnOvertakenStatusIsMadeAnew(t *testing.T) {
	b := newBed(t, nodeSync(unchanged))
	before := b.read()
	b.Client = overtaken(b.client)
	result := b.reconcile()
	if result.RequeueAfter != finding.Soon {
		t.Errorf("again in %s, want %s", result.RequeueAfter, finding.Soon)
	}
	if after := b.read(); after.ResourceVersion != before.ResourceVersion {
		t.Error("something was written")
	}
	if told := b.told(); len(told) > 0 {
		t.Errorf("told what is not so: %v", told)
	}
	b.Client = b.client
	b.reconcile()
	if b.read().ResourceVersion == before.ResourceVersion {
		t.Error("nothing is ever written")
	}
}

// TestARevertWhoseRecordIsOvertaken keeps the removal in the status: otherwise the record would outlive it, and mislead
// the next removal.
func TestARevertWhoseRecordIsOvertaken(t *testing.T) {
	at := metav1.NewTime(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	recorded := v1alpha1.Removal{Kind: render.NodePool, Name: "general", UID: "p1", Phase: v1alpha1.RemovalPacing, RecordedAt: at, Since: at, LastProgress: at}
	sync := nodeSync(func(n *v1alpha1.NodeSync) { n.Status.Removals = []v1alpha1.Removal{recorded} })
	record := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: removal.RecordName("prod"), OwnerReferences: []metav1.OwnerReference{
			*metav1.NewControllerRef(sync, v1alpha1.GroupVersion.WithKind(v1alpha1.NodeSyncKind)),
		}},
		Data: map[string]string{"p1": `{"kind":"NodePool","name":"general"}`},
	}
	b := newBed(t, sync, record)
	p := b.pass()
	p.sync.Status.Removals = []v1alpha1.Removal{recorded}
	p.stages.CRDs.Ready, p.want.Set = true, &render.Set{}
	p.plan.Plan = &plan.Plan{Returned: []v1alpha1.Removal{recorded}}
	b.Client = overtaken(b.client)
	if err := p.removesServed((*removal.Step).Run)(t.Context()); fault.Classify(err) == nil || fault.Classify(err).Class != fault.Superseded {
		t.Errorf("overtaken: %v", err)
	}
	if len(p.sync.Status.Removals) != 1 || len(p.Notes) > 0 {
		t.Errorf("left: %v; told: %v", p.sync.Status.Removals, p.Notes)
	}
	b.Client = b.client
	if err := p.removesServed((*removal.Step).Run)(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(p.sync.Status.Removals) != 0 || len(p.Notes) != 1 {
		t.Errorf("left: %v; told: %v", p.sync.Status.Removals, p.Notes)
	}
	if err := b.client.Get(t.Context(), types.NamespacedName{Namespace: namespace, Name: record.Name}, &corev1.ConfigMap{}); !apierrors.IsNotFound(err) {
		t.Errorf("the record: %v", err)
	}
}
