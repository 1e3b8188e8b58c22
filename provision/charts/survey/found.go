package survey

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/provision/owners"
)

// Found is what a cluster has of Karpenter that plumbline has not installed.
type Found struct {
	Releases []Release `json:"releases"`
	// CRDs are Karpenter's; Controllers are Deployments of its controller, in any
	// namespace.
	CRDs        []Object `json:"crds"`
	Controllers []Object `json:"controllers"`
}

// Release is a Helm release that plumbline has not made, at its last revision.
type Release struct {
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
func (r Release) String() string { return r.Namespace + "/" + r.Name }

// Object is an object of Karpenter's in the cluster.
type Object struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Version of Karpenter that its labels name; empty where they name none.
	Version string       `json:"version,omitempty"`
	Owner   owners.Owner `json:"owner"`
}

// String is the object as messages name it.
func (o Object) String() string {
	if o.Namespace == "" {
		return o.Kind + " " + o.Name
	}
	return fmt.Sprintf("%s %s/%s", o.Kind, o.Namespace, o.Name)
}

// Listed is what a cluster has, as far as it was read.
type Listed struct {
	// Namespace of both releases.
	Namespace string
	// Foreign are the releases of the two charts' names there that plumbline has not
	// made, by name, with their last revision.
	Foreign map[string]int
	// CRDs of the cluster, and Deployments of Karpenter's controller in any namespace.
	CRDs, Deployments []metav1.PartialObjectMetadata
}

// Find picks out of what a cluster has what there is of Karpenter and was not installed
// by plumbline. Of releases in other namespaces it knows only the names.
func Find(l Listed) Found {
	// An object of one of our releases is ours, also where the release has lost its history.
	ours := func(release string, object metav1.Object) bool {
		_, foreign := l.Foreign[release]
		return !foreign && owners.Of(object).IsRelease(release, l.Namespace)
	}
	found := Found{Releases: []Release{}, CRDs: []Object{}, Controllers: []Object{}}
	for n := range l.CRDs {
		if charts.KarpenterCRD(l.CRDs[n].Name) && !ours(charts.CRDChart, &l.CRDs[n]) {
			found.CRDs = append(found.CRDs, ObjectOf(crdKind, &l.CRDs[n]))
		}
	}
	for n := range l.Deployments {
		if !ours(charts.ControllerChart, &l.Deployments[n]) {
			found.Controllers = append(found.Controllers, ObjectOf(controllerKind, &l.Deployments[n]))
		}
	}
	found.Releases = append(found.Releases, found.releasesIn(l)...)
	return found
}

// releasesIn are the foreign releases, by their Secrets in our namespace and by the
// marks on objects, in order.
func (f Found) releasesIn(l Listed) []Release {
	var named []Release
	add := func(one Release) {
		known := func(r Release) bool { return r.Name == one.Name && r.Namespace == one.Namespace }
		if !slices.ContainsFunc(named, known) {
			named = append(named, one)
		}
	}
	for _, name := range []string{charts.CRDChart, charts.ControllerChart} {
		if revision, foreign := l.Foreign[name]; foreign {
			add(Release{Name: name, Namespace: l.Namespace, Revision: revision})
		}
	}
	for _, object := range slices.Concat(f.CRDs, f.Controllers) {
		if object.Owner.Kind == owners.ReleaseKind {
			add(Release{Name: object.Owner.Name, Namespace: object.Owner.Namespace})
		}
	}
	return named
}

const (
	controllerKind = "Deployment"
	crdKind        = "CustomResourceDefinition"
)

// ChartLabel names the chart that an object was made from, as name-version.
const ChartLabel = "helm.sh/chart"

// VersionIn is the version in a ChartLabel, where that names Karpenter's main chart.
func VersionIn(chart string) (string, bool) {
	version, ok := strings.CutPrefix(chart, charts.ControllerChart+"-")
	return charts.FromLabel(version), ok
}

// ObjectOf describes an object of a kind.
func ObjectOf(kind string, object metav1.Object) Object {
	labels := object.GetLabels()
	version := strings.TrimPrefix(labels["app.kubernetes.io/version"], "v")
	if of, ok := VersionIn(labels[ChartLabel]); ok {
		version = of
	}
	return Object{Kind: kind, Namespace: object.GetNamespace(), Name: object.GetName(), Version: version, Owner: owners.Of(object)}
}

// Release is the one of a name in a namespace, if there is one.
func (f Found) Release(name, namespace string) (Release, bool) {
	at := slices.IndexFunc(f.Releases, func(r Release) bool { return r.Name == name && r.Namespace == namespace })
	if at < 0 {
		return Release{}, false
	}
	return f.Releases[at], true
}

// Version of the controller that is installed in a namespace: of its release, or
// as its Deployment says. Empty where there is none.
func (f Found) Version(namespace string) string {
	if release, ok := f.Release(charts.ControllerChart, namespace); ok && release.Version != "" {
		return release.Version
	}
	for _, controller := range f.Controllers {
		if controller.Namespace == namespace {
			return controller.Version
		}
	}
	return ""
}

// Empty says that nothing was found.
func (f Found) Empty() bool { return len(f.Releases)+len(f.CRDs)+len(f.Controllers) == 0 }
