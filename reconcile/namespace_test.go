package reconcile

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// endNamespace deletes the namespace of the NodeSync, and with it the Role that lets plumbline read and write
// ConfigMaps there.
func (b *bed) endNamespace() {
	b.t.Helper()
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace, Finalizers: []string{"kubernetes"}}}
	if err := b.client.Create(b.t.Context(), object); err != nil {
		b.t.Fatal(err)
	}
	if err := b.client.Delete(b.t.Context(), object); err != nil {
		b.t.Fatal(err)
	}
	forbidden := func(o client.Object) error {
		if _, ours := o.(*corev1.ConfigMap); ours {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, o.GetName(), nil)
		}
		return nil
	}
	refusing := interceptor.NewClient(b.client, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if err := forbidden(o); err != nil {
				return err
			}
			return c.Get(ctx, key, o, opts...)
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if err := forbidden(o); err != nil {
				return err
			}
			return c.Create(ctx, o, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			if err := forbidden(o); err != nil {
				return err
			}
			return c.Delete(ctx, o, opts...)
		},
	})
	b.uses(refusing)
}

// TestTheNamespaceGoes shows that what is deleted with the namespace does not block a NodeSync that leaves its nodes;
// one that drains reports the situation.
func TestTheNamespaceGoes(t *testing.T) {
	t.Run("Orphan", func(t *testing.T) {
		b := leaving(t, unchanged)
		b.endNamespace()
		b.passes("the NodeSync goes", func() bool { return !b.exists() })
		if pool := b.livePool(); pool == nil || len(pool.GetLabels()) != 1 || b.liveClaim().DeletionTimestamp != nil {
			t.Errorf("left: %v", pool)
		}
	})
	t.Run("Drain", func(t *testing.T) {
		b := leaving(t, func(n *v1alpha1.NodeSync) { n.Spec.OnDelete = v1alpha1.OnDeleteDrain })
		b.endNamespace()
		for range 4 {
			b.clock.forward(2 * time.Second)
			b.reconcile()
		}
		if !b.exists() || b.liveClaim().DeletionTimestamp != nil {
			t.Fatal("something was ended")
		}
		waiting := b.read().Status.Waiting
		if waiting == nil || !strings.Contains(waiting.Message, "namespace plumbline-system is terminating") || !strings.Contains(waiting.Message, "onDelete: Orphan") || strings.Contains(waiting.Message, "forbidden") {
			t.Errorf("waiting: %+v", waiting)
		}
	})
}

// TestOrphanWithoutTheRole shows that, while the namespace stays, a record that cannot be read does not count as
// deleted.
func TestOrphanWithoutTheRole(t *testing.T) {
	b := leaving(t, unchanged)
	b.endNamespace()
	object := &corev1.Namespace{}
	if err := b.client.Get(t.Context(), client.ObjectKey{Name: namespace}, object); err != nil {
		t.Fatal(err)
	}
	object.Finalizers = nil
	if err := b.client.Update(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		b.clock.forward(2 * time.Second)
		b.reconcile()
	}
	if !b.exists() {
		t.Error("the NodeSync is gone, and what its removals have overwritten is not restored")
	}
}
