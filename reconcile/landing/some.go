package landing

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// some are at most so many pods, of each workload about as many.
func some(pods []corev1.Pod, most int) []corev1.Pod {
	if len(pods) <= most {
		return pods
	}
	var workloads []types.UID
	of := map[types.UID][]corev1.Pod{}
	for i := range pods {
		owner := pods[i].UID
		if controller := metav1.GetControllerOf(&pods[i]); controller != nil {
			owner = cmp.Or(controller.UID, owner)
		}
		if of[owner] == nil {
			workloads = append(workloads, owner)
		}
		of[owner] = append(of[owner], pods[i])
	}
	found := make([]corev1.Pod, 0, most)
	for round := 0; len(found) < most; round++ {
		for _, owner := range workloads {
			if round < len(of[owner]) && len(found) < most {
				found = append(found, of[owner][round])
			}
		}
	}
	return found
}
