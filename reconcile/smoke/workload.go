package smoke

import (
	"fmt"
	"hash/fnv"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

const (
	// Label is on each Deployment and pod of a test; its value is a hash of the NodePool's name.
	Label = "plumbline.dev/smoke"
	// claimAnnotation of a Deployment is the NodeClaim that its pod runs on: the next run finds by it what an earlier
	// one could not delete.
	claimAnnotation = "plumbline.dev/smoke-nodeclaim"
	// Image is the default image. It must run on each architecture of the NodePools.
	Image = "registry.k8s.io/pause:3.10"
)

// Workload returns a Deployment with one pod that runs on a node of the pool, and on none that runs other pods, so that
// Karpenter has to launch a node unless an empty one exists.
func Workload(pool *karpv1.NodePool, namespace, image string) *appsv1.Deployment {
	labels := map[string]string{Label: hashOf(pool.Name)}
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: nameFor(pool.Name), Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(1)),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Strategy: appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					NodeSelector:                  map[string]string{karpv1.NodePoolLabelKey: pool.Name},
					Affinity:                      apart(),
					Tolerations:                   tolerated(pool.Spec.Template.Spec.Taints),
					TerminationGracePeriodSeconds: new(int64(1)),
					AutomountServiceAccountToken:  new(false),
					EnableServiceLinks:            new(false),
					Containers:                    []corev1.Container{container(image)},
				},
			},
		},
	}
	return deployment
}

// container returns one that the Pod Security Standard "restricted" allows.
func container(image string) corev1.Container {
	return corev1.Container{
		Name: "smoke", Image: image,
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("16Mi"),
		}},
		SecurityContext: &corev1.SecurityContext{
			RunAsNonRoot: new(true), RunAsUser: new(int64(65535)), AllowPrivilegeEscalation: new(false),
			Capabilities:   &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
	}
}

// apart returns an affinity that excludes nodes with pods of Deployments, StatefulSets, Jobs and other tests. A pod cannot
// exclude nodes by their names: Karpenter launches no node for a pod that names kubernetes.io/hostname
// (RestrictedLabels in sigs.k8s.io/karpenter pkg/apis/v1/labels.go, 1.15.0). Pods of DaemonSets have none of these
// labels: they run on the new node, too.
func apart() *corev1.Affinity {
	var terms []corev1.PodAffinityTerm
	for _, label := range []string{appsv1.DefaultDeploymentUniqueLabelKey, appsv1.StatefulSetPodNameLabel, batchv1.JobNameLabel, Label} {
		terms = append(terms, corev1.PodAffinityTerm{
			TopologyKey: corev1.LabelHostname, NamespaceSelector: &metav1.LabelSelector{},
			LabelSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: label, Operator: metav1.LabelSelectorOpExists}}},
		})
	}
	return &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms}}
}

// tolerated returns the tolerations for taints, and no others: Karpenter does not evict pods that tolerate its own.
func tolerated(taints []corev1.Taint) []corev1.Toleration {
	var all []corev1.Toleration
	for _, t := range taints {
		all = append(all, corev1.Toleration{Key: t.Key, Operator: corev1.TolerationOpEqual, Value: t.Value, Effect: t.Effect})
	}
	return all
}

// nameFor returns the name of the Deployment for a NodePool.
func nameFor(pool string) string {
	name := "plumbline-smoke-" + pool
	if len(validation.IsDNS1123Label(name)) == 0 && len(name) <= 50 { // the names of its pods are longer
		return name
	}
	return "plumbline-smoke-" + hashOf(pool)
}

// hashOf returns a name as a label's value, which is at most 63 characters long.
func hashOf(pool string) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(pool)) // never an error
	return fmt.Sprintf("%016x", h.Sum64())
}
