package charts

import (
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Found is what a cluster has of Karpenter that plumbline has not installed.
type Found struct {
	Releases []FoundRelease `json:"releases"`
	// CRDs are Karpenter's; Controllers are Deployments of its controller, in any
	// namespace.
	CRDs        []FoundObject `json:"crds"`
	Controllers []FoundObject `json:"controllers"`
}

// FoundRelease is a release of Helm that somebody else made, at its last revision.
type FoundRelease struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	// Revision, Chart and Version are empty where its Secrets cannot be read.
	Revision int    `json:"revision,omitempty"`
	Chart    string `json:"chart,omitempty"`
	Version  string `json:"version,omitempty"`
	// Values are those that it was given.
	Values map[string]any `json:"-"`
}

// String is namespace/name.
func (r FoundRelease) String() string { return r.Namespace + "/" + r.Name }

// FoundObject is an object that somebody else made.
type FoundObject struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Version of Karpenter that its labels name; empty where they name none.
	Version string `json:"version,omitempty"`
	Owner   Owner  `json:"owner"`
}

// String is the object as messages name it.
func (o FoundObject) String() string {
	if o.Namespace == "" {
		return o.Kind + " " + o.Name
	}
	return fmt.Sprintf("%s %s/%s", o.Kind, o.Namespace, o.Name)
}

// Survey looks for what there is of Karpenter, in all namespaces, that plumbline
// has not installed. It reads the releases of other namespaces where it may.
func (i *Installer) Survey(ctx context.Context, namespace string) (Found, error) {
	state, err := i.State(ctx, namespace)
	if err != nil {
		return Found{}, err
	}
	// What holds our marks is ours, also where its release has lost its history.
	ours := func(release string, object metav1.Object) bool {
		return heldBy(object, release, namespace) && !state.of(release).Foreign && !OwnerOf(object).Reconciles()
	}
	crds, err := i.list(ctx, apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions"), "")
	if err != nil {
		return Found{}, fmt.Errorf("list the CRDs: %w", err)
	}
	deployments, err := i.list(ctx, appsv1.SchemeGroupVersion.WithResource("deployments"), controllerLabel)
	if err != nil {
		return Found{}, fmt.Errorf("list the Deployments of Karpenter's controller: %w", err)
	}
	found := Found{Releases: []FoundRelease{}, CRDs: []FoundObject{}, Controllers: []FoundObject{}}
	for n := range crds {
		if karpenterCRDName(crds[n].Name) && !ours(CRDChart, &crds[n]) {
			found.CRDs = append(found.CRDs, foundObject(crdKind, &crds[n]))
		}
	}
	for n := range deployments {
		if !ours(ControllerChart, &deployments[n]) {
			found.Controllers = append(found.Controllers, foundObject(controllerKind, &deployments[n]))
		}
	}
	for _, named := range found.namedReleases(state, namespace) {
		release, err := i.readRelease(named)
		if err != nil {
			return Found{}, err
		}
		found.Releases = append(found.Releases, release)
	}
	return found, nil
}

const (
	controllerKind = "Deployment"
	// controllerLabel is what Karpenter's chart labels it with.
	controllerLabel = "app.kubernetes.io/name=karpenter"
)

func (i *Installer) list(ctx context.Context, resource schema.GroupVersionResource, selector string) ([]metav1.PartialObjectMetadata, error) {
	list, err := i.objects.Resource(resource).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// ChartLabel says of an object which chart it was made from, as name-version.
const ChartLabel = "helm.sh/chart"

// VersionIn is the version in a ChartLabel, where that names Karpenter's main chart.
func VersionIn(chart string) (string, bool) {
	version, ok := strings.CutPrefix(chart, ControllerChart+"-")
	return unlabel(version), ok
}

func foundObject(kind string, object metav1.Object) FoundObject {
	labels := object.GetLabels()
	version := strings.TrimPrefix(labels["app.kubernetes.io/version"], "v")
	if of, ok := VersionIn(labels[ChartLabel]); ok {
		version = of
	}
	return FoundObject{Kind: kind, Namespace: object.GetNamespace(), Name: object.GetName(), Version: version, Owner: OwnerOf(object)}
}

// namedReleases are the releases of somebody else's, by their Secrets in our
// namespace and by what objects say of themselves, in order.
func (f Found) namedReleases(state State, namespace string) []FoundRelease {
	var named []FoundRelease
	add := func(one FoundRelease) {
		known := func(r FoundRelease) bool { return r.Name == one.Name && r.Namespace == one.Namespace }
		if !slices.ContainsFunc(named, known) {
			named = append(named, one)
		}
	}
	for _, release := range []Release{state.CRDs, state.Controller} {
		if release.Foreign {
			add(FoundRelease{Name: release.Name, Namespace: namespace, Revision: release.Revision})
		}
	}
	for _, object := range slices.Concat(f.CRDs, f.Controllers) {
		if object.Owner.Kind == releaseKind {
			add(FoundRelease{Name: object.Owner.Name, Namespace: object.Owner.Namespace})
		}
	}
	return named
}

// readRelease fills in what the last revision says. The daemon may read those of
// its own namespace alone, and a revision may be gone or broken: then the name
// has to do.
func (i *Installer) readRelease(named FoundRelease) (FoundRelease, error) {
	helm, err := newHelm(i.config, named.Namespace, i.options.Logger)
	if err != nil {
		return FoundRelease{}, err
	}
	history, err := helm.readable(named.Name)
	if apierrors.IsForbidden(err) {
		return named, nil
	}
	if err != nil {
		return FoundRelease{}, err
	}
	last := newest(history)
	if last == nil {
		return named, nil
	}
	named.Revision, named.Values = last.Version, last.Config
	if last.Chart != nil && last.Chart.Metadata != nil {
		named.Chart, named.Version = last.Chart.Metadata.Name, last.Chart.Metadata.Version
	}
	return named, nil
}

// Release is the one of a name in a namespace, if there is one.
func (f Found) Release(name, namespace string) (FoundRelease, bool) {
	at := slices.IndexFunc(f.Releases, func(r FoundRelease) bool { return r.Name == name && r.Namespace == namespace })
	if at < 0 {
		return FoundRelease{}, false
	}
	return f.Releases[at], true
}

// Version of the controller that is installed in a namespace: of its release, or
// as its Deployment says. Empty where there is none.
func (f Found) Version(namespace string) string {
	if release, ok := f.Release(ControllerChart, namespace); ok && release.Version != "" {
		return release.Version
	}
	for _, controller := range f.Controllers {
		if controller.Namespace == namespace {
			return controller.Version
		}
	}
	return ""
}

// Nothing says that there is nothing of somebody else's.
func (f Found) Nothing() bool { return len(f.Releases)+len(f.CRDs)+len(f.Controllers) == 0 }
