package removal

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/teardown"
)

// TestPaceIsAsTheNodeSyncSays, and as the CRD's defaults say where it says nothing.
func TestPaceIsAsTheNodeSyncSays(t *testing.T) {
	half, three := intstr.FromString("50%"), intstr.FromInt32(3)
	for name, c := range map[string]struct {
		spec v1alpha1.RemovalPolicy
		want teardown.Pace
	}{
		"nothing is said": {want: teardown.Pace{Grace: 30 * time.Second, MaxUnavailable: intstr.FromString("10%"), AwaitPods: true}},
		"a pace and a grace": {
			spec: v1alpha1.RemovalPolicy{MaxUnavailable: &half, Grace: &metav1.Duration{Duration: time.Hour}},
			want: teardown.Pace{Grace: time.Hour, MaxUnavailable: half, AwaitPods: true},
		},
		"no grace": {
			spec: v1alpha1.RemovalPolicy{MaxUnavailable: &three, Grace: &metav1.Duration{}},
			want: teardown.Pace{MaxUnavailable: three, AwaitPods: true},
		},
		"all at once": {
			spec: v1alpha1.RemovalPolicy{Strategy: v1alpha1.RemovalAtOnce},
			want: teardown.Pace{Grace: 30 * time.Second, MaxUnavailable: intstr.FromString("10%"), AtOnce: true, AwaitPods: true},
		},
		"paced, by name": {
			spec: v1alpha1.RemovalPolicy{Strategy: v1alpha1.RemovalPaced},
			want: teardown.Pace{Grace: 30 * time.Second, MaxUnavailable: intstr.FromString("10%"), AwaitPods: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := living(t).step(general)
			s.Sync.Spec.Removal = c.spec
			if diff := cmp.Diff(c.want, s.pace()); diff != "" {
				t.Errorf("pace (-want +got):\n%s", diff)
			}
		})
	}
}
