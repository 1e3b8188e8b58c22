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

	"github.com/plumbline-dev/plumbline/provision/karpenter"
)

// page is how many objects are read at once.
const page = 200

// Rewrite writes each object of a CRD once more as it is, which has the API
// server store it in the storage version, and then takes the versions that are to
// be dropped out of status.storedVersions. It can be done again at any time:
// https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definition-versioning/#upgrade-existing-objects-to-a-new-stored-version
func Rewrite(ctx context.Context, writer client.Client, reader client.Reader, crd *apiextensionsv1.CustomResourceDefinition, migration karpenter.Migration, stillLeader func(context.Context) error) (rewritten int, err error) {
	kind := schema.GroupVersionKind{Group: crd.Spec.Group, Version: migration.Storage, Kind: crd.Spec.Names.Kind}
	list := &unstructured.UnstructuredList{}
	for {
		list.SetGroupVersionKind(kind)
		if err := reader.List(ctx, list, client.Limit(page), client.Continue(list.GetContinue())); err != nil {
			return rewritten, conversion(crd, fmt.Errorf("read the objects of crd %s: %w", crd.Name, err))
		}
		if err := stillLeader(ctx); err != nil {
			return rewritten, fmt.Errorf("migrate crd %s: %w", crd.Name, err)
		}
		for i := range list.Items {
			// One that was changed or deleted meanwhile is stored anew, or gone.
			err := writer.Update(ctx, &list.Items[i])
			if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
				return rewritten, conversion(crd, fmt.Errorf("store %s %s as %s: %w", crd.Spec.Names.Kind, list.Items[i].GetName(), migration.Storage, err))
			}
			rewritten++
		}
		if list.GetContinue() == "" {
			break
		}
	}
	whole := crd.DeepCopy()
	crd = crd.DeepCopy()
	crd.Status.StoredVersions = slices.DeleteFunc(crd.Status.StoredVersions, func(version string) bool { return slices.Contains(migration.Drop, version) })
	if err := writer.Status().Patch(ctx, crd, client.MergeFromWithOptions(whole, client.MergeFromWithOptimisticLock{})); err != nil {
		return rewritten, fmt.Errorf("take %v out of the storedVersions of crd %s: %w", migration.Drop, crd.Name, err)
	}
	return rewritten, nil
}

// conversion names the conversion webhook that stands in the way of every request
// for a CRD's objects, where there is one: Karpenter before 1.1 leaves it behind
// when its controller goes.
func conversion(crd *apiextensionsv1.CustomResourceDefinition, err error) error {
	c := crd.Spec.Conversion
	if c == nil || c.Strategy != apiextensionsv1.WebhookConverter || c.Webhook == nil || c.Webhook.ClientConfig == nil || !apierrors.IsInternalError(rootOf(err)) {
		return err
	}
	at := "a URL"
	if s := c.Webhook.ClientConfig.Service; s != nil {
		at = fmt.Sprintf("service %s/%s", s.Namespace, s.Name)
	}
	return &ConversionError{CRD: crd.Name, At: at, Err: err}
}

// ConversionError says that a CRD's conversion webhook does not answer.
type ConversionError struct {
	CRD, At string
	Err     error
}

// Error says how to get rid of it.
func (e *ConversionError) Error() string {
	return fmt.Sprintf("crd %s: its conversion webhook at %s does not answer, so that none of its objects can be read or written: "+
		"start the controller that serves it, or, where every object is of the storage version, take it out: "+
		`kubectl patch crd %s --type=merge -p '{"spec":{"conversion":{"strategy":"None","webhook":null}}}': %v`, e.CRD, e.At, e.CRD, e.Err)
}

// Unwrap returns the API server's error.
func (e *ConversionError) Unwrap() error { return e.Err }

// rootOf is the API server's error below our words.
func rootOf(err error) error {
	for {
		wrapped, ok := err.(interface{ Unwrap() error })
		if !ok {
			return err
		}
		err = wrapped.Unwrap()
	}
}
