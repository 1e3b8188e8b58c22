package observe_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/observe"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// cluster is one with a pool, its class and one NodeClaim.
func cluster(t *testing.T) *fake.ClientBuilder {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := observe.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	for _, kind := range render.Kinds() {
		scheme.AddKnownTypeWithName(kind.GVK, &unstructured.Unstructured{})
		scheme.AddKnownTypeWithName(kind.GVK.GroupVersion().WithKind(kind.GVK.Kind+"List"), &unstructured.UnstructuredList{})
	}
	class := &unstructured.Unstructured{}
	class.SetAPIVersion("karpenter.k8s.aws/v1")
	class.SetKind(render.EC2NodeClass)
	class.SetName("default")
	n := claim()
	n.DeletionTimestamp = nil
	n.ResourceVersion, n.ManagedFields = "", nil
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(pool(), class, n)
}

func TestLive(t *testing.T) {
	live, err := observe.Live(t.Context(), cluster(t).Build())
	if err != nil {
		t.Fatal(err)
	}
	for _, ref := range []render.Ref{{Kind: render.NodePool, Name: "general"}, {Kind: render.EC2NodeClass, Name: "default"}} {
		if live.Objects[ref] == nil {
			t.Errorf("%s is not among %d objects", ref, len(live.Objects))
		}
	}
	want := []plan.NodeClaim{{
		Name: "general-x7k2p", UID: "5f6d2f5e-7a51-4f6f-9f5b-0c1f0b9d8a11", Pool: "general", PoolUID: "c2e6b3b0-5b0e-4d50-8c9e-7d7f3c1a2b33", Class: "default",
		ProviderID: "aws:///eu-west-1a/i-0123456789abcdef0", Image: "ami-0123456789abcdef0", Node: "ip-10-0-0-1.ec2.internal",
		Labels: plan.PackLabels(claim().Labels), Drifted: true, DriftReason: "Drifted",
		Created: claim().CreationTimestamp.Time, Launch: 95 * time.Second, Initialized: true,
	}}
	if diff := cmp.Diff(want, live.NodeClaims); diff != "" {
		t.Error(diff)
	}
}

// TestLiveFailsWhole: half of what lives would look like entries that are gone.
func TestLiveFailsWhole(t *testing.T) {
	for _, kind := range []string{"NodePool", "EC2NodeClass", "NodeClaim"} {
		t.Run(kind, func(t *testing.T) {
			refuse := interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
				_, claims := list.(*karpv1.NodeClaimList)
				if list.GetObjectKind().GroupVersionKind().Kind == kind || (claims && kind == "NodeClaim") {
					return errors.New("the cache is closed")
				}
				return c.List(ctx, list, opts...)
			}}
			_, err := observe.Live(t.Context(), cluster(t).WithInterceptorFuncs(refuse).Build())
			if err == nil || !strings.Contains(err.Error(), "read the "+kind+"s") {
				t.Errorf("err = %v", err)
			}
		})
	}
}
