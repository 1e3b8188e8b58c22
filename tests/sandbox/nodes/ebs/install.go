package ebs

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// The driver's names and where it runs.
const (
	// Namespace contains the driver's workloads.
	Namespace = "kube-system"
	// NodeDaemonSet and StorageClass are names that stories may use.
	NodeDaemonSet = "ebs-csi-node"
	StorageClass  = "gp3"

	appLabel      = "app"
	nodeApp       = NodeDaemonSet
	controllerApp = "ebs-csi-controller"
	image         = "public.ecr.aws/ebs-csi-driver/aws-ebs-csi-driver:v1.50.0"
)

// Install specifies how to install the driver.
type Install struct {
	// IntolerantOfDisruption omits the daemonset's toleration of karpenter.sh/disrupted, as charts before 1.37 did.
	// Then Karpenter drains the daemonset's pod together with the pods whose volumes it would have to unmount.
	IntolerantOfDisruption bool
}

// Apply creates the driver's objects as the add-on would. It does not change existing ones.
func Apply(ctx context.Context, client kubernetes.Interface, o Install) error {
	steps := map[string]func() error{
		"CSIDriver " + DriverName: func() error {
			_, err := client.StorageV1().CSIDrivers().Create(ctx, csiDriver(), metav1.CreateOptions{})
			return err
		},
		"StorageClass " + StorageClass: func() error {
			_, err := client.StorageV1().StorageClasses().Create(ctx, storageClass(), metav1.CreateOptions{})
			return err
		},
		"DaemonSet " + nodeApp: func() error {
			_, err := client.AppsV1().DaemonSets(Namespace).Create(ctx, daemonSet(o), metav1.CreateOptions{})
			return err
		},
		"Deployment " + controllerApp: func() error {
			_, err := client.AppsV1().Deployments(Namespace).Create(ctx, deployment(), metav1.CreateOptions{})
			return err
		},
	}
	for what, create := range steps {
		if err := create(); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("install the EBS CSI driver: create %s: %w", what, err)
		}
	}
	return nil
}

func csiDriver() *storagev1.CSIDriver {
	attachRequired, podInfo := true, false
	return &storagev1.CSIDriver{
		ObjectMeta: metav1.ObjectMeta{Name: DriverName},
		Spec:       storagev1.CSIDriverSpec{AttachRequired: &attachRequired, PodInfoOnMount: &podInfo},
	}
}

func storageClass() *storagev1.StorageClass {
	binding, reclaim := storagev1.VolumeBindingWaitForFirstConsumer, corev1.PersistentVolumeReclaimDelete
	return &storagev1.StorageClass{
		ObjectMeta:        metav1.ObjectMeta{Name: StorageClass},
		Provisioner:       DriverName,
		VolumeBindingMode: &binding,
		ReclaimPolicy:     &reclaim,
	}
}

func daemonSet(o Install) *appsv1.DaemonSet {
	// The add-on's tolerations; the last one keeps a pod on nodes that are unreachable for a while.
	patience := int64(300)
	tolerations := []corev1.Toleration{
		{Key: "CriticalAddonsOnly", Operator: corev1.TolerationOpExists},
		{Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &patience},
	}
	if !o.IntolerantOfDisruption {
		tolerations = append(tolerations,
			corev1.Toleration{Key: "karpenter.sh/disrupted", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule})
	}
	labels := map[string]string{appLabel: nodeApp}
	return &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: nodeApp, Namespace: Namespace, Labels: labels},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: podTemplate(labels, "ebs-plugin", "system-node-critical", tolerations),
		},
	}
}

func deployment() *appsv1.Deployment {
	replicas := int32(1)
	labels := map[string]string{appLabel: controllerApp}
	template := podTemplate(labels, "ebs-plugin", "system-cluster-critical",
		[]corev1.Toleration{{Key: "CriticalAddonsOnly", Operator: corev1.TolerationOpExists}})
	template.Spec.NodeSelector = map[string]string{"eks.amazonaws.com/nodegroup": "system"}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: controllerApp, Namespace: Namespace, Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: template,
		},
	}
}

func podTemplate(labels map[string]string, container, priority string, tolerations []corev1.Toleration) corev1.PodTemplateSpec {
	mountToken := false
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels},
		Spec: corev1.PodSpec{
			AutomountServiceAccountToken: &mountToken,
			PriorityClassName:            priority,
			Tolerations:                  tolerations,
			Containers:                   []corev1.Container{{Name: container, Image: image}},
		},
	}
}
