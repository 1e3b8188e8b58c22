package cluster

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/karpenter/pkg/apis/autoscaling/v1beta1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// Readiness is whether one object is ready, and if not, why. The message may also be set on a ready one, to name what
// is missing.
type Readiness struct {
	Ready   bool
	Message string
}

// Established reports whether a CRD is served.
func Established(crd *apiextensionsv1.CustomResourceDefinition) Readiness {
	if crd.DeletionTimestamp != nil {
		return Readiness{Message: crd.Name + " is being deleted with every object of its kind"}
	}
	for _, c := range crd.Status.Conditions {
		if c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue {
			return Readiness{Ready: true}
		}
	}
	return Readiness{Message: crd.Name + " is not Established yet"}
}

// Serves reports whether a kind can be requested: its CRD is Established, and serves that version with that name. A CRD
// that no longer serves a kind stays Established.
func Serves(crd *apiextensionsv1.CustomResourceDefinition, kind schema.GroupVersionKind) Readiness {
	if ready := Established(crd); !ready.Ready {
		return ready
	}
	names := crd.Status.AcceptedNames
	served := slices.ContainsFunc(crd.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool {
		return v.Name == kind.Version && v.Served
	})
	if !served || names.Kind != kind.Kind || names.ListKind != kind.Kind+"List" {
		return Readiness{Message: fmt.Sprintf("%s does not serve %s of %s", crd.Name, kind.Version, kind.Kind)}
	}
	return Readiness{Ready: true}
}

// RolledOut reports whether a Deployment's rollout is complete: its newest template is observed, every desired replica
// is updated and available, and no old one remains. A Deployment without replicas is never complete. The rule is that
// of `kubectl rollout status` (k8s.io/kubectl/pkg/polymorphichelpers/rollout_status.go).
func RolledOut(d *appsv1.Deployment) Readiness {
	name := "deployment/" + d.Name
	want := int32(1)
	if d.Spec.Replicas != nil {
		want = *d.Spec.Replicas
	}
	switch s := d.Status; {
	case d.DeletionTimestamp != nil:
		return Readiness{Message: name + " is being deleted"}
	case want == 0:
		return Readiness{Message: name + " is scaled to 0"}
	case s.ObservedGeneration < d.Generation:
		return Readiness{Message: name + ": newest spec not observed yet"}
	case deadlineExceeded(d):
		return Readiness{Message: name + ": rollout exceeded its progress deadline"}
	case s.UpdatedReplicas < want, s.Replicas > s.UpdatedReplicas, s.AvailableReplicas < want:
		return Readiness{Message: fmt.Sprintf("%s: %d of %d replicas updated and available",
			name, min(s.UpdatedReplicas, s.AvailableReplicas), want)}
	}
	return Readiness{Ready: true}
}

// Partly reports whether a Deployment whose rollout is incomplete has a ready replica, and none of an earlier template.
func Partly(d *appsv1.Deployment) bool {
	s := d.Status
	return Alive(d) && s.ObservedGeneration >= d.Generation && s.Replicas == s.UpdatedReplicas
}

// Alive reports whether a controller works and continues to: it has a ready replica, and is neither scaled to 0 nor
// being deleted.
func Alive(d *appsv1.Deployment) bool {
	wanted := d.Spec.Replicas == nil || *d.Spec.Replicas > 0
	return wanted && d.DeletionTimestamp == nil && d.Status.ReadyReplicas > 0
}

// Running reports whether a controller has or will have replicas, ready or not.
func Running(d *appsv1.Deployment) bool {
	wanted := d.Spec.Replicas == nil || *d.Spec.Replicas > 0
	return wanted && d.DeletionTimestamp == nil || d.Status.Replicas > 0
}

func deadlineExceeded(d *appsv1.Deployment) bool {
	for _, c := range d.Status.Conditions {
		if c.Type == appsv1.DeploymentProgressing && c.Status == corev1.ConditionFalse && c.Reason == "ProgressDeadlineExceeded" {
			return true
		}
	}
	return false
}

// Ready reports whether a definition is Ready at its newest generation. Karpenter's Ready counts only if its
// observedGeneration is the object's (sigs.k8s.io/karpenter, github.com/awslabs/operatorpkg/status). An object of an
// optional kind is Ready until Karpenter reports otherwise: it reports nothing while the kind's feature gate is off.
func Ready(obj *plan.Object) Readiness {
	name := func() string { return render.RefOf(obj.Unstructured).String() } // not needed for the thousands that are Ready
	if obj.GetDeletionTimestamp() != nil {
		return Readiness{Message: name() + " is being deleted"}
	}
	ready, found := condition(obj, readyConditionOf(obj.GetKind()))
	switch {
	case !found && optional(obj):
		return Readiness{Ready: true}
	case !found:
		return Readiness{Message: name() + " has no Ready condition yet"}
	case ready.ObservedGeneration < obj.GetGeneration():
		return Readiness{Message: name() + ": newest spec not observed yet"}
	case ready.Status != metav1.ConditionTrue:
		why := strings.Trim(ready.Reason+": "+Stable(ready.Message), ": ")
		return Readiness{Message: fmt.Sprintf("%s is not Ready: %s", name(), cmp.Or(why, "its controller gives no reason")) + causes(obj)}
	}
	return Readiness{Ready: true}
}

func optional(obj *plan.Object) bool {
	kind, _ := render.KindOf(obj.GetKind())
	return kind.Optional()
}

// Registers reports whether the nodes of a NodePool register; it is false only if Karpenter reports that they do not.
// The Ready condition does not depend on that (sigs.k8s.io/karpenter pkg/apis/v1/nodepool_status.go).
func Registers(pool *plan.Object) Readiness {
	healthy, found := condition(pool, karpv1.ConditionTypeNodeRegistrationHealthy)
	if !found || healthy.Status != metav1.ConditionFalse {
		return Readiness{Ready: true}
	}
	return Readiness{Message: fmt.Sprintf("its nodes do not register: %s: %s", healthy.Reason, healthy.Message)}
}

// causes returns the messages of the False conditions that Ready sums up: Ready only lists them, and they give the
// reason, such as the action that AWS denies to Karpenter.
func causes(obj *plan.Object) string {
	var all []string
	for _, c := range obj.Conditions() {
		if c.Type != readyConditionOf(obj.GetKind()) && c.Type != v1beta1.ProvisioningCondition && c.Status == metav1.ConditionFalse &&
			c.Message != "" {
			all = append(all, fmt.Sprintf("; %s: %s: %s", c.Type, c.Reason, Stable(c.Message)))
		}
	}
	slices.Sort(all)
	return strings.Join(all, "")
}

// Unexplained reports whether no condition of an object that is not Ready has a reason: its controller has met an error
// that it does not report there, or has not reported yet.
func Unexplained(obj *plan.Object) bool {
	ready, _ := condition(obj, readyConditionOf(obj.GetKind()))
	return obj.GetDeletionTimestamp() == nil && ready.Status != metav1.ConditionFalse && causes(obj) == ""
}

// MatchesNothing reports whether Karpenter has found that a selector in the current spec of an EC2NodeClass matches no AMI, subnet or
// security group: it looks again, but usually a person has to correct the selector, or tags in AWS.
func MatchesNothing(class *plan.Object) bool {
	return class.GetDeletionTimestamp() == nil && slices.ContainsFunc(class.Conditions(), func(c metav1.Condition) bool {
		current := c.ObservedGeneration == class.GetGeneration()
		return current && c.Status == metav1.ConditionFalse && slices.Contains(resolvedConditions, any(c.Type))
	})
}

// NotReadySince returns since when an object has not been Ready with its newest spec: the later of the last transition
// of its Ready condition, which a new spec does not change, and the last apply by plumbline. The object must be read
// from the API server, because the watch cache keeps no times. The result is zero if the condition is missing.
func NotReadySince(object *unstructured.Unstructured) time.Time {
	var since time.Time
	list, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, item := range list {
		fields, _ := item.(map[string]any)
		if kind, _, _ := unstructured.NestedString(fields, "type"); kind != readyConditionOf(object.GetKind()) {
			continue
		}
		text, _, _ := unstructured.NestedString(fields, "lastTransitionTime")
		if at, err := time.Parse(time.RFC3339, text); err == nil {
			since = at
		}
	}
	for _, entry := range object.GetManagedFields() {
		applied := entry.Manager == v1alpha1.FieldManager && entry.Operation == metav1.ManagedFieldsOperationApply && entry.Subresource == ""
		if applied && entry.Time != nil && !since.IsZero() && entry.Time.After(since) {
			since = entry.Time.Time
		}
	}
	return since
}

// readyCondition is the type of the condition that sums up all others.
const readyCondition = "Ready"

// readyConditionOf returns the type of the condition that reports whether Karpenter can use an object of a kind. A
// CapacityBuffer has no Ready condition, and whether its pods have capacity at the moment is not a matter of its
// definition.
func readyConditionOf(kind string) string {
	if kind == render.CapacityBuffer {
		return v1beta1.ReadyForProvisioningCondition
	}
	return readyCondition
}

func condition(obj *plan.Object, kind string) (metav1.Condition, bool) {
	for _, c := range obj.Conditions() {
		if c.Type == kind {
			return c, true
		}
	}
	return metav1.Condition{}, false
}

// unconverted matches the API server's message if a CRD's conversion webhook does not respond
// (k8s.io/apiextensions-apiserver/pkg/apiserver/conversion/webhook_converter.go). The error has no reason or type that
// could be used instead.
var unconverted = regexp.MustCompile(`conversion webhook for ([a-z0-9.-]+)/(\w+), Kind=(\w+) failed`)

// Unconverted reports whether a message is about objects that cannot be converted, and returns their kind and stored
// version. Karpenter 1.0 serves such a webhook, and it remains in the CRDs after its controller is removed.
func Unconverted(message string) (kind schema.GroupVersionKind, ok bool) {
	words := unconverted.FindStringSubmatch(message)
	if words == nil {
		return schema.GroupVersionKind{}, false
	}
	return schema.GroupVersionKind{Group: words[1], Version: words[2], Kind: words[3]}, true
}

// ByRef maps definitions to their readiness.
type ByRef map[render.Ref]Readiness

// Of sums up the definitions of some kinds in a Set: it returns the first that is not Ready.
func (r ByRef) Of(set *render.Set, kinds ...string) Readiness {
	for _, object := range set.Objects {
		if !slices.Contains(kinds, object.Ref.Kind) {
			continue
		}
		ready, seen := r[object.Ref]
		if !seen {
			return Readiness{Message: object.Ref.String() + " is not applied yet"}
		}
		if !ready.Ready {
			return ready
		}
	}
	return Readiness{Ready: true}
}

// NodeReady reports whether a Node is Ready.
func NodeReady(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}
