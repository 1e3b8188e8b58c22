package reconcile

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/removal"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade/installtest"
	"github.com/plumbline-dev/plumbline/render"
)

// TestTerminationsOfPoolsThatWait shows that a NodeClaim that has been terminating for an hour is reported until the
// removal of its pool has started; afterwards the removal reports it.
func TestTerminationsOfPoolsThatWait(t *testing.T) {
	at := metav1.NewTime(time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC))
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{
		Name: "batch-1", DeletionTimestamp: &at, Finalizers: []string{karpv1.TerminationFinalizer}, Labels: map[string]string{karpv1.NodePoolLabelKey: "batch"},
	}}
	for name, c := range map[string]struct {
		removal *v1alpha1.Removal
		want    int
	}{
		"no removal":              {want: 1},
		"in its grace period":     {&v1alpha1.Removal{Phase: v1alpha1.RemovalPacing, Reason: removal.ReasonGrace}, 1},
		"queued":                  {&v1alpha1.Removal{Phase: v1alpha1.RemovalPacing, Reason: v1alpha1.ReasonQueued}, 1},
		"held":                    {&v1alpha1.Removal{Phase: v1alpha1.RemovalHeld}, 1},
		"waits for its NodeClaim": {&v1alpha1.Removal{Phase: v1alpha1.RemovalPacing, Reason: removal.ReasonNodeClaimsLeaving}, 0},
		"drains":                  {&v1alpha1.Removal{Phase: v1alpha1.RemovalDraining}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			p := newBed(t, nodeSync(unchanged), append(installtest.Installed(), claim.DeepCopy())...).pass()
			p.stages.Controller, p.stages.Alive = cluster.Readiness{Ready: true}, true
			pool := render.Ref{Kind: render.NodePool, Name: "batch"}
			p.want.Set = &render.Set{}
			if c.removal == nil {
				p.want.Set.Objects = []render.Object{{Ref: pool}}
			}
			p.live.Objects = map[render.Ref]*plan.Object{pool: plan.NewObject(&unstructured.Unstructured{})}
			p.live.NodeClaims = []plan.NodeClaim{{Name: "batch-1", Pool: "batch", Deleting: true, Deleted: p.now.Add(-time.Hour)}}
			if c.removal != nil {
				c.removal.Kind, c.removal.Name, c.removal.UID = render.NodePool, "batch", "p2"
				p.sync.Status.Removals = []v1alpha1.Removal{*c.removal}
			}
			if err := p.seeTerminations(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := len(p.Terminations); got != c.want {
				t.Errorf("%d terminations are reported, want %d", got, c.want)
			}
		})
	}
}

// TestALeaseThatNobodyRenews stops removals, unless Karpenter runs without leader election: then the lease is an old
// one.
func TestALeaseThatNobodyRenews(t *testing.T) {
	for disabled, ready := range map[string]bool{"false": false, "true": true} {
		lease := &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "karpenter-leader-election"},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: ptr.To("karpenter-gone_0ab"), RenewTime: ptr.To(metav1.NewMicroTime(time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)))},
		}
		objects := append(installtest.Installed(), lease)
		for _, o := range objects {
			if d, is := o.(*appsv1.Deployment); is {
				d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "controller", Env: []corev1.EnvVar{{Name: "DISABLE_LEADER_ELECTION", Value: disabled}}}}
			}
		}
		b := newBed(t, nodeSync(unchanged), objects...)
		var p *pass
		for range 3 {
			p = b.pass()
			p.sync.Status.Karpenter = &v1alpha1.KarpenterStatus{Namespace: "kube-system"}
			p.stages.Controller, p.stages.Alive = cluster.Readiness{Ready: true}, true
			p.seeHeartbeat(t.Context())
			b.clock.forward(40 * time.Second)
		}
		if p.stages.Controller.Ready != ready || p.stages.Alive != ready {
			t.Errorf("leader election disabled %s: ready %t, alive %t: %s", disabled, p.stages.Controller.Ready, p.stages.Alive, p.stages.Controller.Message)
		}
	}
}
