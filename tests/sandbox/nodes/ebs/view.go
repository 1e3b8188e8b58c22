package ebs

import (
	"strings"

	core "k8s.io/api/core/v1"
	storage "k8s.io/api/storage/v1"
)

// kwokAnnotation is on the Nodes whose kubelet is played, and taken off when the instance ends.
const kwokAnnotation = "kwok.x-k8s.io/node"

type claimKey struct{ namespace, name string }

// view is the cluster at one moment.
type view struct {
	pods        []*core.Pod
	nodes       map[string]*core.Node
	claims      map[claimKey]*core.PersistentVolumeClaim
	volumes     map[string]*core.PersistentVolume
	classes     map[string]*storage.StorageClass
	attachments []*storage.VolumeAttachment
	csiNodes    map[string]*storage.CSINode
}

// controllerRuns says whether a pod of the driver's controller runs anywhere.
func (v *view) controllerRuns() bool {
	for _, pod := range v.pods {
		if pod.Namespace == Namespace && pod.Labels[appLabel] == controllerApp && pod.Status.Phase == core.PodRunning {
			return true
		}
	}
	return false
}

// driverRuns says whether the driver's daemonset has a running pod on a node. One that is being ended still runs.
func (v *view) driverRuns(node string) bool {
	for _, pod := range v.pods {
		if pod.Spec.NodeName == node && pod.Namespace == Namespace && pod.Labels[appLabel] == nodeApp &&
			pod.Status.Phase == core.PodRunning {
			return true
		}
	}
	return false
}

// volume is the PersistentVolume behind a pod's volume, if it is one of this driver's and bound.
func (v *view) volume(pod *core.Pod, in core.Volume) *core.PersistentVolume {
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

// ours is a PersistentVolume by its name, if it is one of this driver's.
func (v *view) ours(name string) *core.PersistentVolume {
	volume := v.volumes[name]
	if volume == nil || volume.Spec.CSI == nil || volume.Spec.CSI.Driver != DriverName {
		return nil
	}
	return volume
}

// inUse is the name by which a node reports that it has a volume mounted or is about to.
func inUse(volume *core.PersistentVolume) core.UniqueVolumeName {
	return core.UniqueVolumeName("kubernetes.io/csi/" + DriverName + "^" + volume.Spec.CSI.VolumeHandle)
}

// instanceOf reads the instance from a provider ID of the form aws:///zone/instance.
func instanceOf(node *core.Node) string {
	return node.Spec.ProviderID[strings.LastIndex(node.Spec.ProviderID, "/")+1:]
}

func finished(pod *core.Pod) bool {
	return pod.Status.Phase == core.PodSucceeded || pod.Status.Phase == core.PodFailed
}
