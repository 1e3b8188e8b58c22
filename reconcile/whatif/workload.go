package whatif

import (
	"regexp"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ofCronJob is the name of a Job that a CronJob has created: that of the CronJob and the minute.
var ofCronJob = regexp.MustCompile(`^(.+)-[0-9]{8,}$`)

// workloadOf is the namespace, kind and name of what owns a pod, by names that stay while its pods are replaced: that of
// a Deployment, not of its ReplicaSet, and that of a CronJob, not of its Job.
func workloadOf(pod *corev1.Pod) string {
	kind, name := "Pod", pod.Name
	if owner := metav1.GetControllerOf(pod); owner != nil {
		kind, name = owner.Kind, owner.Name
	}
	hash := "-" + pod.Labels[appsv1.DefaultDeploymentUniqueLabelKey]
	switch found := ofCronJob.FindStringSubmatch(name); {
	case kind == "ReplicaSet" && hash != "-" && strings.HasSuffix(name, hash):
		kind, name = "Deployment", strings.TrimSuffix(name, hash)
	case kind == "Job" && found != nil:
		kind, name = "CronJob", found[1]
	}
	return strings.Join([]string{pod.Namespace, kind, name}, "/")
}
