package observe

import (
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/render"
)

// CacheOptions say what the watch cache holds, and cut each object down to what
// plumbline asks about: memory grows with NodeClaims, so that each counts.
// refusals hear of watches that fail; values hold what definitions have in common.
func CacheOptions(refusals *Refusals, values *render.Values) cache.Options {
	karpenters := labels.SelectorFromSet(ControllerLabels())
	objects := map[client.Object]cache.ByObject{
		&apiextensionsv1.CustomResourceDefinition{}: {Transform: trimCRD},
		&appsv1.Deployment{}:                        {Label: karpenters, Transform: trimDeployment},
		&corev1.Event{}:                             poolEvents(),
	}
	for _, kind := range ChartedKinds() {
		objects[Charted(kind)] = cache.ByObject{Label: karpenters, Transform: trimCharted}
	}
	return cache.Options{
		DefaultWatchErrorHandler: refusals.Handle,
		ByObject:                 objects,
		// Karpenter's kinds have no entries of their own: one would need its CRD
		// at the start.
		DefaultTransform: func(obj any) (any, error) {
			switch o := obj.(type) {
			case *karpv1.NodeClaim:
				return trimNodeClaim(o), nil
			case *unstructured.Unstructured:
				return trimDefinition(o, values)
			}
			return obj, nil
		},
	}
}

// ControllerLabels select Karpenter's Deployment, whichever tool installed it
// (charts/karpenter/templates/_helpers.tpl in karpenter-provider-aws).
func ControllerLabels() labels.Set {
	return labels.Set{"app.kubernetes.io/name": "karpenter"}
}

func trimCRD(obj any) (any, error) {
	crd, ok := obj.(*apiextensionsv1.CustomResourceDefinition)
	if !ok {
		return obj, nil
	}
	trimmed := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: crd.ObjectMeta, Status: crd.Status}
	for _, v := range crd.Spec.Versions {
		trimmed.Spec.Versions = append(trimmed.Spec.Versions, apiextensionsv1.CustomResourceDefinitionVersion{Name: v.Name, Served: v.Served})
	}
	trimMetadata(trimmed)
	return trimmed, nil
}

func trimDeployment(obj any) (any, error) {
	deployment, ok := obj.(*appsv1.Deployment)
	if !ok {
		return obj, nil
	}
	trimMetadata(deployment)
	deployment.Spec.Template = corev1.PodTemplateSpec{ObjectMeta: deployment.Spec.Template.ObjectMeta}
	return deployment, nil
}

func trimCharted(obj any) (any, error) {
	if object, ok := obj.(*metav1.PartialObjectMetadata); ok {
		trimMetadata(object)
	}
	return obj, nil
}

// trimMetadata leaves out who wrote what, the object once more for kubectl, and
// the count of rollouts, which the Deployment's own controller keeps.
func trimMetadata(object client.Object) {
	object.SetManagedFields(nil)
	annotations := maps.Clone(object.GetAnnotations())
	delete(annotations, corev1.LastAppliedConfigAnnotation)
	delete(annotations, "deployment.kubernetes.io/revision")
	object.SetAnnotations(annotations)
}
