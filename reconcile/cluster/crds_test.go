package cluster_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

// TestDaemonSetsAreReadAgain earlier if one is missing its toleration, or if they could not be read.
func TestDaemonSetsAreReadAgain(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{appsv1.AddToScheme, storagev1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	reads, forbidden := 0, false
	set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "ebs-csi-node"}}
	set.Spec.Template.Spec.Containers = []corev1.Container{{Name: "ebs-plugin", Image: "aws-ebs-csi-driver"}}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(set).WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if _, sets := list.(*appsv1.DaemonSetList); sets {
				reads++
				if forbidden {
					return apierrors.NewForbidden(schema.GroupResource{Group: "apps", Resource: "daemonsets"}, "", nil)
				}
			}
			return c.List(ctx, list, opts...)
		},
	}).Build()
	view := &cluster.View{Uncached: c, Memory: &cluster.Memory{}}
	start, retry := time.Unix(1_000_000, 0), time.Minute
	one := []plan.NodeClaim{{Name: "a"}}
	look := func(what string, claims []plan.NodeClaim, after time.Duration, want int, wantAgain time.Duration, words string) {
		t.Helper()
		reads = 0
		found, again := view.DaemonSets(t.Context(), claims, start.Add(after), retry)
		if reads != want {
			t.Errorf("%s: %d reads, want %d", what, reads, want)
		}
		if wanted := start.Add(wantAgain); wantAgain == 0 && !again.IsZero() || wantAgain > 0 && !again.Equal(wanted) {
			t.Errorf("%s: asks again at %s, want %s", what, again, wanted)
		}
		if got := found.Untolerated() + found.Unread; !strings.Contains(got, words) || words == "" && got != "" {
			t.Errorf("%s: %s", what, cmp.Diff(words, got))
		}
	}
	look("without a node", nil, 0, 0, 0, "")
	look("with one", one, 0, 1, time.Minute, "DaemonSet kube-system/ebs-csi-node (CSI driver ebs.csi.aws.com) does not tolerate")
	look("soon after", one, 59*time.Second, 0, time.Minute, "does not tolerate")
	set.Spec.Template.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	if err := c.Update(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	look("once it has the toleration", one, time.Minute, 1, 0, "")
	look("nine minutes later", one, 10*time.Minute, 0, 0, "")
	forbidden = true
	look("without the right", one, 11*time.Minute, 1, 12*time.Minute, "permission to list daemonsets.apps")
	look("with a clock that was set back", one, 0, 1, time.Minute, "permission to list")
}
