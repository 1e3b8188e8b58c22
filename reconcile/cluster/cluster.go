// Package cluster reads one cluster: what lives in it, what is Ready, where Karpenter's controller runs, and which events trigger a
// reconcile.
//
// A View is one cluster as one reconcile sees it: each fact is read once from the watch cache, so that two steps never see two
// answers. Results are plain values: plan.Live, readiness, predicates. Nothing is listed at the API server, and nothing is written. What
// the cache keeps of a NodeClaim or a CRD is cut down to what plumbline reads (trim.go).
package cluster

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
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// View is one cluster as one reconcile sees it. Each fact out of the watch cache is read
// once, so that two steps never see two answers.
type View struct {
	// Cached is the watch cache, and Uncached the API server itself.
	Cached, Uncached client.Reader
	// Definitions is shared by all reconciles; nil remembers none.
	Definitions *Definitions
	// Memory is what earlier reconciles have read.
	Memory *Memory

	established *Readiness
	controllers map[string][]appsv1.Deployment
}

// Memory is what one reconcile leaves to the next so that unchanged things are not read again.
// The zero value remembers nothing.
type Memory struct {
	templates templates
	hosts     hosts
	// daemonSets are those that nodes need.
	daemonSets daemonSets
}

// Changed forgets what was read: the reconcile has changed the charts.
func (v *View) Changed() { v.established, v.controllers = nil, nil }

// Controllers are the Deployments of Karpenter's controller in a namespace, found by
// their label, whichever tool installed them.
func (v *View) Controllers(ctx context.Context, namespace string) ([]appsv1.Deployment, error) {
	if known, read := v.controllers[namespace]; read {
		return known, nil
	}
	found := &appsv1.DeploymentList{}
	err := v.Cached.List(ctx, found, client.InNamespace(namespace), client.MatchingLabels(ControllerLabels()))
	if err != nil {
		return nil, fmt.Errorf("find Karpenter's Deployment in %s: %w", namespace, err)
	}
	if v.controllers == nil {
		v.controllers = map[string][]appsv1.Deployment{}
	}
	v.controllers[namespace] = found.Items
	return found.Items, nil
}

// Claims are the NodeClaims that live; none if their kind is not served.
func (v *View) Claims(ctx context.Context) ([]Claim, error) {
	if established, err := v.Established(ctx); err != nil || !established.Ready {
		return nil, err
	}
	return Claims(ctx, v.Cached)
}

// Clients are those of one cluster whose nodes are kept. The clients for NodeSyncs, their Secrets and records, and
// the lease are others: a NodeSync and its nodes need not live in one cluster.
type Clients struct {
	// Client reads from the watch cache and writes to the API server, and Uncached reads from the API server itself.
	Client   client.Client
	Uncached client.Reader
	// Refusals are the watches behind Client that the API server refuses.
	Refusals *Refusals
	// Launches are the pools that get no nodes, by their NodeClaims; Ends hears of those that end.
	Launches *Launches
	Ends     Ends
}

// View is the cluster as one reconcile sees it.
func (c Clients) View(definitions *Definitions, memory *Memory) *View {
	return &View{Cached: c.Client, Uncached: c.Uncached, Definitions: definitions, Memory: memory}
}

// Live is what lives of Karpenter's kinds, out of the watch cache; served reports whether
// they are. Before their CRDs are served there is nothing, and nothing is asked.
func (v *View) Live(ctx context.Context) (live plan.Live, err error) {
	established, err := v.Established(ctx)
	if err != nil || !established.Ready {
		return plan.Live{Objects: map[render.Ref]*plan.Object{}}, err
	}
	live, err = v.Definitions.Live(ctx, v.Cached)
	live.Served = true
	return live, err
}

// Fingerprint is equal for two reconciles between which nobody has deleted or changed what
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
		versions = append(versions, Version(&deployments[i]))
	}
	for _, kind := range ChartedKinds() {
		found := &metav1.PartialObjectMetadataList{}
		found.SetGroupVersionKind(kind)
		if err := v.Cached.List(ctx, found, client.MatchingLabels(ControllerLabels())); err != nil {
			return "", fmt.Errorf("read each %s of Karpenter's chart: %w", kind.Kind, err)
		}
		for i := range found.Items {
			versions = append(versions, kind.Kind+"/"+Version(&found.Items[i]))
		}
	}
	return digest(versions), nil
}

// CRDFingerprint is equal for two reconciles between which nobody has deleted or changed a CRD of the charts. It asks for
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
		versions = append(versions, Version(crd))
	}
	return versions, nil
}

// digest is equal for equal versions, in any order.
func digest(versions []string) string {
	slices.Sort(versions)
	sum := sha256.Sum256([]byte(strings.Join(versions, "\n")))
	return hex.EncodeToString(sum[:])
}
