package reconcile

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// atHome are the kinds that are read from the NodeSyncs' cluster. CRDs are read from both clusters, and all other kinds
// from the nodes' cluster.
var atHome = map[string]bool{
	"NodeSync": true, "Approval": true, "Secret": true, "ConfigMap": true, "Namespace": true,
	"ValidatingAdmissionPolicy": true, "ValidatingAdmissionPolicyBinding": true,
}

// side is a client of one of two clusters: the NodeSyncs' or the nodes'. Requests to the wrong one fail.
func side(c client.WithWatch, home bool) client.WithWatch {
	allow := func(object runtime.Object) error {
		gvk, err := apiutil.GVKForObject(object, c.Scheme())
		if err != nil {
			return err
		}
		if kind := strings.TrimSuffix(gvk.Kind, "List"); atHome[kind] != home && kind != "CustomResourceDefinition" {
			return fmt.Errorf("%s is not in this cluster: a NodeSync and its nodes need not live in one", kind)
		}
		return nil
	}
	return interceptor.NewClient(c, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			if err := allow(object); err != nil {
				return err
			}
			return c.Get(ctx, key, object, options...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if err := allow(list); err != nil {
				return err
			}
			return c.List(ctx, list, options...)
		},
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
			if err := allow(object); err != nil {
				return err
			}
			return c.Create(ctx, object, options...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.DeleteOption) error {
			if err := allow(object); err != nil {
				return err
			}
			return c.Delete(ctx, object, options...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
			if err := allow(object); err != nil {
				return err
			}
			return c.Patch(ctx, object, patch, options...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
			if err := allow(object); err != nil {
				return err
			}
			return c.SubResource(sub).Patch(ctx, object, patch, options...)
		},
	})
}
