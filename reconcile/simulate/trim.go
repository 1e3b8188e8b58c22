package simulate

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/cluster"
)

func none(string) bool { return false }

func trimNode(n *corev1.Node) corev1.Node {
	trimmed := corev1.Node{
		ObjectMeta: trimMetadata(&n.ObjectMeta, karpenterAnnotation),
		Spec:       corev1.NodeSpec{ProviderID: n.Spec.ProviderID, Unschedulable: n.Spec.Unschedulable, Taints: n.Spec.Taints},
		Status:     corev1.NodeStatus{Capacity: n.Status.Capacity, Allocatable: n.Status.Allocatable},
	}
	for _, c := range n.Status.Conditions {
		trimmed.Status.Conditions = append(trimmed.Status.Conditions,
			corev1.NodeCondition{Type: c.Type, Status: c.Status, LastTransitionTime: c.LastTransitionTime})
	}
	return trimmed
}

func trimNodeClaim(c *karpv1.NodeClaim) karpv1.NodeClaim {
	trimmed := karpv1.NodeClaim{
		ObjectMeta: trimMetadata(&c.ObjectMeta, karpenterAnnotation),
		Spec:       c.Spec,
		Status: karpv1.NodeClaimStatus{
			NodeName: c.Status.NodeName, ProviderID: c.Status.ProviderID, ImageID: c.Status.ImageID,
			Capacity: c.Status.Capacity, Allocatable: c.Status.Allocatable, LastPodEventTime: c.Status.LastPodEventTime,
		},
	}
	for _, condition := range c.Status.Conditions {
		condition.Message = ""
		trimmed.Status.Conditions = append(trimmed.Status.Conditions, condition)
	}
	return trimmed
}

func trimNamespace(n *corev1.Namespace) corev1.Namespace {
	return corev1.Namespace{ObjectMeta: trimMetadata(&n.ObjectMeta, none)}
}

func trimDaemonSet(d *appsv1.DaemonSet) appsv1.DaemonSet {
	trimmed := appsv1.DaemonSet{ObjectMeta: trimMetadata(&d.ObjectMeta, none)}
	trimmed.Spec.Template = trimTemplate(&d.Spec.Template)
	return trimmed
}

func trimTemplate(t *corev1.PodTemplateSpec) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{ObjectMeta: trimMetadata(&t.ObjectMeta, podAnnotation), Spec: trimPodSpec(&t.Spec)}
}

func trimPodTemplate(t *corev1.PodTemplate) corev1.PodTemplate {
	return corev1.PodTemplate{ObjectMeta: trimMetadata(&t.ObjectMeta, none), Template: trimTemplate(&t.Template)}
}

func trimDeployment(d *appsv1.Deployment) appsv1.Deployment {
	return appsv1.Deployment{
		ObjectMeta: trimMetadata(&d.ObjectMeta, none),
		Spec:       appsv1.DeploymentSpec{Replicas: d.Spec.Replicas, Template: trimTemplate(&d.Spec.Template)},
	}
}

func trimStatefulSet(s *appsv1.StatefulSet) appsv1.StatefulSet {
	return appsv1.StatefulSet{
		ObjectMeta: trimMetadata(&s.ObjectMeta, none),
		Spec:       appsv1.StatefulSetSpec{Replicas: s.Spec.Replicas, Template: trimTemplate(&s.Spec.Template)},
	}
}

func trimBudget(b *policyv1.PodDisruptionBudget) policyv1.PodDisruptionBudget {
	trimmed := policyv1.PodDisruptionBudget{
		ObjectMeta: trimMetadata(&b.ObjectMeta, none), Spec: b.Spec,
		Status: policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: b.Status.DisruptionsAllowed},
	}
	if isKarpenters(trimmed.Labels) {
		trimKarpenterBudget(&trimmed)
	}
	return trimmed
}

// bound is the annotation of a claim whose volume is already chosen.
const bound = "pv.kubernetes.io/bind-completed"

func trimClaim(c *corev1.PersistentVolumeClaim) corev1.PersistentVolumeClaim {
	return corev1.PersistentVolumeClaim{
		ObjectMeta: trimMetadata(&c.ObjectMeta, func(key string) bool { return key == bound }),
		Spec:       corev1.PersistentVolumeClaimSpec{StorageClassName: c.Spec.StorageClassName, VolumeName: c.Spec.VolumeName},
		Status:     corev1.PersistentVolumeClaimStatus{Phase: c.Status.Phase},
	}
}

// trimVolume keeps the driver of a volume, and where it can be attached.
func trimVolume(v *corev1.PersistentVolume) corev1.PersistentVolume {
	trimmed := corev1.PersistentVolume{ObjectMeta: trimMetadata(&v.ObjectMeta, none)}
	trimmed.Spec.NodeAffinity, trimmed.Spec.StorageClassName = v.Spec.NodeAffinity, v.Spec.StorageClassName
	switch {
	case v.Spec.CSI != nil:
		trimmed.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: v.Spec.CSI.Driver}
	case v.Spec.AWSElasticBlockStore != nil:
		trimmed.Spec.AWSElasticBlockStore = &corev1.AWSElasticBlockStoreVolumeSource{}
	case v.Spec.Local != nil:
		trimmed.Spec.Local = &corev1.LocalVolumeSource{}
	case v.Spec.HostPath != nil:
		trimmed.Spec.HostPath = &corev1.HostPathVolumeSource{}
	}
	return trimmed
}

func trimClass(c *storagev1.StorageClass) storagev1.StorageClass {
	isDefault := func(key string) bool { return key == "storageclass.kubernetes.io/is-default-class" }
	return storagev1.StorageClass{
		ObjectMeta: trimMetadata(&c.ObjectMeta, isDefault), Provisioner: c.Provisioner, VolumeBindingMode: c.VolumeBindingMode,
		AllowedTopologies: c.AllowedTopologies,
	}
}

func trimCSINode(n *storagev1.CSINode) storagev1.CSINode {
	trimmed := storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: n.Name, UID: n.UID}}
	for _, d := range n.Spec.Drivers {
		trimmed.Spec.Drivers = append(trimmed.Spec.Drivers, storagev1.CSINodeDriver{Name: d.Name, Allocatable: d.Allocatable})
	}
	return trimmed
}

// digest is the prefix of what replaces user data, which may contain secrets.
const digest = "sha256:"

// trimDefinition keeps all of a definition except user data, which it replaces with a digest, foreign annotations, and
// messages of conditions.
func trimDefinition(object *unstructured.Unstructured) map[string]any {
	trimmed := object.DeepCopy()
	annotations := trimmed.GetAnnotations()
	maps.DeleteFunc(annotations, func(key, _ string) bool { return !karpenterAnnotation(key) })
	if len(annotations) == 0 {
		annotations = nil
	}
	trimmed.SetAnnotations(annotations)
	if data, found, _ := unstructured.NestedString(trimmed.Object, "spec", "userData"); found && data != "" {
		setUserData(trimmed.Object, digestOf(data))
	}
	conditions, _, _ := unstructured.NestedFieldNoCopy(trimmed.Object, "status", "conditions")
	listed, _ := conditions.([]any)
	for _, c := range listed {
		if fields, ok := c.(map[string]any); ok && fields["message"] != nil {
			fields["message"] = ""
		}
	}
	return trimmed.Object
}

func digestOf(data string) string {
	sum := sha256.Sum256([]byte(data))
	return digest + hex.EncodeToString(sum[:])
}

func setUserData(definition map[string]any, data string) {
	if spec, ok := definition["spec"].(map[string]any); ok {
		spec["userData"] = data
	}
}

// WithUserData returns the Definitions with the digest of user data replaced by the user data in Git, if it is the
// same, so that they can be compared like those of a cluster.
func (c *Capture) WithUserData(inGit func(class string) string) []map[string]any {
	var definitions []map[string]any
	for _, definition := range c.Definitions {
		object := (&unstructured.Unstructured{Object: definition}).DeepCopy()
		noted, _, _ := unstructured.NestedString(object.Object, "spec", "userData")
		if data := inGit(object.GetName()); strings.HasPrefix(noted, digest) && data != "" && digestOf(data) == noted {
			setUserData(object.Object, data)
		}
		definitions = append(definitions, object.Object)
	}
	return definitions
}

// unknownPlace is in Unread if Karpenter's pods have more than is kept of them.
const unknownPlace = "what values of Karpenter's chart say of where its own pods run, which may come out of a Secret"

// isKarpenters reports whether labels are those of objects of Karpenter's chart.
func isKarpenters(of map[string]string) bool {
	return cluster.ControllerLabels().AsSelector().Matches(labels.Set(of))
}

// trimKarpenterPod removes from a Karpenter pod what values of its chart can set, since valuesFrom reads these from
// Secrets. It keeps the defaults of the released charts. It reports whether anything was removed.
func trimKarpenterPod(pod *corev1.Pod) (less bool) {
	s := &pod.Spec
	kept := corev1.PodSpec{
		NodeName: s.NodeName, NodeSelector: maps.Clone(s.NodeSelector), Affinity: trimAffinity(s.Affinity),
		Tolerations: slices.Clone(s.Tolerations),
		Priority:    s.Priority, PreemptionPolicy: s.PreemptionPolicy, HostNetwork: s.HostNetwork, Overhead: s.Overhead, Resources: s.Resources,
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

// trimLabels keeps the labels that the selectors of the charts use.
func trimLabels(of map[string]string) map[string]string {
	kept := maps.Clone(of)
	maps.DeleteFunc(kept, func(key, _ string) bool {
		return !slices.Contains([]string{"app.kubernetes.io/name", "app.kubernetes.io/instance"}, key)
	})
	return kept
}

func karpenters() *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: cluster.ControllerLabels()}
}

// isReleased reports whether a toleration is in the released charts, or added by Kubernetes.
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

// trimAffinity keeps that Karpenter does not run on its own nodes, and that only one of its pods runs on a node.
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

// sameAffinity reports whether everything was kept, except for the labels that keep Karpenter's pods apart.
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
	return was.PodAffinity == nil && apiequality.Semantic.DeepEqual(kept.NodeAffinity, was.NodeAffinity) && keptRequired == required &&
		keptPreferred == preferred
}

// trimKarpenterBudget only keeps whether Karpenter's budget allows no evictions at all.
func trimKarpenterBudget(b *policyv1.PodDisruptionBudget) {
	b.Labels = trimLabels(b.Labels)
	b.Spec.MinAvailable = nil
	if most := b.Spec.MaxUnavailable; most != nil && *most != intstr.FromInt32(0) {
		b.Spec.MaxUnavailable = nil
	}
}

// trimPod keeps the fields of a pod that decide where it runs and whether it may be evicted.
func trimPod(pod *corev1.Pod) corev1.Pod {
	trimmed := corev1.Pod{ObjectMeta: trimMetadata(&pod.ObjectMeta, podAnnotation), Spec: trimPodSpec(&pod.Spec)}
	trimmed.Status.Phase, trimmed.Status.StartTime = pod.Status.Phase, pod.Status.StartTime
	trimmed.Status.NominatedNodeName = pod.Status.NominatedNodeName
	for _, c := range pod.Status.Conditions {
		trimmed.Status.Conditions = append(trimmed.Status.Conditions, corev1.PodCondition{Type: c.Type, Status: c.Status, Reason: c.Reason})
	}
	return trimmed
}

// podAnnotation reports whether scheduling reads an annotation of a pod.
func podAnnotation(key string) bool {
	return key == karpv1.DoNotDisruptAnnotationKey || key == corev1.PodDeletionCost
}

// karpenterAnnotation reports whether an annotation of a definition, node or NodeClaim is Karpenter's or plumbline's.
func karpenterAnnotation(key string) bool {
	prefix, _, _ := strings.Cut(key, "/")
	return prefix == "karpenter.sh" || prefix == "karpenter.k8s.aws" || prefix == "plumbline.dev"
}

// trimMetadata keeps what identifies objects, and the annotations that keep selects.
func trimMetadata(o *metav1.ObjectMeta, keep func(string) bool) metav1.ObjectMeta {
	trimmed := metav1.ObjectMeta{
		Name: o.Name, Namespace: o.Namespace, UID: o.UID, Labels: o.Labels, Generation: o.Generation,
		CreationTimestamp: o.CreationTimestamp, DeletionTimestamp: o.DeletionTimestamp,
	}
	for key, value := range o.Annotations {
		if keep(key) {
			metav1.SetMetaDataAnnotation(&trimmed, key, value)
		}
	}
	for _, owner := range o.OwnerReferences {
		trimmed.OwnerReferences = append(trimmed.OwnerReferences,
			metav1.OwnerReference{APIVersion: owner.APIVersion, Kind: owner.Kind, Name: owner.Name, UID: owner.UID, Controller: owner.Controller})
	}
	return trimmed
}

func trimPodSpec(s *corev1.PodSpec) corev1.PodSpec {
	trimmed := corev1.PodSpec{
		NodeName: s.NodeName, NodeSelector: s.NodeSelector, Affinity: s.Affinity, Tolerations: s.Tolerations,
		TopologySpreadConstraints: s.TopologySpreadConstraints, Priority: s.Priority, PreemptionPolicy: s.PreemptionPolicy,
		Overhead: s.Overhead, SchedulerName: s.SchedulerName, TerminationGracePeriodSeconds: s.TerminationGracePeriodSeconds,
		HostNetwork: s.HostNetwork, Resources: trimResources(s.Resources),
		Containers: trimContainers(s.Containers), InitContainers: trimContainers(s.InitContainers), Volumes: trimVolumes(s.Volumes),
	}
	for i := range s.ResourceClaims {
		trimmed.ResourceClaims = append(trimmed.ResourceClaims, corev1.PodResourceClaim{Name: fmt.Sprintf("claim-%d", i)})
	}
	return trimmed
}

func trimResources(r *corev1.ResourceRequirements) *corev1.ResourceRequirements {
	if r == nil {
		return nil
	}
	return &corev1.ResourceRequirements{Requests: r.Requests, Limits: r.Limits}
}

// trimContainers keeps the requests of containers, and the ports of the node that they use.
func trimContainers(containers []corev1.Container) []corev1.Container {
	var kept []corev1.Container
	for i, c := range containers {
		trimmed := corev1.Container{Name: fmt.Sprintf("c%d", i), Resources: *trimResources(&c.Resources), RestartPolicy: c.RestartPolicy}
		for n := range c.Resources.Claims {
			trimmed.Resources.Claims = append(trimmed.Resources.Claims, corev1.ResourceClaim{Name: fmt.Sprintf("claim-%d", n)})
		}
		for _, p := range c.Ports {
			if p.HostPort != 0 {
				trimmed.Ports = append(trimmed.Ports,
					corev1.ContainerPort{HostPort: p.HostPort, ContainerPort: p.ContainerPort, HostIP: p.HostIP, Protocol: p.Protocol})
			}
		}
		kept = append(kept, trimmed)
	}
	return kept
}

// trimVolumes keeps those that are bound to a zone or a node: claims. The name of an ephemeral one is part of its
// claim's name.
func trimVolumes(volumes []corev1.Volume) []corev1.Volume {
	var kept []corev1.Volume
	for _, v := range volumes {
		switch {
		case v.PersistentVolumeClaim != nil:
			kept = append(kept, corev1.Volume{Name: v.Name, VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: v.PersistentVolumeClaim.ClaimName}}})
		case v.Ephemeral != nil && v.Ephemeral.VolumeClaimTemplate != nil:
			kept = append(kept, corev1.Volume{Name: v.Name, VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{
				Spec: corev1.PersistentVolumeClaimSpec{
					StorageClassName: v.Ephemeral.VolumeClaimTemplate.Spec.StorageClassName,
					VolumeName:       v.Ephemeral.VolumeClaimTemplate.Spec.VolumeName,
				},
			}}}})
		}
	}
	return kept
}
