package review_test

import (
	"context"
	"errors"
	"testing"
	"testing/fstest"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/review"
	"github.com/plumbline-dev/plumbline/render"
)

// TestWhatMayNotBeReadSaysNothingOfTheCommit: a user without permissions gets an error, and the commit is not refused.
func TestWhatMayNotBeReadSaysNothingOfTheCommit(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	forbidden := apierrors.NewForbidden(schema.GroupResource{Group: "plumbline.dev", Resource: "nodesyncs"}, "", errors.New("no right"))
	step := &review.Step{
		Tools: review.Tools{Client: fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
			List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
				return forbidden
			},
		}).Build()},
		Sync: &v1alpha1.NodeSync{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "prod", UID: "11"}},
		Snapshot: &render.Snapshot{Revision: "main@sha1:a", Commit: "a", FS: fstest.MapFS{
			"plumbline.yaml": {Data: []byte("apiVersion: config.plumbline.dev/v1alpha1\nkind: Karpenter\ncluster: {name: eu, region: eu-west-1}\nversion: 1.14.1\nnodes: [./nodes]\n")},
		}},
	}
	if made, err := step.Make(t.Context()); !apierrors.IsForbidden(err) || made != nil {
		t.Errorf("%v: %+v", err, made)
	}
}
