package ebs

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// kwokAnnotation is on the Nodes whose kubelet is simulated, and removed when the instance terminates.
const kwokAnnotation = "kwok.x-k8s.io/node"

type claimKey struct{ namespace, name string }

// view is the state of the cluster at one time.
type view struct {
	pods        []*corev1.Pod
	nodes       map[string]*corev1.Node
	claims      map[claimKey]*corev1.PersistentVolumeClaim
	volumes     map[string]*corev1.PersistentVolume
	classes     map[string]*storagev1.StorageClass
	attachments []*storagev1.VolumeAttachment
	csiNodes    map[string]*storagev1.CSINode
}

// controllerRuns reports whether any pod of the driver's controller runs.
func (v *view) controllerRuns() bool {
	for _, pod := range v.pods {
		if pod.Namespace == Namespace && pod.Labels[appLabel] == controllerApp && pod.Status.Phase == corev1.PodRunning {
			return true
		}
	}
	return false
}

// driverRuns reports whether the driver's daemonset has a running pod on a node. A terminating one still runs.
func (v *view) driverRuns(node string) bool {
	for _, pod := range v.pods {
		if pod.Spec.NodeName == node && pod.Namespace == Namespace && pod.Labels[appLabel] == nodeApp &&
			pod.Status.Phase == corev1.PodRunning {
			return true
		}
	}
	return false
}

// volume returns the PersistentVolume of a pod's volume, if it belongs to this driver and is bound.
func (v *view) volume(pod *corev1.Pod, in corev1.Volume) *corev1.PersistentVolume {
	var name string
	switch {
	case in.PersistentVolumeClaim != nil:
		name = in.PersistentVolumeClaim.ClaimName
	case in.Ephemeral != nil:
		name = pod.Name + "-" + in.Name // https://kubernetes.io/docs/concepts/storage/ephemeral-volumes/#persistentvolumeclaim-naming
	default:
		return nil
	}
	claim := v.claims[claimKey{pod.Namespace, name}]
	if claim == nil || claim.Spec.VolumeName == "" {
		return nil
	}
	return v.ours(claim.Spec.VolumeName)
}

// ours returns a PersistentVolume by its name, if it belongs to this driver.
func (v *view) ours(name string) *corev1.PersistentVolume {
	volume := v.volumes[name]
	if volume == nil || volume.Spec.CSI == nil || volume.Spec.CSI.Driver != DriverName {
		return nil
	}
	return volume
}

// inUse returns the name with which a node reports that it has a volume mounted or is about to mount it.
func inUse(volume *corev1.PersistentVolume) corev1.UniqueVolumeName {
	return corev1.UniqueVolumeName("kubernetes.io/csi/" + DriverName + "^" + volume.Spec.CSI.VolumeHandle)
}

// instanceOf returns the instance in a provider ID of the form aws:///zone/instance.
func instanceOf(node *corev1.Node) string {
	return node.Spec.ProviderID[strings.LastIndex(node.Spec.ProviderID, "/")+1:]
}

func finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}
