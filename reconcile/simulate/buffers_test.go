package simulate_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/simulate"
)

// bufferNamed returns a CapacityBuffer with a spec.
func bufferNamed(t *testing.T, name, spec string) map[string]any {
	t.Helper()
	return defined(t, `
apiVersion: autoscaling.x-k8s.io/v1beta1
kind: CapacityBuffer
metadata: {namespace: web, name: `+name+`, uid: `+name+`}
spec: `+spec+`
`)
}

// template returns the template of pods that request some CPU.
func template(cpu string) corev1.PodTemplateSpec {
	requests := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
	return corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: requests}}}}}
}

// TestBuffersTakeCapacity checks where the placeholder pods of CapacityBuffers have capacity after a commit, and the new
// nodes that Karpenter launches for them. Each node has two CPUs, of which the DaemonSets' pods use none.
func TestBuffersTakeCapacity(t *testing.T) {
	three := int32(3)
	const spare = "{podTemplateRef: {name: spare}, replicas: 2}"
	type result struct {
		buffers []simulate.Buffer
		nodes   int
		note    string
	}
	for name, c := range map[string]struct {
		off           bool
		before, after string
		leaves        bool
		limits        string
		want          result
	}{
		"a buffer that exists": {before: spare, after: spare, want: result{
			buffers: []simulate.Buffer{{Name: "web/spare", Pods: 2, New: 1}}, nodes: 1,
		}},
		"a buffer that a commit adds": {after: spare, want: result{
			buffers: []simulate.Buffer{{Name: "web/spare", Pods: 2, New: 1}}, nodes: 1,
		}},
		"its node terminates": {before: spare, after: spare, leaves: true, want: result{
			buffers: []simulate.Buffer{{Name: "web/spare", Pods: 2, New: 2}}, nodes: 2,
		}},
		"a buffer that a commit removes": {before: spare},
		"more replicas": {before: spare, after: "{podTemplateRef: {name: spare}, replicas: 4}", want: result{
			buffers: []simulate.Buffer{{Name: "web/spare", Pods: 4, New: 3}}, nodes: 3,
		}},
		"a share of a Deployment": {after: "{scalableRef: {apiGroup: apps, kind: Deployment, name: web}, percentage: 100}", want: result{
			buffers: []simulate.Buffer{{Name: "web/spare", Pods: 3, New: 2}}, nodes: 2,
		}},
		"the limits of the pool": {after: spare, limits: `limits: {cpu: "2"}`, want: result{
			buffers: []simulate.Buffer{{Name: "web/spare", Pods: 2, Nowhere: 1, Reason: "exceed limits"}},
		}},
		"the feature gate is off": {off: true, before: spare, after: spare, want: result{
			note: "1 CapacityBuffers have no effect: the feature gate CapacityBuffer is off",
		}},
		"no PodTemplate": {after: "{podTemplateRef: {name: other}, replicas: 2}", want: result{
			note: "CapacityBuffer/web/spare is not counted: PodTemplate \"other\" not found",
		}},
		"a ReplicaSet": {after: "{scalableRef: {apiGroup: apps, kind: ReplicaSet, name: web}, percentage: 100}", want: result{
			note: "CapacityBuffer/web/spare is not counted: ReplicaSet web/web is not read",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			definitions := func(buffer string) []map[string]any {
				all := []map[string]any{poolNamed(t, "a", c.limits, any64), classNamed(t, "default")}
				if buffer != "" {
					all = append(all, bufferNamed(t, "spare", buffer))
				}
				return all
			}
			cluster := fleet(definitions(c.before)...)
			cluster.Settings.CapacityBuffer = !c.off
			cluster.PodTemplates = []corev1.PodTemplate{{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "spare"}, Template: template("1500m")}}
			cluster.Deployments = []appsv1.Deployment{{
				ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "web"}, Spec: appsv1.DeploymentSpec{Replicas: &three, Template: template("1500m")},
			}}
			uid := node(cluster, "a", "one")
			var touched []types.UID
			if c.leaves {
				touched = append(touched, uid)
			}
			out := simulated(t, cluster, definitions(c.after), touched, "m5.large 2 8")
			got := result{buffers: out.Buffers}
			reason := "exceed limits" // Karpenter's own also names the pool
			for i := range got.buffers {
				if strings.Contains(got.buffers[i].Reason, reason) {
					got.buffers[i].Reason = reason
				}
			}
			for _, n := range out.New {
				got.nodes += n.Count
				if n.Pods != 0 || n.Placeholders != n.Count {
					t.Errorf("pods on new nodes: %+v", n)
				}
			}
			if slices.Contains(out.Notes, c.want.note) {
				got.note = c.want.note
			}
			if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(result{})); diff != "" || len(out.Nowhere) > 0 || len(out.Placed) > 0 {
				t.Errorf("%+v\n(-want +got):\n%s", out, diff)
			}
		})
	}
}

// TestPodsComeBeforePlaceholders: a pod that moves is scheduled, and a placeholder pod is not a pod that is unschedulable.
func TestPodsComeBeforePlaceholders(t *testing.T) {
	definitions := []map[string]any{
		poolNamed(t, "a", `limits: {cpu: "4"}`, any64), classNamed(t, "default"),
		bufferNamed(t, "spare", "{podTemplateRef: {name: spare}, replicas: 3}"),
	}
	c := fleet(definitions...)
	c.Settings.CapacityBuffer = true
	c.PodTemplates = []corev1.PodTemplate{{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "spare"}, Template: template("1500m")}}
	leaving := node(c, "a", "leaving", "1600m")
	node(c, "a", "stays", "1600m")
	out := simulated(t, c, definitions, []types.UID{leaving}, "m5.large 2 8")
	if len(out.Nowhere) > 0 || len(out.Moves) != 1 || len(out.Buffers) != 1 || out.Buffers[0].Nowhere != 3 {
		t.Errorf("%+v", out)
	}
}
