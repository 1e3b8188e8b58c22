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
	versions := []string{fmt.Sprint(ignored)}
	for _, name := range allowance.FromCharts().CRDs {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := v.Cached.Get(ctx, client.ObjectKey{Name: name}, crd); client.IgnoreNotFound(err) != nil {
			return "", fmt.Errorf("read crd %s: %w", name, err)
		}
		versions = append(versions, observe.Version(crd))
	}
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
	slices.Sort(versions)
	sum := sha256.Sum256([]byte(strings.Join(versions, "\n")))
	return hex.EncodeToString(sum[:]), nil
}
