package simulate_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/simulate"
)

// ofKarpenter serves one of Karpenter's pods and its budget.
type ofKarpenter struct {
	server
	pod corev1.Pod
}

func (o ofKarpenter) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	switch l := list.(type) {
	case *corev1.PodList:
		l.Items = []corev1.Pod{o.pod}
		return nil
	case *policyv1.PodDisruptionBudgetList:
		most := intstr.FromString("4711%")
		l.Items = []policyv1.PodDisruptionBudget{{ObjectMeta: o.pod.ObjectMeta, Spec: policyv1.PodDisruptionBudgetSpec{MaxUnavailable: &most}}}
		return nil
	}
	return o.server.List(ctx, list, options...)
}

// released returns the pod that the released chart creates.
func released() corev1.Pod {
	own := &metav1.LabelSelector{MatchLabels: map[string]string{"app.kubernetes.io/name": "karpenter", "app.kubernetes.io/instance": "karpenter"}}
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "karpenter-x", Labels: map[string]string{"app.kubernetes.io/name": "karpenter", "app.kubernetes.io/instance": "karpenter", "pod-template-hash": "x"}},
		Spec: corev1.PodSpec{
			NodeSelector: map[string]string{"kubernetes.io/os": "linux"},
			Tolerations:  []corev1.Toleration{{Key: "CriticalAddonsOnly", Operator: "Exists"}, {Key: "node.kubernetes.io/not-ready", Operator: "Exists", Effect: "NoExecute"}},
			Affinity: &corev1.Affinity{
				NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
					{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "karpenter.sh/nodepool", Operator: "DoesNotExist"}}},
				}}},
				PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: "kubernetes.io/hostname", LabelSelector: own}}},
			},
			TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{TopologyKey: "topology.kubernetes.io/zone", MaxSkew: 1, WhenUnsatisfiable: "DoNotSchedule", LabelSelector: own}},
		},
	}
}

// TestValuesOfKarpentersChartAreLeftOut checks this because a commit can copy the content of a Secret into any of them,
// and a person who gets a snapshot may not be allowed to read pods.
func TestValuesOfKarpentersChartAreLeftOut(t *testing.T) {
	const secret, unread = "tops3cretvalue", "what values of Karpenter's chart say of where its own pods run, which may come out of a Secret"
	for name, tc := range map[string]struct {
		set  func(*corev1.Pod)
		less bool
	}{
		"the released chart": {func(*corev1.Pod) {}, false},
		"nodeSelector":       {func(p *corev1.Pod) { p.Spec.NodeSelector["foo"] = secret }, true},
		"the system's nodes": {func(p *corev1.Pod) { p.Spec.NodeSelector["kubernetes.io/os"] = secret }, true},
		"tolerations":        {func(p *corev1.Pod) { p.Spec.Tolerations[0].Value, p.Spec.Tolerations[0].Operator = secret, "Equal" }, true},
		"affinity": {func(p *corev1.Pod) {
			terms := p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
			terms[0].MatchExpressions = append(terms[0].MatchExpressions, corev1.NodeSelectorRequirement{Key: "a", Operator: "In", Values: []string{secret}})
		}, true},
		"spread":        {func(p *corev1.Pod) { p.Spec.TopologySpreadConstraints[0].TopologyKey = secret }, true},
		"schedulerName": {func(p *corev1.Pod) { p.Spec.SchedulerName = secret }, false},
		"podLabels":     {func(p *corev1.Pod) { p.Labels["a"] = secret }, false},
		"podAnnotations": {func(p *corev1.Pod) {
			p.Annotations = map[string]string{"karpenter.sh/do-not-disrupt": secret, "controller.kubernetes.io/pod-deletion-cost": secret}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			pod := released()
			tc.set(&pod)
			c, err := simulate.ReadCapture(t.Context(), ofKarpenter{pod: pod}, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			packed := &bytes.Buffer{}
			if err := c.Encode(packed); err != nil {
				t.Fatal(err)
			}
			unpacked, err := gzip.NewReader(packed)
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(unpacked)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(text), secret) || strings.Contains(string(text), "4711") {
				t.Errorf("the file has it: %s", text)
			}
			if got := slices.Contains(c.Unread, unread); got != tc.less {
				t.Errorf("unread %q, want that something is not counted: %v", c.Unread, tc.less)
			}
			kept := c.Pods[0].Spec
			if !tc.less && (len(kept.Tolerations) != 2 || kept.Affinity.NodeAffinity == nil || kept.Affinity.PodAntiAffinity == nil || len(kept.TopologySpreadConstraints) != 1) {
				t.Errorf("kept %+v", kept)
			}
		})
	}
}
