package workload

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/tests/sandbox/nodes/ebs"
)

// Volume adds a volume of a size to the pod of a workload, and returns its claim, which has the workload's name.
func Volume(d *appsv1.Deployment, size string) (*corev1.PersistentVolumeClaim, error) {
	wanted, err := resource.ParseQuantity(size)
	if err != nil {
		return nil, fmt.Errorf("read the size of a volume %q: %w", size, err)
	}
	d.Spec.Template.Spec.Volumes = []corev1.Volume{{
		Name:         "data",
		VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: d.Name}},
	}}
	class := ebs.StorageClass
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: d.Name},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &class,
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:        corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: wanted}},
		},
	}, nil
}
