package migrate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/provision/owners"
)

// Workload is one that has to run on nodes that stay.
type Workload struct {
	Ref
	// Why it has to.
	Why string
	// Addon is the add-on of EKS that it belongs to; empty if it belongs to none.
	Addon string
	Owner owners.Owner
	// Pinned reports whether it runs on no node of Karpenter. Rolled reports whether all of its pods are from its current
	// template.
	Pinned, Rolled bool
	// Mode is the value of PinAnnotation; empty if the migration has not pinned it.
	Mode string
	// Affinity is that of its pods.
	Affinity *corev1.Affinity
	Pods     []*corev1.Pod
}

// critical returns the workloads that have to run on nodes that stay, sorted: those of kube-system, those with the priority
// of a cluster's own, Karpenter, and plumbline. What has no replicas, or runs on Fargate, is none of them, and neither is the
// autoscaler.
func (f *Facts) critical(autoscalers []Autoscaler) []*Workload {
	byController := map[Ref][]*corev1.Pod{}
	for i := range f.Pods {
		if ref := f.controllerOf(&f.Pods[i]); ref.Kind != "" {
			byController[ref] = append(byController[ref], &f.Pods[i])
		}
	}
	var found []*Workload
	add := func(kind string, object metav1.Object, replicas *int32, template *corev1.PodTemplateSpec, rolled bool) {
		ref := Ref{kind, object.GetNamespace(), object.GetName()}
		why := f.why(object, template)
		scaler := slices.ContainsFunc(autoscalers, func(a Autoscaler) bool { return a.Ref == ref })
		if why == "" || scaler || replicas != nil && *replicas == 0 || f.onFargate(byController[ref]) {
			return
		}
		found = append(found, &Workload{
			Ref: ref, Why: why, Addon: f.addonOf(object), Owner: owners.Of(object), Pinned: f.pinned(&template.Spec), Rolled: rolled,
			Mode: object.GetAnnotations()[PinAnnotation], Affinity: template.Spec.Affinity, Pods: byController[ref],
		})
	}
	for i := range f.Deployments {
		d := &f.Deployments[i]
		add("Deployment", d, d.Spec.Replicas, &d.Spec.Template, deploymentRolled(d))
	}
	for i := range f.StatefulSets {
		s := &f.StatefulSets[i]
		rolled := s.Status.ObservedGeneration >= s.Generation && s.Status.UpdateRevision == s.Status.CurrentRevision
		add("StatefulSet", s, s.Spec.Replicas, &s.Spec.Template, rolled)
	}
	slices.SortFunc(found, func(a, b *Workload) int { return strings.Compare(a.String(), b.String()) })
	return found
}

func deploymentRolled(d *appsv1.Deployment) bool {
	s := d.Status
	return s.ObservedGeneration >= d.Generation && s.UpdatedReplicas >= s.Replicas
}

// why returns why a workload has to run on nodes that stay; empty if it does not.
func (f *Facts) why(object metav1.Object, template *corev1.PodTemplateSpec) string {
	labels := object.GetLabels()
	name := labels["app.kubernetes.io/name"]
	switch {
	case name == "karpenter" || strings.HasPrefix(object.GetName(), "karpenter") && name == "":
		return "it launches the nodes"
	case len(f.Plumbline) > 0 && hasAll(labels, f.Plumbline):
		return "it manages the nodes"
	case object.GetNamespace() == metav1.NamespaceSystem:
		return "it is in kube-system"
	case strings.HasPrefix(template.Spec.PriorityClassName, "system-"):
		return "it has the priority " + template.Spec.PriorityClassName
	}
	return ""
}

func hasAll(labels, of map[string]string) bool {
	for key, value := range of {
		if labels[key] != value {
			return false
		}
	}
	return true
}

// addonOf returns the add-on of EKS whose name a workload has, in its name or in a label of EKS's charts.
func (f *Facts) addonOf(object metav1.Object) string {
	labels := object.GetLabels()
	for _, addon := range f.Addons {
		if slices.Contains([]string{object.GetName(), labels["app.kubernetes.io/name"], labels["eks.amazonaws.com/component"]}, addon.Name) {
			return addon.Name
		}
	}
	return ""
}

// onFargate reports whether there are pods, and all run on Fargate.
func (f *Facts) onFargate(pods []*corev1.Pod) bool {
	for _, p := range pods {
		if node := f.node(p.Spec.NodeName); node == nil || node.Labels[computeTypeLabel] != "fargate" {
			return false
		}
	}
	return len(pods) > 0
}

func (f *Facts) node(name string) *corev1.Node {
	for i := range f.Nodes {
		if f.Nodes[i].Name == name {
			return &f.Nodes[i]
		}
	}
	return nil
}

// Reverts returns what would revert a change of an object; empty if nothing does. EKS reverts only what belongs to an
// add-on.
func Reverts(o owners.Owner) string {
	if o.Kind == owners.ReleaseKind || o.Reconciles() && o.Tool != "EKS" {
		return o.String()
	}
	return ""
}

// ByHand returns what a user does in the tool that keeps an object: where to make the change, and how it is applied.
// values are those of the object's chart, as for helm --set.
func ByHand(o owners.Owner, change, values string) string {
	name := o.Name
	switch {
	case o.Kind == owners.ReleaseKind:
		return fmt.Sprintf("helm upgrade %s CHART --namespace %s --reuse-values %s", name, cmp.Or(o.Namespace, "default"), values)
	case o.Kind == "HelmRelease":
		return fmt.Sprintf("in Git, %s in spec.values of HelmRelease %s/%s, then: flux reconcile helmrelease %s --namespace %s --with-source",
			change, o.Namespace, name, name, o.Namespace)
	case o.Kind == "Kustomization":
		return fmt.Sprintf("in Git, %s in the folder of Kustomization %s/%s, then: flux reconcile kustomization %s --namespace %s --with-source",
			change, o.Namespace, name, name, o.Namespace)
	case o.Kind == "Application":
		return fmt.Sprintf("in Git, %s in the source of Application %s, then: argocd app sync %s", change, name, name)
	case o.Tool == "Terraform" || o.Tool == "OpenTofu":
		program := map[string]string{"Terraform": "terraform", "OpenTofu": "tofu"}[o.Tool]
		return fmt.Sprintf("in its configuration, %s, then: %s apply", change, program)
	}
	return fmt.Sprintf("%s in the source of %s, and apply it", change, o)
}
