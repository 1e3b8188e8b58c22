package cluster

import (
	"context"
	"fmt"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/observe"
	"github.com/plumbline-dev/plumbline/render"
)

// NodeClaimCRD is the kind that definitions turn into. Git never has it.
const NodeClaimCRD = "nodeclaims.karpenter.sh"

// CRDNames are the CRDs of all kinds of definitions, and of NodeClaims.
func CRDNames() []string {
	var names []string
	for _, kind := range Kinds() {
		names = append(names, kind.CRD)
	}
	return names
}

// Kinds are those of definitions, and that of NodeClaims, each with its CRD.
func Kinds() []render.Kind {
	claims := render.Kind{GVK: schema.GroupVersionKind{Group: "karpenter.sh", Version: "v1", Kind: "NodeClaim"}, CRD: NodeClaimCRD}
	return append([]render.Kind{claims}, render.Kinds()...)
}

// Established says whether the kinds of Kinds are served.
func (v *View) Established(ctx context.Context) (observe.Readiness, error) {
	if v.established != nil {
		return *v.established, nil
	}
	ready, err := v.readEstablished(ctx)
	if err == nil {
		v.established = &ready
	}
	return ready, err
}

func (v *View) readEstablished(ctx context.Context) (observe.Readiness, error) {
	for _, kind := range Kinds() {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		err := v.Cached.Get(ctx, client.ObjectKey{Name: kind.CRD}, crd)
		if apierrors.IsNotFound(err) {
			return observe.Readiness{Message: "crd " + kind.CRD + " is not there yet"}, nil
		}
		if err != nil {
			return observe.Readiness{}, fmt.Errorf("read crd %s: %w", kind.CRD, err)
		}
		if ready := observe.Serves(crd, kind.GVK); !ready.Ready {
			return ready, nil
		}
	}
	return observe.Readiness{Ready: true}, nil
}

// MissingCRDs are those of CRDNames that are not there, seen past the cache.
func (v *View) MissingCRDs(ctx context.Context) ([]string, error) {
	var missing []string
	for _, name := range CRDNames() {
		found, err := readCRDs(ctx, v.Uncached, []string{name})
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			missing = append(missing, name)
		}
	}
	return missing, nil
}

// CachedCRDs are those of some names that are there, without their schemas, which the
// cache does not keep.
func (v *View) CachedCRDs(ctx context.Context, names []string) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	return readCRDs(ctx, v.Cached, names)
}

// CRDs are those of some names that are there, with their schemas, whichever tool installed them.
func (v *View) CRDs(ctx context.Context, names []string) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	return readCRDs(ctx, v.Uncached, names)
}

func readCRDs(ctx context.Context, reader client.Reader, names []string) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	var found []*apiextensionsv1.CustomResourceDefinition
	for _, name := range names {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		err := reader.Get(ctx, client.ObjectKey{Name: name}, crd)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read crd %s: %w", name, err)
		}
		found = append(found, crd)
	}
	return found, nil
}

// Generations is equal for CRDs with the same schemas.
func Generations(crds []*apiextensionsv1.CustomResourceDefinition) string {
	var all strings.Builder
	for _, crd := range crds {
		fmt.Fprintf(&all, "%s/%d ", crd.UID, crd.Generation)
	}
	return all.String()
}
