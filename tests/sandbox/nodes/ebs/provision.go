package ebs

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// selectedNode is the scheduler's annotation of where a claim's first pod will run.
	selectedNode = "volume.kubernetes.io/selected-node"
	// provisionedBy restricts the deletion of a volume to its creator.
	provisionedBy = "pv.kubernetes.io/provisioned-by"
)

// request is a claim that needs a volume in a zone.
type request struct {
	Claim *corev1.PersistentVolumeClaim
	Zone  string
}

// requests returns the claims of this driver's classes whose pod has a selected node.
func requests(v *view) []request {
	var all []request
	for _, claim := range v.claims {
		node := v.nodes[claim.Annotations[selectedNode]]
		if claim.Spec.VolumeName != "" || claim.DeletionTimestamp != nil || claim.Spec.StorageClassName == nil || node == nil {
			continue
		}
		class := v.classes[*claim.Spec.StorageClassName]
		if class == nil || class.Provisioner != DriverName || v.volumes[volumeName(claim)] != nil {
			continue
		}
		all = append(all, request{Claim: claim, Zone: node.Labels[corev1.LabelTopologyZone]})
	}
	return all
}

// leftovers returns unattached volumes whose claim is gone.
func leftovers(v *view) []*corev1.PersistentVolume {
	attached := map[string]bool{}
	for _, a := range v.attachments {
		if a.Spec.Source.PersistentVolumeName != nil {
			attached[*a.Spec.Source.PersistentVolumeName] = true
		}
	}
	var all []*corev1.PersistentVolume
	for name := range v.volumes {
		volume := v.ours(name)
		if volume != nil && volume.Status.Phase == corev1.VolumeReleased && volume.Annotations[provisionedBy] == DriverName &&
			volume.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete && !attached[name] {
			all = append(all, volume)
		}
	}
	return all
}

// provision does the external provisioner's work.
func (d *Driver) provision(ctx context.Context, v *view) error {
	var errs []error
	for _, r := range requests(v) {
		volume := d.newVolume(v, r)
		_, err := d.client.CoreV1().PersistentVolumes().Create(ctx, volume, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			errs = append(errs, fmt.Errorf("create PersistentVolume %s: %w", volume.Name, err))
		}
	}
	for _, volume := range leftovers(v) {
		if volume.DeletionTimestamp != nil {
			continue
		}
		if err := d.cloud.DeleteVolume(volume.Spec.CSI.VolumeHandle); err != nil {
			errs = append(errs, fmt.Errorf("delete EBS volume %s: %w", volume.Spec.CSI.VolumeHandle, err))
			continue
		}
		err := d.client.CoreV1().PersistentVolumes().Delete(ctx, volume.Name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, fmt.Errorf("delete PersistentVolume %s: %w", volume.Name, err))
		}
	}
	return errors.Join(errs...)
}

// newVolume creates the EBS volume, once for a claim, and describes it.
func (d *Driver) newVolume(v *view, r request) *corev1.PersistentVolume {
	size := r.Claim.Spec.Resources.Requests[corev1.ResourceStorage]
	id := d.created[string(r.Claim.UID)]
	if id == "" {
		const gib = 1 << 30
		id = d.cloud.CreateVolume(r.Zone, int((size.Value()+gib-1)/gib), map[string]string{
			"kubernetes.io/cluster/" + d.cluster:      "owned",
			"CSIVolumeName":                           volumeName(r.Claim),
			"ebs.csi.aws.com/cluster":                 "true",
			"kubernetes.io/created-for/pvc/name":      r.Claim.Name,
			"kubernetes.io/created-for/pvc/namespace": r.Claim.Namespace,
		})
		d.created[string(r.Claim.UID)] = id
	}
	reclaim := corev1.PersistentVolumeReclaimDelete
	if class := v.classes[*r.Claim.Spec.StorageClassName]; class.ReclaimPolicy != nil {
		reclaim = *class.ReclaimPolicy
	}
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: volumeName(r.Claim), Annotations: map[string]string{provisionedBy: DriverName}},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes:                   r.Claim.Spec.AccessModes,
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: size},
			StorageClassName:              *r.Claim.Spec.StorageClassName,
			VolumeMode:                    r.Claim.Spec.VolumeMode,
			PersistentVolumeReclaimPolicy: reclaim,
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: DriverName, VolumeHandle: id, FSType: "ext4"},
			},
			ClaimRef: &corev1.ObjectReference{
				APIVersion: "v1", Kind: "PersistentVolumeClaim",
				Namespace: r.Claim.Namespace, Name: r.Claim.Name, UID: r.Claim.UID,
			},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: inZone(r.Zone)},
		},
	}
}

// volumeName returns the external provisioner's name for a claim's volume.
func volumeName(claim *corev1.PersistentVolumeClaim) string { return "pvc-" + string(claim.UID) }

func inZone(zone string) *corev1.NodeSelector {
	return &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{
			{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{zone}},
		},
	}}}
}
