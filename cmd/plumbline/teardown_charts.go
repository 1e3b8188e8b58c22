package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/internal/pause"
	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/provision/charts/release"
	"github.com/plumbline-dev/plumbline/provision/charts/survey"
	"github.com/plumbline-dev/plumbline/provision/owners"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/removal/teardown"
	"github.com/plumbline-dev/plumbline/render"
)

// karpenterCharts are the charts that plumbline has installed, for the levels that uninstall Karpenter.
type karpenterCharts struct {
	// namespace contains the two releases; empty if there are none.
	namespace string
	installer *release.Installer
	// crds are those of the CRD chart's release; those of another tool are kept.
	crds []apiextensionsv1.CustomResourceDefinition
}

// findCharts finds Karpenter's charts, and returns an error if something prevents uninstalling them. It ignores what
// belongs to the NodeSync that is deleted, which may be gone already.
func (t *teardownCommand) findCharts(ctx context.Context, sync *v1alpha1.NodeSync) error {
	if !t.downTo.Takes(teardown.ToController) {
		return nil
	}
	if err := t.otherNodeSyncs(ctx, sync); err != nil {
		return err
	}
	if err := t.neededBy(ctx, sync); err != nil {
		return err
	}
	namespace, err := t.releaseNamespace(ctx)
	if err != nil {
		return err
	}
	t.charts = karpenterCharts{namespace: namespace}
	if t.charts.crds, err = t.ownCRDs(ctx); err != nil {
		return err
	}
	if sync != nil && sync.Status.Karpenter != nil && sync.Status.Karpenter.Management == string(render.External) {
		return t.notOurs(ctx, errors.New("plumbline.yaml has management: External"))
	}
	if namespace == "" {
		return t.notOurs(ctx, nil)
	}
	return t.mayUninstall(ctx)
}

// mayUninstall checks that the user may uninstall the releases. Each object is annotated before it is deleted, as the
// deletion guard requires of everybody.
func (t *teardownCommand) mayUninstall(ctx context.Context) (err error) {
	t.charts.installer, err = release.NewInstaller(release.InstallerOptions{
		Config: rest.CopyConfig(t.c.config), Logger: logr.Discard(), Allow: allowDeletion,
	})
	for _, name := range t.downTo.Releases() {
		if err == nil {
			err = t.charts.installer.Uninstallable(ctx, t.charts.namespace, name)
		}
	}
	if foreign := (*survey.ForeignReleaseError)(nil); errors.As(err, &foreign) {
		return t.notOurs(ctx, err)
	}
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("you are not allowed to uninstall Karpenter: %w; nothing was changed", err)
	}
	return err
}

// notOurs returns an error that names the other tool that has installed Karpenter, if it is installed at all.
func (t *teardownCommand) notOurs(ctx context.Context, why error) error {
	deployments, err := controllersOf(ctx, t.c)
	if err != nil {
		return err
	}
	return teardown.NotInstalled(deployments, why)
}

// releaseNamespace returns the namespace of Karpenter's Helm releases; empty if there are none.
func (t *teardownCommand) releaseNamespace(ctx context.Context) (string, error) {
	records := &metav1.PartialObjectMetadataList{}
	records.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	for _, name := range []string{charts.ControllerChart, charts.CRDChart} {
		if err := t.c.List(ctx, records, client.MatchingLabels{"owner": "helm", "name": name}); err != nil {
			return "", explain(err, "list the Secrets of Helm's releases")
		}
		if len(records.Items) > 0 {
			return records.Items[0].Namespace, nil
		}
	}
	return "", nil
}

// otherNodeSyncs returns an error that names another NodeSync that would install Karpenter again, or needs it.
func (t *teardownCommand) otherNodeSyncs(ctx context.Context, leaves *v1alpha1.NodeSync) error {
	all := &v1alpha1.NodeSyncList{}
	if err := t.c.List(ctx, all); err != nil {
		return explain(err, "list NodeSyncs")
	}
	return t.downTo.OthersNeed(all.Items, leaves)
}

// allowDeletion is the annotation that the deletion guard requires before a CRD of nodes is deleted.
const allowDeletion = "plumbline.dev/allow-deletion"

// karpenterCRDs returns Karpenter's CRDs in the cluster, regardless of owner.
func karpenterCRDs(ctx context.Context, c client.Reader) ([]apiextensionsv1.CustomResourceDefinition, error) {
	all := &apiextensionsv1.CustomResourceDefinitionList{}
	if err := c.List(ctx, all); err != nil {
		return nil, explain(err, "list the CRDs")
	}
	return slices.DeleteFunc(all.Items, func(crd apiextensionsv1.CustomResourceDefinition) bool {
		return !charts.KarpenterCRD(crd.Name)
	}), nil
}

// ownCRDs returns those of the CRD chart's release.
func (t *teardownCommand) ownCRDs(ctx context.Context) ([]apiextensionsv1.CustomResourceDefinition, error) {
	all, err := karpenterCRDs(ctx, t.c)
	return slices.DeleteFunc(all, func(crd apiextensionsv1.CustomResourceDefinition) bool {
		return !teardown.OfCRDChart(&crd)
	}), err
}

// neededBy returns an error that lists the remaining objects of Karpenter's kinds, regardless of owner: without the
// controller, no instance is terminated, and deleting a CRD deletes all of its objects. Those of the NodeSync that is
// deleted do not count, nor do those of EKS Auto Mode if EKS keeps their CRD: AWS terminates their instances, and the CRD
// stays.
func (t *teardownCommand) neededBy(ctx context.Context, leaves *v1alpha1.NodeSync) error {
	crds, err := karpenterCRDs(ctx, t.c)
	if err != nil {
		return err
	}
	applied, err := t.c.appliedPools(ctx, leaves)
	if err != nil {
		return err
	}
	unread := t.c.Get(ctx, client.ObjectKey{Name: owners.AutoModeCRD}, &apiextensionsv1.CustomResourceDefinition{})
	if client.IgnoreNotFound(unread) != nil {
		return explain(unread, "read crd "+owners.AutoModeCRD)
	}
	var objects []unstructured.Unstructured
	for i := range crds {
		more, err := t.objectsOf(ctx, &crds[i])
		if err != nil {
			return err
		}
		if owners.ServedByEKS(&crds[i], unread == nil) {
			more = teardown.WithoutAutoMode(more)
		}
		objects = append(objects, more...)
	}
	return teardown.ObjectsNeed(objects, leaves, applied)
}

// objectsOf returns the objects of a CRD.
func (t *teardownCommand) objectsOf(
	ctx context.Context, crd *apiextensionsv1.CustomResourceDefinition,
) ([]unstructured.Unstructured, error) {
	list := &unstructured.UnstructuredList{}
	for _, version := range crd.Spec.Versions {
		if version.Served {
			list.SetGroupVersionKind(schema.GroupVersionKind{Group: crd.Spec.Group, Version: version.Name, Kind: crd.Spec.Names.Kind})
			break
		}
	}
	if list.GetKind() == "" {
		return nil, fmt.Errorf("no version of crd %s is served, and whether objects of it are left is unknown; nothing was changed", crd.Name)
	}
	if err := t.c.List(ctx, list); err != nil {
		return nil, explain(err, "list "+crd.Spec.Names.Kind+"s")
	}
	return list.Items, nil
}

// uninstall uninstalls Karpenter, once AWS has confirmed that nothing is left.
func (t *teardownCommand) uninstall(ctx context.Context) error {
	if !t.downTo.Takes(teardown.ToController) {
		return nil
	}
	if err := t.neededBy(ctx, nil); err != nil {
		return err
	}
	if t.charts.namespace != "" {
		if err := t.uninstallController(ctx); err != nil {
			return err
		}
	}
	if !t.downTo.Takes(teardown.ToCRDs) {
		return nil
	}
	return t.uninstallCRDs(ctx)
}

func (t *teardownCommand) uninstallController(ctx context.Context) error {
	if err := t.charts.installer.Uninstall(ctx, t.charts.namespace, charts.ControllerChart); err != nil {
		return err
	}
	return t.waitUntilDone(ctx, "Helm release "+charts.ControllerChart+" is uninstalled", func() (string, error) {
		pods := &corev1.PodList{}
		err := t.c.List(ctx, pods, client.InNamespace(t.charts.namespace), client.MatchingLabels(cluster.ControllerLabels()))
		if err != nil || len(pods.Items) == 0 {
			return "", err
		}
		return "waiting for pod " + pods.Items[0].Name + " to terminate", nil
	})
}

// uninstallCRDs deletes the CRDs of the CRD chart, then its release. If interrupted, the release still shows who owns
// the rest.
func (t *teardownCommand) uninstallCRDs(ctx context.Context) error {
	if err := t.neededBy(ctx, nil); err != nil {
		return err
	}
	for i := range t.charts.crds {
		crd := &t.charts.crds[i]
		allowed := crd.DeepCopy()
		metav1.SetMetaDataAnnotation(&allowed.ObjectMeta, allowDeletion, "true")
		err := t.c.Patch(ctx, allowed, client.MergeFrom(crd))
		if err == nil {
			err = t.c.Delete(ctx, allowed, client.Preconditions{UID: &crd.UID})
		}
		if client.IgnoreNotFound(err) != nil {
			return explain(err, "delete crd "+crd.Name)
		}
	}
	err := t.waitUntilDone(ctx, fmt.Sprintf("%d CRDs of Karpenter are deleted", len(t.charts.crds)), func() (string, error) {
		left, err := t.ownCRDs(ctx)
		if err != nil || len(left) == 0 {
			return "", err
		}
		return "waiting for crd " + left[0].Name + " to be deleted", nil
	})
	if err != nil || t.charts.namespace == "" {
		return err
	}
	if err := t.charts.installer.Uninstall(ctx, t.charts.namespace, charts.CRDChart); err != nil {
		return err
	}
	t.show.sentence("Helm release " + charts.CRDChart + " is uninstalled")
	left, err := karpenterCRDs(ctx, t.c)
	for i := range left {
		t.show.sentence(fmt.Sprintf("crd %s stays: it is %s", left[i].Name, owners.Of(&left[i])))
	}
	return err
}

// waitUntilDone waits until what returns nothing to wait for, then prints done.
func (t *teardownCommand) waitUntilDone(ctx context.Context, done string, what func() (string, error)) error {
	said := ""
	for {
		waits, err := what()
		switch {
		case err != nil:
			return err
		case waits == "":
			t.show.sentence(done)
			return nil
		case !t.v.now().Before(t.until):
			return &exitError{code: exitStalled, message: fmt.Sprintf("after %s: %s. To continue:\n  %s", short(t.timeout), waits, t.continueCommand())}
		case waits != said:
			said = waits
			t.show.sentence(waits)
		}
		if err := pause.For(ctx, min(askEvery, t.v.pause)); err != nil {
			return err
		}
	}
}

// checkClasses returns an error if a NodePool that is kept references an EC2NodeClass that would be deleted.
func (t *teardownCommand) checkClasses(ctx context.Context, sync *v1alpha1.NodeSync, leaves *teardown.Plan) error {
	pools, _ := render.KindOf(render.NodePool)
	all, err := definitionsOf(ctx, t.c, pools)
	if err != nil {
		return err
	}
	return leaves.ClassInUse(sync, all)
}
