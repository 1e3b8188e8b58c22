package cluster

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/provision/allowance"
	"github.com/plumbline-dev/plumbline/reconcile/observe"
	"github.com/plumbline-dev/plumbline/render"
)

// Fingerprint is equal for two passes between which nobody has deleted or changed what
// the charts made, or what of it is ignored. All of it is watched, so that it costs no
// request.
func (v *View) Fingerprint(ctx context.Context, namespace string, ignored []render.IgnoreDifference) (string, error) {
	versions, err := v.crdVersions(ctx)
	if err != nil {
		return "", err
	}
	versions = append(versions, fmt.Sprint(ignored))
	deployments, err := v.Controllers(ctx, namespace)
	if err != nil {
		return "", err
	}
	for i := range deployments {
		versions = append(versions, observe.Version(&deployments[i]))
	}
	for _, kind := range observe.ChartedKinds() {
		found := &metav1.PartialObjectMetadataList{}
		found.SetGroupVersionKind(kind)
		if err := v.Cached.List(ctx, found, client.MatchingLabels(observe.ControllerLabels())); err != nil {
			return "", fmt.Errorf("read each %s of Karpenter's chart: %w", kind.Kind, err)
		}
		for i := range found.Items {
			versions = append(versions, kind.Kind+"/"+observe.Version(&found.Items[i]))
		}
	}
	return digest(versions), nil
}

// CRDFingerprint is equal for two passes between which nobody has deleted or changed a CRD of the charts. It asks for
// nothing else that they make: who does not install them has no right to watch it, and a cache waits for a watch.
func (v *View) CRDFingerprint(ctx context.Context) (string, error) {
	versions, err := v.crdVersions(ctx)
	return digest(versions), err
}

// crdVersions are those of the CRDs as they live.
func (v *View) crdVersions(ctx context.Context) (versions []string, err error) {
	for _, name := range allowance.FromCharts().CRDs {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := v.Cached.Get(ctx, client.ObjectKey{Name: name}, crd); client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("read crd %s: %w", name, err)
		}
		versions = append(versions, observe.Version(crd))
	}
	return versions, nil
}

// digest is equal for equal versions, in any order.
func digest(versions []string) string {
	slices.Sort(versions)
	sum := sha256.Sum256([]byte(strings.Join(versions, "\n")))
	return hex.EncodeToString(sum[:])
}
