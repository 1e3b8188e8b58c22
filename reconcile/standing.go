package reconcile

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/provision/allowance"
	"github.com/plumbline-dev/plumbline/reconcile/observe"
	"github.com/plumbline-dev/plumbline/render"
)

// standing is equal for two passes between which nobody has deleted or changed
// what the charts made, or what of it is ignored. All of it is watched, so it
// costs no request.
func (p *pass) standing(ctx context.Context) (string, error) {
	versions := []string{fmt.Sprint(p.karpenter.IgnoreDifferences)}
	for _, name := range allowance.FromCharts().CRDs {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := p.Client.Get(ctx, client.ObjectKey{Name: name}, crd); client.IgnoreNotFound(err) != nil {
			return "", fmt.Errorf("read crd %s: %w", name, err)
		}
		versions = append(versions, observe.Version(crd))
	}
	deployments, err := p.controllers(ctx)
	if err != nil {
		return "", err
	}
	for i := range deployments {
		versions = append(versions, observe.Version(&deployments[i]))
	}
	for _, kind := range observe.ChartedKinds() {
		found := &metav1.PartialObjectMetadataList{}
		found.SetGroupVersionKind(kind)
		if err := p.Client.List(ctx, found, client.MatchingLabels(observe.ControllerLabels())); err != nil {
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

// installedAs says whether the charts are known to be installed as Git says, and
// to stand. What somebody changes again and again is put right at the pace of
// retries: each time costs a revision of the release.
func (p *pass) installedAs(identity, standing string) bool {
	if p.memory.installed != identity || len(p.memory.fought) > 0 && p.insists() {
		return false
	}
	if p.memory.standing == standing {
		return true
	}
	if !p.insists() && !due(p.now, p.memory.repairedAt, p.retryInterval()) {
		p.WakeBy(p.memory.repairedAt.Add(p.retryInterval()))
		return true
	}
	return false
}

// crdNames are the CRDs of all kinds that are ours, and of NodeClaims.
func crdNames() []string {
	names := []string{nodeClaimCRD}
	for _, kind := range render.Kinds() {
		names = append(names, kind.CRD)
	}
	return names
}

// controllers are the Deployments of Karpenter's controller, found by their
// label, whoever installed them.
func (p *pass) controllers(ctx context.Context) ([]appsv1.Deployment, error) {
	namespace := p.sync.Status.Karpenter.Namespace
	found := &appsv1.DeploymentList{}
	err := p.Client.List(ctx, found, client.InNamespace(namespace), client.MatchingLabels(observe.ControllerLabels()))
	if err != nil {
		return nil, fmt.Errorf("find Karpenter's Deployment in %s: %w", namespace, err)
	}
	return found.Items, nil
}
