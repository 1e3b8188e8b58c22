package migrate

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/provision/cloud"
)

// world builds Facts.
type world struct{ Facts }

func newWorld() *world {
	w := &world{}
	w.Cluster, w.Plumbline = "prod", map[string]string{"app.kubernetes.io/name": "plumbline"}
	w.Affinity = map[string][]string{"coredns": {"affinity"}}
	return w
}

// group adds a managed node group that EKS has tagged for the autoscaler, with a node in each of the zones.
func (w *world) group(name string, least int, zones ...string) *world {
	w.NodeGroups = append(w.NodeGroups, cloud.NodeGroup{
		Name: name, ARN: "arn:" + name, Min: least, Max: 10, Desired: len(zones), AutoScalingGroups: []string{"eks-" + name}, Tags: map[string]string{},
	})
	s := cloud.AutoScalingGroup{Name: "eks-" + name, Min: least, Max: 10, Desired: len(zones), Tags: map[string]string{
		"kubernetes.io/cluster/prod": "owned", "k8s.io/cluster-autoscaler/enabled": "true", "k8s.io/cluster-autoscaler/prod": "owned",
	}}
	for i, zone := range zones {
		id := fmt.Sprintf("i-%s%d", name, i)
		s.Instances = append(s.Instances, cloud.GroupInstance{ID: id, Zone: zone, State: "InService"})
		w.node(fmt.Sprintf("%s-%d", name, i), id, zone, map[string]string{"eks.amazonaws.com/nodegroup": name})
	}
	w.Scaling = append(w.Scaling, s)
	return w
}

func (w *world) node(name, id, zone string, labels map[string]string) *corev1.Node {
	n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelTopologyZone: zone}, Annotations: map[string]string{}}}
	for key, value := range labels {
		n.Labels[key] = value
	}
	n.Spec.ProviderID = "aws:///" + zone + "/" + id
	n.Status.Allocatable = corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("4Gi"), corev1.ResourcePods: resource.MustParse("20"),
	}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	w.Nodes = append(w.Nodes, n)
	return &w.Nodes[len(w.Nodes)-1]
}

// deployment adds a Deployment, with a pod on each of the nodes.
func (w *world) deployment(namespace, name string, change func(*appsv1.Deployment), nodes ...string) *world {
	d := appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{}, Annotations: map[string]string{}}}
	d.Spec.Replicas = new(int32(len(nodes)))
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "app", Image: "app:1"}}
	d.Status.Replicas, d.Status.UpdatedReplicas = int32(len(nodes)), int32(len(nodes))
	if change != nil {
		change(&d)
	}
	w.Deployments = append(w.Deployments, d)
	w.ReplicaSets = append(w.ReplicaSets, appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name + "-1", OwnerReferences: []metav1.OwnerReference{owner("Deployment", name)},
	}})
	for i, node := range nodes {
		w.pod(namespace, fmt.Sprintf("%s-%d", name, i), node, "ReplicaSet", name+"-1").Spec.Affinity = d.Spec.Template.Spec.Affinity
	}
	return w
}

func owner(kind, name string) metav1.OwnerReference {
	return metav1.OwnerReference{Kind: kind, Name: name, Controller: new(true)}
}

// pod adds a pod; without a kind it has no controller.
func (w *world) pod(namespace, name, node, kind, by string) *corev1.Pod {
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": by}, Annotations: map[string]string{}}}
	if kind != "" {
		p.OwnerReferences = []metav1.OwnerReference{owner(kind, by)}
	}
	p.Spec.NodeName, p.Status.Phase = node, corev1.PodRunning
	p.Spec.Containers = []corev1.Container{{Name: "app", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("200m"), corev1.ResourceMemory: resource.MustParse("128Mi"),
	}}}}
	w.Pods = append(w.Pods, p)
	return &w.Pods[len(w.Pods)-1]
}

// autoscaler adds the Cluster Autoscaler, which discovers groups by their tags.
func (w *world) autoscaler(change func(*appsv1.Deployment)) *world {
	return w.deployment("kube-system", "cluster-autoscaler", func(d *appsv1.Deployment) {
		d.Spec.Replicas = new(int32(1))
		d.Status.Replicas = 1
		d.Spec.Template.Spec.Containers[0] = corev1.Container{
			Image: "registry.k8s.io/autoscaling/cluster-autoscaler:v1.33.0",
			Command: []string{
				"./cluster-autoscaler", "--cloud-provider=aws",
				"--node-group-auto-discovery=asg:tag=k8s.io/cluster-autoscaler/enabled,k8s.io/cluster-autoscaler/prod",
			},
		}
		if change != nil {
			change(d)
		}
	})
}

func pinnedDeployment(d *appsv1.Deployment) { d.Spec.Template.Spec.Affinity = Pin(nil) }

// steps returns the steps as text.
func steps(p *Plan) []string {
	var all []string
	for _, s := range p.Steps {
		all = append(all, fmt.Sprintf("%s %s: %s", s.Action, s.Target, s.State))
	}
	return all
}
