package reconcile

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/rollout"
	"github.com/plumbline-dev/plumbline/render"
)

// TestStaticPoolsThatKarpenterPassesOver shows that they are named while they have too few nodes and the controller's
// environment turns their feature gate off.
func TestStaticPoolsThatKarpenterPassesOver(t *testing.T) {
	const why = "it is static (spec.replicas), and Karpenter's feature gate StaticCapacity is off: set settings.featureGates.staticCapacity: true in the chart's values"
	for name, c := range map[string]struct {
		gates    string
		replicas any
		claims   []plan.NodeClaim
		want     []rollout.LaunchFailure
	}{
		"off":                   {"NodeRepair=true, StaticCapacity=false", int64(2), nil, []rollout.LaunchFailure{{Pool: "fixed", Why: why}}},
		"on":                    {"StaticCapacity=true", int64(2), nil, nil},
		"of an older Karpenter": {"NodeRepair=true", int64(2), nil, nil},
		"it has one of two":     {"StaticCapacity=false", int64(2), []plan.NodeClaim{{Name: "a", Pool: "fixed"}}, []rollout.LaunchFailure{{Pool: "fixed", Why: why}}},
		"it has both":           {"StaticCapacity=false", int64(2), []plan.NodeClaim{{Name: "a", Pool: "fixed"}, {Name: "b", Pool: "fixed"}}, nil},
		"it has one too many":   {"StaticCapacity=false", int64(1), []plan.NodeClaim{{Name: "a", Pool: "fixed"}, {Name: "b", Pool: "fixed"}}, nil},
		"of 0 replicas":         {"StaticCapacity=false", int64(0), nil, nil},
		"dynamic":               {"StaticCapacity=false", nil, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			controller := corev1.Container{Name: "controller", Env: []corev1.EnvVar{{Name: "FEATURE_GATES", Value: c.gates}}}
			b := newBed(t, nodeSync(unchanged), &appsv1.Deployment{
				ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "karpenter", Labels: cluster.ControllerLabels()},
				Spec:       appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{controller}}}},
			})
			p := b.pass()
			p.sync.Status.Karpenter = &v1alpha1.KarpenterStatus{Namespace: "kube-system"}
			ref := render.Ref{Kind: render.NodePool, Name: "fixed"}
			pool := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{}}}
			if c.replicas != nil {
				pool.Object["spec"] = map[string]any{"replicas": c.replicas}
			}
			p.want.Set = &render.Set{Objects: []render.Object{{Ref: ref}}}
			p.live = plan.Live{Objects: map[render.Ref]*plan.Object{ref: plan.NewObject(pool)}, NodeClaims: c.claims}
			if err := p.seeLaunches(t.Context()); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, p.LaunchFailures); diff != "" {
				t.Errorf("pools without nodes (-want +got):\n%s", diff)
			}
		})
	}
}
