// Package cluster reads one cluster: its live objects, what is Ready, where Karpenter's controller runs, and which
// events trigger a reconcile.
//
// A View is one cluster as one reconcile sees it: each fact is read once from the watch cache, so that two steps never
// see different answers. Results are plain values: plan.Live, readiness, predicates. The package writes nothing, and
// lists objects at the API server only if the watch cache does not keep what is needed. The cache keeps only those
// parts of a NodeClaim or CRD that plumbline reads (trim.go).
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
	"github.com/plumbline-dev/plumbline/provision/owners"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// View is one cluster as one reconcile sees it. Each fact is read from the watch cache once, so that two steps never
// see different answers.
type View struct {
	// Cached is the watch cache, and Uncached the API server itself.
	Cached, Uncached client.Reader
	// Definitions is shared by all reconciles; if nil, nothing is remembered.
	Definitions *Definitions
	// Memory contains what earlier reconciles have read.
	Memory *Memory
	// Refusals are the watches behind Cached that the API server rejects; nil if Cached is no cache.
	Refusals *Refusals

	established *Readiness
	controllers map[string][]appsv1.Deployment
}

// Memory is what one reconcile leaves to the next so that unchanged things are not read again.
// The zero value remembers nothing.
type Memory struct {
	templates templates
	hosts     hosts
	// daemonSets are the ones that nodes need.
	daemonSets daemonSets
}

// Changed forgets what was read, because the reconcile has changed the charts.
func (v *View) Changed() { v.established, v.controllers = nil, nil }

// Controllers returns the Deployments of Karpenter's controller in a namespace. It finds them by their label, whichever
// tool installed them.
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

// Claims returns the live NodeClaims; none if their kind is not served.
func (v *View) Claims(ctx context.Context) ([]Claim, error) {
	if established, err := v.Established(ctx); err != nil || !established.Ready {
		return nil, err
	}
	return Claims(ctx, v.Cached)
}

// Clients are those for one managed cluster. The clients for NodeSyncs, their Secrets and records, and the lease are
// separate: a NodeSync and its nodes may be in different clusters.
type Clients struct {
	// Client reads from the watch cache and writes to the API server, and Uncached reads from the API server itself.
	Client   client.Client
	Uncached client.Reader
	// Refusals are the watches behind Client that the API server rejects.
	Refusals *Refusals
	// Launches tracks the pools whose launches fail, by their NodeClaims; ClaimEvents is notified of deleted NodeClaims.
	Launches    *Launches
	ClaimEvents ClaimEvents
}

// View returns the cluster as one reconcile sees it.
func (c Clients) View(definitions *Definitions, memory *Memory) *View {
	return &View{Cached: c.Client, Uncached: c.Uncached, Definitions: definitions, Memory: memory, Refusals: c.Refusals}
}

// autoModePools returns the names of the NodePools of EKS Auto Mode, in a cluster without Karpenter.
func (v *View) autoModePools(ctx context.Context) ([]string, error) {
	crds, err := v.CachedCRDs(ctx, []string{owners.AutoModeCRD})
	if err != nil || len(crds) == 0 {
		return nil, err
	}
	pools, _ := render.KindOf(render.NodePool)
	if served, err := v.Serves(ctx, pools); err != nil || !served {
		return nil, err
	}
	var live plan.Live
	err = (*Definitions)(nil).read(ctx, v.Cached, []render.Kind{pools}, &live)
	return live.AutoMode, err
}

// Live returns the live objects of Karpenter's kinds from the watch cache; live.Served reports whether their CRDs are
// served. If they are not, it returns no objects, and only names the NodePools of EKS Auto Mode.
func (v *View) Live(ctx context.Context) (live plan.Live, err error) {
	established, err := v.Established(ctx)
	if err != nil {
		return live, err
	}
	if !established.Ready {
		pools, err := v.autoModePools(ctx)
		return plan.Live{Objects: map[render.Ref]*plan.Object{}, AutoMode: pools}, err
	}
	kinds, err := v.kinds(ctx)
	if err != nil {
		return live, err
	}
	live, err = v.Definitions.Live(ctx, v.Cached, kinds)
	for _, kind := range render.Kinds() {
		if refused := v.Refusals.Of(kind); refused != nil && kind.Optional() {
			if live.Unreadable == nil {
				live.Unreadable = map[string]error{}
			}
			live.Unreadable[kind.GVK.Kind] = refused
		}
	}
	live.Served = true
	return live, err
}

// Fingerprint is equal for two reconciles if in between nobody has deleted or changed the objects of the charts, and
// the ignored differences are the same. All of these objects are watched, so it makes no request.
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

// CRDFingerprint is equal for two reconciles if in between nobody has deleted or changed a CRD of the charts. It reads
// none of the charts' other objects: users who do not install them need no permission to watch those, and a cache
// blocks until its watch is synced.
func (v *View) CRDFingerprint(ctx context.Context) (string, error) {
	versions, err := v.crdVersions(ctx)
	return digest(versions), err
}

// crdVersions returns those of the live CRDs.
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

// digest returns the same hash for the same versions, in any order.
func digest(versions []string) string {
	slices.Sort(versions)
	sum := sha256.Sum256([]byte(strings.Join(versions, "\n")))
	return hex.EncodeToString(sum[:])
}
