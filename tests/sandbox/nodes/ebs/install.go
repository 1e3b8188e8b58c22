package ebs

import (
	"context"
	"fmt"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	storage "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

const (
	// Namespace is where the driver's workloads are.
	Namespace = "kube-system"
	// NodeDaemonSet and StorageClass are names a story may want.
	NodeDaemonSet = "ebs-csi-node"
	StorageClass  = "gp3"

	appLabel      = "app"
	nodeApp       = NodeDaemonSet
	controllerApp = "ebs-csi-controller"
	image         = "public.ecr.aws/ebs-csi-driver/aws-ebs-csi-driver:v1.50.0"
)

// Install says how the driver is installed.
type Install struct {
	// IntolerantOfDisruption leaves out the daemonset's toleration of karpenter.sh/disrupted, as charts before 1.37 did. Then
	// Karpenter drains the daemonset's pod together with the pods whose volumes it would have to unmount.
	IntolerantOfDisruption bool
}

// Apply creates the driver's objects as the add-on would. Those that exist stay as they are.
func Apply(ctx context.Context, client kubernetes.Interface, o Install) error {
	steps := map[string]func() error{
		"CSIDriver " + DriverName: func() error {
			_, err := client.StorageV1().CSIDrivers().Create(ctx, csiDriver(), meta.CreateOptions{})
			return err
		},
		"StorageClass " + StorageClass: func() error {
			_, err := client.StorageV1().StorageClasses().Create(ctx, storageClass(), meta.CreateOptions{})
			return err
		},
		"DaemonSet " + nodeApp: func() error {
			_, err := client.AppsV1().DaemonSets(Namespace).Create(ctx, daemonSet(o), meta.CreateOptions{})
			return err
		},
		"Deployment " + controllerApp: func() error {
			_, err := client.AppsV1().Deployments(Namespace).Create(ctx, deployment(), meta.CreateOptions{})
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

func csiDriver() *storage.CSIDriver {
	attachRequired, podInfo := true, false
	return &storage.CSIDriver{
		ObjectMeta: meta.ObjectMeta{Name: DriverName},
		Spec:       storage.CSIDriverSpec{AttachRequired: &attachRequired, PodInfoOnMount: &podInfo},
	}
}

func storageClass() *storage.StorageClass {
	binding, reclaim := storage.VolumeBindingWaitForFirstConsumer, core.PersistentVolumeReclaimDelete
	return &storage.StorageClass{
		ObjectMeta:        meta.ObjectMeta{Name: StorageClass},
		Provisioner:       DriverName,
		VolumeBindingMode: &binding,
		ReclaimPolicy:     &reclaim,
	}
}

func daemonSet(o Install) *apps.DaemonSet {
	// The add-on's tolerations; the last one lets a pod outlive nodes that are unreachable for a while.
	patience := int64(300)
	tolerations := []core.Toleration{
		{Key: "CriticalAddonsOnly", Operator: core.TolerationOpExists},
		{Operator: core.TolerationOpExists, Effect: core.TaintEffectNoExecute, TolerationSeconds: &patience},
	}
	if !o.IntolerantOfDisruption {
		tolerations = append(tolerations,
			core.Toleration{Key: "karpenter.sh/disrupted", Operator: core.TolerationOpExists, Effect: core.TaintEffectNoSchedule})
	}
	labels := map[string]string{appLabel: nodeApp}
	return &apps.DaemonSet{
		ObjectMeta: meta.ObjectMeta{Name: nodeApp, Namespace: Namespace, Labels: labels},
		Spec: apps.DaemonSetSpec{
			Selector: &meta.LabelSelector{MatchLabels: labels},
			Template: podTemplate(labels, "ebs-plugin", "system-node-critical", tolerations),
		},
	}
}

func deployment() *apps.Deployment {
	replicas := int32(1)
	labels := map[string]string{appLabel: controllerApp}
	template := podTemplate(labels, "ebs-plugin", "system-cluster-critical",
		[]core.Toleration{{Key: "CriticalAddonsOnly", Operator: core.TolerationOpExists}})
	template.Spec.NodeSelector = map[string]string{"eks.amazonaws.com/nodegroup": "system"}
	return &apps.Deployment{
		ObjectMeta: meta.ObjectMeta{Name: controllerApp, Namespace: Namespace, Labels: labels},
		Spec: apps.DeploymentSpec{
			Replicas: &replicas,
			Selector: &meta.LabelSelector{MatchLabels: labels},
			Template: template,
		},
	}
}

func podTemplate(labels map[string]string, container, priority string, tolerations []core.Toleration) core.PodTemplateSpec {
	mountToken := false
	return core.PodTemplateSpec{
		ObjectMeta: meta.ObjectMeta{Labels: labels},
		Spec: core.PodSpec{
			AutomountServiceAccountToken: &mountToken,
			PriorityClassName:            priority,
			Tolerations:                  tolerations,
			Containers:                   []core.Container{{Name: container, Image: image}},
		},
	}
}
