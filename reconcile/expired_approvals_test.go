package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// TestExpiredApprovalsWithoutNodeSyncs: they are deleted while no NodeSync is in the namespace, those of other namespaces never.
func TestExpiredApprovalsWithoutNodeSyncs(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	given := func(namespace, name string, expires time.Duration) *v1alpha1.Approval {
		return &v1alpha1.Approval{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(now.Add(-2 * time.Hour))},
			Spec:       v1alpha1.ApprovalSpec{ExpiresAt: metav1.NewTime(now.Add(expires))},
		}
	}
	for name, c := range map[string]struct {
		sync    client.Object
		listErr error
		// denied is the name of an Approval that cannot be deleted.
		denied string
		left   []string
		err    string
	}{
		"no NodeSync":                     {left: []string{"other/old", "plumbline/new"}},
		"a NodeSync":                      {sync: &v1alpha1.NodeSync{ObjectMeta: metav1.ObjectMeta{Namespace: "plumbline", Name: "prod"}}, left: []string{"other/old", "plumbline/new", "plumbline/old-0", "plumbline/old-1"}},
		"a NodeSync in another namespace": {sync: &v1alpha1.NodeSync{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "prod"}}, left: []string{"other/old", "plumbline/new"}},
		"one cannot be deleted":           {denied: "old-0", left: []string{"other/old", "plumbline/new", "plumbline/old-0"}, err: "delete Approval old-0, which has expired: denied"},
		"the CRD is not installed":        {listErr: &meta.NoKindMatchError{}, left: []string{"other/old", "plumbline/new", "plumbline/old-0", "plumbline/old-1"}},
		"they cannot be read":             {listErr: errors.New("denied"), left: []string{"other/old", "plumbline/new", "plumbline/old-0", "plumbline/old-1"}, err: "read the Approvals: denied"},
	} {
		t.Run(name, func(t *testing.T) {
			scheme := runtime.NewScheme()
			if err := v1alpha1.AddToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			objects := []client.Object{given("other", "old", -time.Hour), given("plumbline", "new", time.Hour)}
			for i := range 2 {
				objects = append(objects, given("plumbline", fmt.Sprintf("old-%d", i), -time.Hour))
			}
			if c.sync != nil {
				objects = append(objects, c.sync)
			}
			server := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
			uncached := interceptor.NewClient(server, interceptor.Funcs{
				List: func(ctx context.Context, of client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
					if c.listErr != nil {
						return c.listErr
					}
					return onePage(ctx, of, l.(*v1alpha1.ApprovalList), opts)
				},
			})
			writer := interceptor.NewClient(server, interceptor.Funcs{
				Delete: func(ctx context.Context, of client.WithWatch, object client.Object, opts ...client.DeleteOption) error {
					if object.GetName() == c.denied {
						return errors.New("denied")
					}
					return of.Delete(ctx, object, opts...)
				},
			})
			e := &ExpiredApprovals{Cached: server, Uncached: uncached, Writer: writer, Namespace: "plumbline", Now: func() time.Time { return now }}
			if err := e.delete(t.Context()); (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("%v, want %q", err, c.err)
			}
			list, left := &v1alpha1.ApprovalList{}, []string{}
			if err := server.List(t.Context(), list); err != nil {
				t.Fatal(err)
			}
			for _, a := range list.Items {
				left = append(left, a.Namespace+"/"+a.Name)
			}
			if diff := cmp.Diff(c.left, left); diff != "" {
				t.Errorf("left (-want +got):\n%s", diff)
			}
		})
	}
}

// onePage lists a page with one Approval, after the one that the last page ended with.
func onePage(ctx context.Context, c client.Reader, list *v1alpha1.ApprovalList, opts []client.ListOption) error {
	of := (&client.ListOptions{}).ApplyOptions(opts)
	if err := c.List(ctx, list, client.InNamespace(of.Namespace)); err != nil {
		return err
	}
	list.Items = slices.DeleteFunc(list.Items, func(a v1alpha1.Approval) bool { return a.Name <= of.Continue })
	if len(list.Items) > 1 {
		list.Items, list.Continue = list.Items[:1], list.Items[0].Name
	}
	return nil
}
