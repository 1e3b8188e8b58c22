package reconcile

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/reconcile/account"
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

// partlyDenied is an account whose instance without a NodeClaim is shutting down. AWS denies plumbline the security groups, or
// all if err is set.
type partlyDenied struct {
	*fakeCloud
	err error
}

func (c *partlyDenied) Fleet(context.Context, cloud.Query) ([]cloud.Instance, error) {
	return []cloud.Instance{{ID: "i-00000000000000001", Zone: "eu-west-1a", State: "shutting-down", Pool: "batch"}}, c.err
}

func (*partlyDenied) SecurityGroups(context.Context, *awsv1.EC2NodeClass) ([]string, error) {
	return nil, &cloud.DeniedError{Action: "ec2:DescribeSecurityGroups", Err: errUnreachable}
}

// TestTerminationsWithoutAnAnswerToAll shows that an instance that is shutting down for too long is reported if AWS denies something
// else, and if the last comparison failed: the time counts from when it was first seen.
func TestTerminationsWithoutAnAnswerToAll(t *testing.T) {
	for name, fails := range map[string]bool{"the security groups are denied": false, "the last comparison failed": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, at := newBed(t, nodeSync(unchanged), installtest.Installed()...), prodEU("111122223333", "ours")
				b.inAccount(at)
				b.Settings.CompareInstances = time.Minute
				aws := &partlyDenied{fakeCloud: b.cloud}
				b.Cluster.Clouds.Dial = func(context.Context, string) (account.Cloud, error) { return aws, nil }
				p := b.atTheCharts(inForce)
				p.stages.Controller, p.stages.Alive = cluster.Readiness{Ready: true}, true
				pool, class := render.Ref{Kind: render.NodePool, Name: "batch"}, render.Ref{Kind: render.EC2NodeClass, Name: "default"}
				p.want.Set = &render.Set{Objects: []render.Object{{Ref: pool}}}
				p.live.Objects = map[render.Ref]*plan.Object{}
				for _, ref := range []render.Ref{pool, class} {
					p.live.Objects[ref] = plan.NewObject(&unstructured.Unstructured{Object: map[string]any{"kind": ref.Kind, "metadata": map[string]any{"name": ref.Name}}})
				}
				p.live.NodeClaims = []plan.NodeClaim{{Name: "batch-1", Pool: "batch", Class: "default", ProviderID: "aws:///eu-west-1a/i-00000000000000002"}}
				for n := range 4 {
					if n == 2 && fails {
						aws.err = errUnreachable
					}
					p.takes(t.Context(), p.seeInstances)
					synctest.Wait()
					p.takes(t.Context(), p.seeInstances)
					p.now = p.now.Add(3 * time.Minute)
				}
				if p.Fault != nil || p.Instances == nil || p.Instances.Failure == "" {
					t.Fatalf("%v: %+v", p.Fault, p.Instances)
				}
				if err := p.seeTerminations(t.Context()); err != nil {
					t.Fatal(err)
				}
				if len(p.Terminations) != 1 || p.Terminations[0].Name != "i-00000000000000001" {
					t.Errorf("%+v", p.Terminations)
				}
			})
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
