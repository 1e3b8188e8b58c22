package capture

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

func none(string) bool { return false }

func trimNode(n *corev1.Node) corev1.Node {
	trimmed := corev1.Node{
		ObjectMeta: trimMetadata(&n.ObjectMeta, karpenterAnnotation),
		Spec:       corev1.NodeSpec{ProviderID: n.Spec.ProviderID, Unschedulable: n.Spec.Unschedulable, Taints: n.Spec.Taints},
		Status:     corev1.NodeStatus{Capacity: n.Status.Capacity, Allocatable: n.Status.Allocatable},
	}
	for _, c := range n.Status.Conditions {
		trimmed.Status.Conditions = append(trimmed.Status.Conditions, corev1.NodeCondition{Type: c.Type, Status: c.Status, LastTransitionTime: c.LastTransitionTime})
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
	trimmed.Spec.Template = corev1.PodTemplateSpec{ObjectMeta: trimMetadata(&d.Spec.Template.ObjectMeta, podAnnotation), Spec: trimPodSpec(&d.Spec.Template.Spec)}
	return trimmed
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

// bound is the annotation of a claim whose volume is chosen.
const bound = "pv.kubernetes.io/bind-completed"

func trimClaim(c *corev1.PersistentVolumeClaim) corev1.PersistentVolumeClaim {
	return corev1.PersistentVolumeClaim{
		ObjectMeta: trimMetadata(&c.ObjectMeta, func(key string) bool { return key == bound }),
		Spec:       corev1.PersistentVolumeClaimSpec{StorageClassName: c.Spec.StorageClassName, VolumeName: c.Spec.VolumeName},
		Status:     corev1.PersistentVolumeClaimStatus{Phase: c.Status.Phase},
	}
}

// trimVolume keeps which driver a volume is of, and where it can be reached.
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
	return storagev1.StorageClass{ObjectMeta: trimMetadata(&c.ObjectMeta, isDefault), Provisioner: c.Provisioner, VolumeBindingMode: c.VolumeBindingMode, AllowedTopologies: c.AllowedTopologies}
}

func trimCSINode(n *storagev1.CSINode) storagev1.CSINode {
	trimmed := storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: n.Name, UID: n.UID}}
	for _, d := range n.Spec.Drivers {
		trimmed.Spec.Drivers = append(trimmed.Spec.Drivers, storagev1.CSINodeDriver{Name: d.Name, Allocatable: d.Allocatable})
	}
	return trimmed
}
