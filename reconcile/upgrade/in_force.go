package upgrade

import (
	"context"
	"fmt"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/provision/karpenter"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// InForce returns the version whose release keeps serving while a change of the charts is refused, has failed, or is
// being rolled back. It is empty if plumbline has not installed one yet, and while a change is in progress.
func InForce(k v1alpha1.KarpenterStatus) string {
	if k.Identity == "" || k.Controller == nil {
		return ""
	}
	if k.Target == nil {
		return k.Version
	}
	switch k.Target.Step {
	case v1alpha1.ChartChecking, v1alpha1.ChartSettling, v1alpha1.ChartRollingBack, v1alpha1.ChartRolledBack:
		return k.Version
	case v1alpha1.ChartMigrating, v1alpha1.ChartCRDs, v1alpha1.ChartController, v1alpha1.ChartRollingOut:
	}
	return ""
}

// InProgress reports whether a change has started, and neither its controller nor the previous one is permanently in
// force yet.
func InProgress(t v1alpha1.ChartTarget) bool {
	return !leftNothing(&t) && t.Step != v1alpha1.ChartSettling
}

// CRDsAhead reports whether the CRDs in the cluster are newer than a version: the controller was rolled back to it, or
// is about to be.
func CRDsAhead(k *v1alpha1.KarpenterStatus, version string) bool {
	return k != nil && k.CRDs != nil && charts.Ahead(k.CRDs.Version, version)
}

// Begun reports whether plumbline has installed charts, or may have.
func Begun(k *v1alpha1.KarpenterStatus) bool {
	if k.Identity != "" {
		return true
	}
	return k.Target != nil && k.Target.Step != v1alpha1.ChartChecking && k.Target.Step != v1alpha1.ChartMigrating
}

// page is how many objects one LIST returns.
const page = 200

// Rewrite writes each object of a CRD unchanged, so that the API server stores it in the storage version, and then
// removes the versions that will be dropped from status.storedVersions. It can be repeated at any time:
// https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definition-versioning/#upgrade-existing-objects-to-a-new-stored-version
func Rewrite(
	ctx context.Context, writer client.Client, reader client.Reader, migration karpenter.Migration, stillLeader func(context.Context) error,
) (rewritten int, err error) {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := reader.Get(ctx, client.ObjectKey{Name: migration.CRD}, crd); err != nil {
		return 0, fmt.Errorf("read crd %s: %w", migration.CRD, err)
	}
	kind := schema.GroupVersionKind{Group: crd.Spec.Group, Version: migration.Storage, Kind: crd.Spec.Names.Kind}
	list := &unstructured.UnstructuredList{}
	for {
		list.SetGroupVersionKind(kind)
		if err := reader.List(ctx, list, client.Limit(page), client.Continue(list.GetContinue())); err != nil {
			return rewritten, fmt.Errorf("read the objects of crd %s: %w", crd.Name, err)
		}
		if err := stillLeader(ctx); err != nil {
			return rewritten, fmt.Errorf("migrate crd %s: %w", crd.Name, err)
		}
		for i := range list.Items {
			// An object that was changed or deleted meanwhile is already stored in the new version, or gone.
			err := writer.Update(ctx, &list.Items[i])
			if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
				return rewritten, fmt.Errorf("store %s %s as %s: %w", crd.Spec.Names.Kind, list.Items[i].GetName(), migration.Storage, err)
			}
			rewritten++
		}
		if list.GetContinue() == "" {
			break
		}
	}
	whole := crd.DeepCopy()
	crd = crd.DeepCopy()
	crd.Status.StoredVersions = slices.DeleteFunc(crd.Status.StoredVersions,
		func(version string) bool { return slices.Contains(migration.Drop, version) })
	if err := writer.Status().Patch(ctx, crd, client.MergeFromWithOptions(whole, client.MergeFromWithOptimisticLock{})); err != nil {
		return rewritten, fmt.Errorf("remove %v from the storedVersions of crd %s: %w", migration.Drop, crd.Name, err)
	}
	return rewritten, nil
}
