package main

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/provision/owners"
)

// suspension is how an object of another tool is kept from applying, and how that is taken back.
type suspension struct {
	kind  schema.GroupVersionKind
	patch string
	back  string
}

// suspensions are by the kind of an owner. What has none can only be suspended where it runs.
var suspensions = map[string]suspension{
	"Kustomization": {
		kustomizationKind,
		`{"spec":{"suspend":true}}`, "flux resume kustomization %[3]s --namespace %[2]s",
	},
	"HelmRelease": {
		schema.GroupVersionKind{Group: "helm.toolkit.fluxcd.io", Version: "v2", Kind: "HelmRelease"},
		`{"spec":{"suspend":true}}`, "flux resume helmrelease %[3]s --namespace %[2]s",
	},
	"Application": {
		applicationKind,
		`{"spec":{"syncPolicy":{"automated":null}}}`, "put spec.syncPolicy.automated of application %[2]s/%[3]s back",
	},
}

// suspendAppliers keeps Flux and Argo CD from creating again what ends, where the user has asked for that. It comes after
// the confirmation, and before anything is deleted.
func (t *teardown) suspendAppliers(ctx context.Context, leaves *teardownPlan) error {
	if !t.suspends {
		return nil
	}
	for _, by := range leaves.appliers {
		s, known := suspensions[by.Kind]
		if !known {
			t.show.say(fmt.Sprintf("%s cannot be suspended from here: what it applies may come again", by))
			continue
		}
		found, err := t.findApplier(ctx, s.kind, by)
		if err != nil {
			return explain(err, fmt.Sprintf("find %s to suspend it (nothing was deleted)", by))
		}
		if err := t.c.Patch(ctx, found, client.RawPatch(types.MergePatchType, []byte(s.patch))); err != nil {
			return explain(err, fmt.Sprintf("suspend %s (nothing was deleted)", by))
		}
		t.show.say(fmt.Sprintf("%s is suspended; to take that back: "+s.back, by, found.GetNamespace(), found.GetName()))
	}
	return nil
}

// findApplier reads the object that applies: one that is known by its name only, as Argo CD's label has it, is looked for
// in all namespaces, and has to be the only one.
func (t *teardown) findApplier(ctx context.Context, kind schema.GroupVersionKind, by owners.Owner) (*unstructured.Unstructured, error) {
	if by.Namespace != "" {
		found := &unstructured.Unstructured{}
		found.SetGroupVersionKind(kind)
		return found, t.c.Get(ctx, client.ObjectKey{Namespace: by.Namespace, Name: by.Name}, found)
	}
	list, err := listOf(ctx, t.c, kind)
	if err != nil {
		return nil, err
	}
	var found *unstructured.Unstructured
	for i := range list.Items {
		switch {
		case list.Items[i].GetName() != by.Name:
		case found != nil:
			return nil, fmt.Errorf("there is one in %s and one in %s: suspend the right one yourself", found.GetNamespace(), list.Items[i].GetNamespace())
		default:
			found = &list.Items[i]
		}
	}
	if found == nil {
		return nil, fmt.Errorf("there is none of the name %s", by.Name)
	}
	return found, nil
}
