package teardown

import (
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/internal/shortlist"
	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/provision/owners"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// Releases returns the Helm releases that the level uninstalls, in this order.
func (l Level) Releases() []string {
	switch {
	case l.Takes(ToCRDs):
		return []string{charts.ControllerChart, charts.CRDChart}
	case l.Takes(ToController):
		return []string{charts.ControllerChart}
	}
	return nil
}

// OthersNeed returns an error if there are NodeSyncs other than the deleted one: they would reinstall Karpenter, or
// need it. leaves is nil if the deleted one is gone.
func (l Level) OthersNeed(all []v1alpha1.NodeSync, leaves *v1alpha1.NodeSync) error {
	var others []string
	for i := range all {
		if sync := &all[i]; leaves == nil || sync.UID != leaves.UID {
			others = append(others, sync.Namespace+"/"+sync.Name)
		}
	}
	if len(others) == 0 {
		return nil
	}
	return fmt.Errorf("karpenter cannot be removed while another NodeSync needs it: %s; tear that down first, or omit --down-to %s. Nothing was changed", strings.Join(others, ", "), l)
}

// ObjectsNeed returns an error if objects of Karpenter's kinds are left, of any owner: without the controller no
// instance is terminated, and with a CRD all of its objects are deleted. The objects of a NodeSync that is being
// deleted (leaves, or nil) do not count; applied are the NodePools that it has applied.
func ObjectsNeed(objects []unstructured.Unstructured, leaves *v1alpha1.NodeSync, applied map[string]types.UID) error {
	own := map[string]bool{}
	for name := range applied {
		own[name] = true
	}
	// NodePools come before the NodeClaims that they own.
	slices.SortStableFunc(objects, func(a, b unstructured.Unstructured) int { return strings.Compare(b.GetKind(), a.GetKind()) })
	var left []string
	for i := range objects {
		object := &objects[i]
		ours := leaves != nil && plan.OwnerOf(leaves.Namespace, leaves.Name).Owns(object)
		if ours && object.GetKind() == render.NodePool {
			own[object.GetName()] = true
		}
		if ours || own[object.GetLabels()[karpv1.NodePoolLabelKey]] {
			continue
		}
		words := object.GetKind() + "/" + object.GetName()
		if of := object.GetLabels()[v1alpha1.OwnerLabel]; of != "" {
			words += " of NodeSync " + of
		} else if object.GetKind() != "NodeClaim" {
			words += " (" + owners.Of(object).String() + ")"
		}
		left = append(left, words)
	}
	if len(left) == 0 {
		return nil
	}
	return fmt.Errorf("karpenter cannot be removed while objects of its kinds exist in the cluster: %s; delete them first, then run the command again", shortlist.Join(left, maxNamed, ", "))
}

// WithoutAutoMode returns the objects that EKS Auto Mode does not manage.
func WithoutAutoMode(objects []unstructured.Unstructured) []unstructured.Unstructured {
	return slices.DeleteFunc(objects, func(object unstructured.Unstructured) bool { return render.OfAutoMode(&object) })
}

// OfCRDChart reports whether a CRD belongs to a Helm release of the CRD chart, rather than to another tool's object of
// that name.
func OfCRDChart(crd client.Object) bool {
	of := owners.Of(crd)
	return of.IsRelease(charts.CRDChart, of.Namespace)
}

// NotInstalled returns the error that plumbline has not installed Karpenter, with the tool that owns its Deployments.
// why is the reason to assume that it is installed; without one and without a Deployment there is no Karpenter, and no
// error.
func NotInstalled(deployments []appsv1.Deployment, why error) error {
	if len(deployments) == 0 && why == nil {
		return nil
	}
	words := "plumbline did not install Karpenter"
	for i := range deployments {
		d := &deployments[i]
		words = fmt.Sprintf("plumbline did not install Karpenter: deployment %s/%s is %s", d.Namespace, d.Name, owners.Of(d))
	}
	if why != nil {
		words += " (" + why.Error() + ")"
	}
	return fmt.Errorf("%s: uninstall it with the tool that installed it, after a teardown with --down-to %s; nothing was changed",
		words, ToDefinitions)
}
