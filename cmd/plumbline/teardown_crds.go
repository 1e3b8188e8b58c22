package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/provision/owners"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/observe"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// allowDeletion is what the deletion guard asks for before a CRD of nodes is deleted.
const allowDeletion = "plumbline.dev/allow-deletion"

// karpenterCRDs are Karpenter's CRDs that the cluster has, of any owner.
func karpenterCRDs(ctx context.Context, c client.Reader) ([]apiextensionsv1.CustomResourceDefinition, error) {
	all := &apiextensionsv1.CustomResourceDefinitionList{}
	if err := c.List(ctx, all); err != nil {
		return nil, explain(err, "list the CRDs")
	}
	return slices.DeleteFunc(all.Items, func(crd apiextensionsv1.CustomResourceDefinition) bool {
		return !charts.KarpenterCRD(crd.Name)
	}), nil
}

// ownCRDs are those of the CRD chart's release.
func (t *teardown) ownCRDs(ctx context.Context) ([]apiextensionsv1.CustomResourceDefinition, error) {
	all, err := karpenterCRDs(ctx, t.c)
	return slices.DeleteFunc(all, func(crd apiextensionsv1.CustomResourceDefinition) bool {
		return !ofCRDChart(&crd)
	}), err
}

// ofCRDChart says whether a CRD is of a Helm release of the CRD chart, and not of another tool's object of that
// name.
func ofCRDChart(crd client.Object) bool {
	of := owners.Of(crd)
	return of.IsRelease(charts.CRDChart, of.Namespace)
}

// neededBy says which objects of Karpenter's kinds are left in the cluster, of any owner: without
// the controller no instance ends, and with a CRD all of its objects go. Those of a NodeSync that leaves
// do not count.
func (t *teardown) neededBy(ctx context.Context, leaves *v1alpha1.NodeSync) error {
	crds, err := karpenterCRDs(ctx, t.c)
	if err != nil {
		return err
	}
	var left []string
	own, err := t.c.appliedPools(ctx, leaves)
	if err != nil {
		return err
	}
	// NodePools come before NodeClaims, which are theirs.
	slices.SortFunc(crds, func(a, b apiextensionsv1.CustomResourceDefinition) int { return -strings.Compare(a.Name, b.Name) })
	for i := range crds {
		objects, err := t.objectsOf(ctx, &crds[i])
		if err != nil {
			return err
		}
		for n := range objects {
			object := &objects[n]
			ours := leaves != nil && plan.OwnerOf(leaves.Namespace, leaves.Name).Owns(object)
			if ours && object.GetKind() == render.NodePool {
				own[object.GetName()] = object.GetUID()
			}
			if _, of := own[object.GetLabels()[karpv1.NodePoolLabelKey]]; ours || of {
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
	}
	if len(left) == 0 {
		return nil
	}
	return fmt.Errorf("karpenter stays as long as objects of its kinds are left in the cluster: %s; delete them first, and run the command again", upTo(left, screenful))
}

// upTo names so many of a list at most.
func upTo(list []string, most int) string {
	if more := len(list) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(list[:most], ", "), more)
	}
	return strings.Join(list, ", ")
}

// objectsOf are the objects of a CRD.
func (t *teardown) objectsOf(ctx context.Context, crd *apiextensionsv1.CustomResourceDefinition) ([]unstructured.Unstructured, error) {
	list := &unstructured.UnstructuredList{}
	for _, version := range crd.Spec.Versions {
		if version.Served {
			list.SetGroupVersionKind(schema.GroupVersionKind{Group: crd.Spec.Group, Version: version.Name, Kind: crd.Spec.Names.Kind})
			break
		}
	}
	if list.GetKind() == "" {
		return nil, fmt.Errorf("no version of crd %s is served, and nobody knows whether objects of it are left; nothing was changed", crd.Name)
	}
	if err := t.c.List(ctx, list); err != nil {
		return nil, explain(err, "list "+crd.Spec.Names.Kind+"s")
	}
	return list.Items, nil
}

// uninstall takes Karpenter away, once AWS has said that nothing is left.
func (t *teardown) uninstall(ctx context.Context) error {
	if !t.downTo.takes(toController) {
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
	if !t.downTo.takes(toCRDs) {
		return nil
	}
	return t.uninstallCRDs(ctx)
}

func (t *teardown) uninstallController(ctx context.Context) error {
	if err := t.charts.installer.Uninstall(ctx, t.charts.namespace, charts.ControllerChart); err != nil {
		return err
	}
	return t.awaits(ctx, "helm release "+charts.ControllerChart+" is uninstalled", func() (string, error) {
		pods := &corev1.PodList{}
		err := t.c.List(ctx, pods, client.InNamespace(t.charts.namespace), client.MatchingLabels(observe.ControllerLabels()))
		if err != nil || len(pods.Items) == 0 {
			return "", err
		}
		return "waiting for pod " + pods.Items[0].Name + " to end", nil
	})
}

// uninstallCRDs deletes the CRDs of the CRD chart, and then its release. Where it is interrupted, the release
// still says whose the rest is.
func (t *teardown) uninstallCRDs(ctx context.Context) error {
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
	err := t.awaits(ctx, fmt.Sprintf("%d CRDs of Karpenter are deleted", len(t.charts.crds)), func() (string, error) {
		left, err := t.ownCRDs(ctx)
		if err != nil || len(left) == 0 {
			return "", err
		}
		return "waiting for crd " + left[0].Name + " to go", nil
	})
	if err != nil || t.charts.namespace == "" {
		return err
	}
	if err := t.charts.installer.Uninstall(ctx, t.charts.namespace, charts.CRDChart); err != nil {
		return err
	}
	t.show.say("helm release " + charts.CRDChart + " is uninstalled")
	left, err := karpenterCRDs(ctx, t.c)
	for i := range left {
		t.show.say(fmt.Sprintf("crd %s stays: it is %s", left[i].Name, owners.Of(&left[i])))
	}
	return err
}

// awaits waits until nothing is left to wait for, and says so.
func (t *teardown) awaits(ctx context.Context, done string, what func() (string, error)) error {
	said := ""
	for {
		waits, err := what()
		switch {
		case err != nil:
			return err
		case waits == "":
			t.show.say(done)
			return nil
		case !t.v.now().Before(t.until):
			return &exitError{code: exitStalled, message: fmt.Sprintf("after %s: %s. To go on:\n  %s", short(t.timeout), waits, t.again())}
		case waits != said:
			said = waits
			t.show.say(waits)
		}
		if err := pauseFor(ctx, min(askEvery, t.v.pause)); err != nil {
			return err
		}
	}
}
