package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/provision/owners"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// NodeClaimCRD is the CRD of NodeClaims, which Karpenter creates from definitions. Git never contains any.
const NodeClaimCRD = "nodeclaims.karpenter.sh"

// CRDNames returns the CRDs that every supported version of Karpenter has: those of NodeClaims and of the kinds of
// definitions that are not optional.
func CRDNames() []string {
	var names []string
	for _, kind := range required() {
		names = append(names, kind.CRD)
	}
	return names
}

func required() []render.Kind {
	return slices.DeleteFunc(Kinds(), render.Kind.Optional)
}

// Kinds returns the kinds of definitions, and NodeClaims, each with its CRD.
func Kinds() []render.Kind {
	claims := render.Kind{GVK: schema.GroupVersionKind{Group: "karpenter.sh", Version: "v1", Kind: "NodeClaim"}, CRD: NodeClaimCRD}
	return append([]render.Kind{claims}, render.Kinds()...)
}

// Established reports whether all of Kinds are served, except optional ones.
func (v *View) Established(ctx context.Context) (Readiness, error) {
	if v.established != nil {
		return *v.established, nil
	}
	ready, err := v.readEstablished(ctx)
	if err == nil {
		v.established = &ready
	}
	return ready, err
}

func (v *View) readEstablished(ctx context.Context) (Readiness, error) {
	for _, kind := range required() {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		err := v.Cached.Get(ctx, client.ObjectKey{Name: kind.CRD}, crd)
		if apierrors.IsNotFound(err) {
			return Readiness{Message: "crd " + kind.CRD + " does not exist"}, nil
		}
		if err != nil {
			return Readiness{}, fmt.Errorf("read crd %s: %w", kind.CRD, err)
		}
		if ready := Serves(crd, kind.GVK); !ready.Ready {
			return ready, nil
		}
	}
	return Readiness{Ready: true}, nil
}

// kinds returns the kinds of definitions that can be read from the cache: without the optional ones that are not
// served, or whose watch the API server rejects, because the cache would block.
func (v *View) kinds(ctx context.Context) ([]render.Kind, error) {
	var found []render.Kind
	for _, kind := range render.Kinds() {
		if !kind.Optional() {
			found = append(found, kind)
			continue
		}
		served, err := v.Serves(ctx, kind)
		if err != nil {
			return nil, err
		}
		if served && v.Refusals.Of(kind) == nil {
			found = append(found, kind)
		}
	}
	return found, nil
}

// Serves reports whether the CRD of a kind exists and serves it.
func (v *View) Serves(ctx context.Context, kind render.Kind) (bool, error) {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	err := v.Cached.Get(ctx, client.ObjectKey{Name: kind.CRD}, crd)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read crd %s: %w", kind.CRD, err)
	}
	return Serves(crd, kind.GVK).Ready, nil
}

// MissingCRDs returns those of CRDNames that do not exist, read without the cache.
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

// CachedCRDs returns the existing ones of some names, without their schemas, which the cache does not keep.
func (v *View) CachedCRDs(ctx context.Context, names []string) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	return readCRDs(ctx, v.Cached, names)
}

// CRDs returns the existing ones of some names, with their schemas, whichever tool installed them.
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

// ServedByEKS returns those of some CRDs, from the cache or the API server, that EKS keeps up to date for Auto Mode
// (owners.ServedByEKS).
func (v *View) ServedByEKS(
	ctx context.Context, crds []*apiextensionsv1.CustomResourceDefinition,
) (served []*apiextensionsv1.CustomResourceDefinition, err error) {
	ofAutoMode, err := v.CachedCRDs(ctx, []string{owners.AutoModeCRD})
	if err != nil {
		return nil, err
	}
	for _, crd := range crds {
		if owners.ServedByEKS(crd, len(ofAutoMode) > 0) {
			served = append(served, crd)
		}
	}
	return served, nil
}

// AbsentCRDs returns the CRDs of definitions that are not among some CRDs, without those of optional kinds.
func AbsentCRDs(crds []*apiextensionsv1.CustomResourceDefinition) []string {
	var absent []string
	for _, kind := range render.Kinds() {
		exists := slices.ContainsFunc(crds, func(crd *apiextensionsv1.CustomResourceDefinition) bool { return crd.Name == kind.CRD })
		if !exists && !kind.Optional() {
			absent = append(absent, kind.CRD)
		}
	}
	return absent
}

// Generations returns the same text for CRDs with the same schemas.
func Generations(crds []*apiextensionsv1.CustomResourceDefinition) string {
	var all strings.Builder
	for _, crd := range crds {
		fmt.Fprintf(&all, "%s/%d ", crd.UID, crd.Generation)
	}
	return all.String()
}

// daemonSetsEvery is how long DaemonSets without problems are cached. They are not watched, because each node that
// comes or goes changes the status of each of them.
const daemonSetsEvery = 10 * time.Minute

// daemonSets are those that were last read, and when.
type daemonSets struct {
	at    time.Time
	found plan.DaemonSets
}

// DaemonSets returns those that nodes need until their last pod has terminated. It reads them again if the result is
// old, or earlier, after retry, if one is missing its toleration or they could not be read. If there are no nodes, it
// reads nothing. again is when to call it again; zero if that can wait for the next reconcile.
func (v *View) DaemonSets(
	ctx context.Context, claims []plan.NodeClaim, now time.Time, retry time.Duration,
) (found plan.DaemonSets, again time.Time) {
	if len(claims) == 0 {
		return plan.DaemonSets{}, time.Time{}
	}
	last := &v.Memory.daemonSets
	sooner := min(retry, daemonSetsEvery)
	every := daemonSetsEvery
	if last.found.Trouble() != "" {
		every = sooner
	}
	if last.at.IsZero() || now.Before(last.at) || !now.Before(last.at.Add(every)) {
		*last = daemonSets{at: now, found: readDaemonSets(ctx, v.Uncached)}
	}
	if last.found.Trouble() != "" {
		again = last.at.Add(sooner)
	}
	return last.found, again
}

// daemonSetsPage is the page size for listing DaemonSets.
const daemonSetsPage = 100

func readDaemonSets(ctx context.Context, reader client.Reader) plan.DaemonSets {
	drivers := &storagev1.CSIDriverList{}
	if err := reader.List(ctx, drivers); err != nil {
		return plan.DaemonSets{Unread: readFailure("csidrivers.storage.k8s.io", err)}
	}
	names := make([]string, 0, len(drivers.Items))
	for i := range drivers.Items {
		names = append(names, drivers.Items[i].Name)
	}
	var found plan.DaemonSets
	for page := ""; ; {
		sets := &appsv1.DaemonSetList{}
		if err := reader.List(ctx, sets, client.Limit(daemonSetsPage), client.Continue(page)); err != nil {
			return plan.DaemonSets{Unread: readFailure("daemonsets.apps", err)}
		}
		found.Found = append(found.Found, plan.NodeDaemonSets(sets.Items, names)...)
		if page = sets.Continue; page == "" {
			return found
		}
	}
}

// readFailure returns why objects of a kind could not be read, and what to do if a permission is missing. It is the
// same for each attempt.
func readFailure(kind string, err error) string {
	if apierrors.IsForbidden(err) || meta.IsNoMatchError(err) {
		return fmt.Sprintf("permission to list %s in all namespaces is missing: apply the manifests of this plumbline version, or grant it", kind)
	}
	return fmt.Sprintf("list %s: %v", kind, err)
}
