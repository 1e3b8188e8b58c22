package capture

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/observe"
)

// unknownPlace is named in Unread where Karpenter's pods have more than is kept of them.
const unknownPlace = "what values of Karpenter's chart say of where its own pods run, which may come out of a Secret"

// isKarpenters says whether labels are those of what Karpenter's chart has made.
func isKarpenters(of map[string]string) bool {
	return observe.ControllerLabels().AsSelector().Matches(labels.Set(of))
}

// trimKarpenterPod takes out of a pod of Karpenter's what values of its chart can set, since valuesFrom takes these
// out of Secrets. What the released charts have by themselves stays. It returns whether that is less than there was.
func trimKarpenterPod(pod *corev1.Pod) (less bool) {
	s := &pod.Spec
	kept := corev1.PodSpec{
		NodeName: s.NodeName, NodeSelector: maps.Clone(s.NodeSelector), Affinity: trimAffinity(s.Affinity), Tolerations: slices.Clone(s.Tolerations),
		Priority: s.Priority, PreemptionPolicy: s.PreemptionPolicy, HostNetwork: s.HostNetwork, Overhead: s.Overhead, Resources: s.Resources,
		Containers: s.Containers, InitContainers: s.InitContainers,
	}
	maps.DeleteFunc(kept.NodeSelector, func(key, value string) bool { return key != corev1.LabelOSStable || value != string(corev1.Linux) })
	kept.Tolerations = slices.DeleteFunc(kept.Tolerations, func(t corev1.Toleration) bool { return !isReleased(t) })
	for _, c := range s.TopologySpreadConstraints {
		if c.TopologyKey == corev1.LabelTopologyZone && c.MaxSkew == 1 {
			kept.TopologySpreadConstraints = append(kept.TopologySpreadConstraints, corev1.TopologySpreadConstraint{
				TopologyKey: c.TopologyKey, MaxSkew: 1, WhenUnsatisfiable: c.WhenUnsatisfiable, LabelSelector: karpenters(),
			})
		}
	}
	less = len(kept.NodeSelector) < len(s.NodeSelector) || len(kept.Tolerations) < len(s.Tolerations) ||
		len(kept.TopologySpreadConstraints) < len(s.TopologySpreadConstraints) || !sameAffinity(kept.Affinity, s.Affinity)
	pod.Spec = kept
	pod.Labels = trimLabels(pod.Labels)
	maps.DeleteFunc(pod.Annotations, func(key, value string) bool { return key != karpv1.DoNotDisruptAnnotationKey || value != "true" })
	return less
}

// trimLabels keeps those that the selectors of the charts read.
func trimLabels(of map[string]string) map[string]string {
	kept := maps.Clone(of)
	maps.DeleteFunc(kept, func(key, _ string) bool {
		return !slices.Contains([]string{"app.kubernetes.io/name", "app.kubernetes.io/instance"}, key)
	})
	return kept
}

func karpenters() *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: observe.ControllerLabels()}
}

// isReleased says whether the released charts have a toleration, or Kubernetes has added it.
func isReleased(t corev1.Toleration) bool {
	switch t.Key {
	case "CriticalAddonsOnly":
		return t.Operator == corev1.TolerationOpExists && t.Value == "" && t.Effect == ""
	case corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable:
		return t.Operator == corev1.TolerationOpExists && t.Value == "" && t.Effect == corev1.TaintEffectNoExecute
	default:
		return false
	}
}

// trimAffinity keeps that Karpenter runs on no node of its own, and one pod of it on a node.
func trimAffinity(a *corev1.Affinity) *corev1.Affinity {
	if a == nil {
		return nil
	}
	kept := &corev1.Affinity{}
	if of := a.NodeAffinity; of != nil && of.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		away := corev1.NodeSelectorRequirement{Key: karpv1.NodePoolLabelKey, Operator: corev1.NodeSelectorOpDoesNotExist}
		for _, term := range of.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
			if slices.ContainsFunc(term.MatchExpressions, func(r corev1.NodeSelectorRequirement) bool { return apiequality.Semantic.DeepEqual(r, away) }) {
				only := []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{away}}}
				kept.NodeAffinity = &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: only}}
			}
		}
	}
	if of := a.PodAntiAffinity; of != nil {
		for _, term := range of.RequiredDuringSchedulingIgnoredDuringExecution {
			if term.TopologyKey == corev1.LabelHostname {
				kept.PodAntiAffinity = &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: term.TopologyKey, LabelSelector: karpenters()}}}
			}
		}
	}
	return kept
}

// sameAffinity says whether what was kept is all, but for the labels by which Karpenter's pods stay apart.
func sameAffinity(kept, was *corev1.Affinity) bool {
	if kept == nil || was == nil {
		return kept == was
	}
	apart := func(a *corev1.PodAntiAffinity) (required, preferred int) {
		if a == nil {
			return 0, 0
		}
		return len(a.RequiredDuringSchedulingIgnoredDuringExecution), len(a.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	keptRequired, keptPreferred := apart(kept.PodAntiAffinity)
	required, preferred := apart(was.PodAntiAffinity)
	return was.PodAffinity == nil && apiequality.Semantic.DeepEqual(kept.NodeAffinity, was.NodeAffinity) && keptRequired == required && keptPreferred == preferred
}

// trimKarpenterBudget keeps of Karpenter's budget whether it allows no eviction at all.
func trimKarpenterBudget(b *policyv1.PodDisruptionBudget) {
	b.Labels = trimLabels(b.Labels)
	b.Spec.MinAvailable = nil
	if most := b.Spec.MaxUnavailable; most != nil && *most != intstr.FromInt32(0) {
		b.Spec.MaxUnavailable = nil
	}
}
