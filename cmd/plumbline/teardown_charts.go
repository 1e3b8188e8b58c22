package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/provision/charts/release"
	"github.com/plumbline-dev/plumbline/provision/charts/survey"
	"github.com/plumbline-dev/plumbline/provision/owners"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

// karpenterCharts are Karpenter as plumbline has installed it, for the levels that take it away.
type karpenterCharts struct {
	// namespace of the two releases; empty where there are none.
	namespace string
	installer *release.Installer
	// crds are those of the CRD chart; those of another tool stay.
	crds []apiextensionsv1.CustomResourceDefinition
}

// findCharts finds Karpenter's charts, and says what keeps them from being uninstalled. Of the NodeSync
// that leaves nothing counts; it may be gone.
func (t *teardown) findCharts(ctx context.Context, sync *v1alpha1.NodeSync) error {
	if !t.downTo.takes(toController) {
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
		return t.notOurs(ctx, errors.New("the NodeSync's Git says management: External"))
	}
	if namespace == "" {
		return t.notOurs(ctx, nil)
	}
	return t.mayUninstall(ctx)
}

// mayUninstall finds out whether the user may uninstall the releases. Each object is annotated before it is
// deleted, as the deletion guard asks of everybody.
func (t *teardown) mayUninstall(ctx context.Context) (err error) {
	t.charts.installer, err = release.NewInstaller(release.InstallerOptions{Config: rest.CopyConfig(t.c.config), Logger: logr.Discard(), Allow: allowDeletion})
	for _, name := range t.releases() {
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

// releases are those that are uninstalled, in this order.
func (t *teardown) releases() []string {
	if t.downTo.takes(toCRDs) {
		return []string{charts.ControllerChart, charts.CRDChart}
	}
	return []string{charts.ControllerChart}
}

// notOurs says that another tool has installed Karpenter, and which one, where it is installed at all.
func (t *teardown) notOurs(ctx context.Context, why error) error {
	deployments, err := controllersOf(ctx, t.c)
	if err != nil {
		return err
	}
	if len(deployments) == 0 && why == nil {
		return nil // nothing is installed
	}
	words := "plumbline has not installed Karpenter"
	for i := range deployments {
		d := &deployments[i]
		words = fmt.Sprintf("plumbline has not installed Karpenter: deployment %s/%s is %s", d.Namespace, d.Name, owners.Of(d))
	}
	if why != nil {
		words += " (" + why.Error() + ")"
	}
	return fmt.Errorf("%s: uninstall it there, after a teardown with --down-to %s; nothing was changed", words, toDefinitions)
}

// releaseNamespace is where Helm has Karpenter's releases; empty where it has none.
func (t *teardown) releaseNamespace(ctx context.Context) (string, error) {
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

// otherNodeSyncs says which other NodeSync would install Karpenter again, or needs it.
func (t *teardown) otherNodeSyncs(ctx context.Context, leaves *v1alpha1.NodeSync) error {
	all := &v1alpha1.NodeSyncList{}
	if err := t.c.List(ctx, all); err != nil {
		return explain(err, "list NodeSyncs")
	}
	var others []string
	for i := range all.Items {
		if sync := &all.Items[i]; leaves == nil || sync.UID != leaves.UID {
			others = append(others, sync.Namespace+"/"+sync.Name)
		}
	}
	if len(others) == 0 {
		return nil
	}
	return fmt.Errorf("karpenter stays as long as another NodeSync needs it: %s; tear that down first, or leave --down-to %s out. Nothing was changed", strings.Join(others, ", "), t.downTo)
}
