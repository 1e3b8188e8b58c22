package survey

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/provision/owners"
)

// Found is what a cluster has of Karpenter that plumbline has not installed.
type Found struct {
	Releases []Release `json:"releases"`
	// CRDs are Karpenter's; Controllers are Deployments of its controller, in any namespace.
	CRDs        []Object `json:"crds"`
	Controllers []Object `json:"controllers"`
}

// Release is a Helm release that plumbline has not made, at its last revision.
type Release struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	// Revision, Chart and Version are empty if its Secrets cannot be read.
	Revision int    `json:"revision,omitempty"`
	Chart    string `json:"chart,omitempty"`
	Version  string `json:"version,omitempty"`
	// Values are the values that were set for it.
	Values map[string]any `json:"-"`
}

// String is namespace/name.
func (r Release) String() string { return r.Namespace + "/" + r.Name }

// Object is an object of Karpenter in the cluster.
type Object struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Version of Karpenter in its labels; empty if they contain none.
	Version string       `json:"version,omitempty"`
	Owner   owners.Owner `json:"owner"`
}

// String returns the object's name for messages.
func (o Object) String() string {
	if o.Namespace == "" {
		return o.Kind + " " + o.Name
	}
	return fmt.Sprintf("%s %s/%s", o.Kind, o.Namespace, o.Name)
}

// Listed is what was read from a cluster.
type Listed struct {
	// Namespace of both releases.
	Namespace string
	// Foreign are the releases with the names of the two charts there that plumbline has not made, with their last
	// revision.
	Foreign map[string]int
	// CRDs of the cluster, and Deployments of Karpenter's controller in any namespace.
	CRDs, Deployments []metav1.PartialObjectMetadata
}

// ServedByEKS returns the names of Karpenter's CRDs that EKS keeps up to date for Auto Mode, given all CRDs of a cluster.
// plumbline neither adopts nor writes nor deletes them.
func ServedByEKS(crds []metav1.PartialObjectMetadata) []string {
	autoMode := slices.ContainsFunc(crds, func(crd metav1.PartialObjectMetadata) bool { return crd.Name == owners.AutoModeCRD })
	var names []string
	for n := range crds {
		if charts.KarpenterCRD(crds[n].Name) && owners.ServedByEKS(&crds[n], autoMode) {
			names = append(names, crds[n].Name)
		}
	}
	slices.Sort(names)
	return names
}

// Find selects what belongs to Karpenter and was not installed by plumbline. For releases in other namespaces it knows
// only the names.
func Find(l Listed) Found {
	// An object of one of our releases is ours, even if the release has lost its history.
	ours := func(release string, object metav1.Object) bool {
		_, foreign := l.Foreign[release]
		return !foreign && owners.Of(object).IsRelease(release, l.Namespace)
	}
	found := Found{Releases: []Release{}, CRDs: []Object{}, Controllers: []Object{}}
	served := ServedByEKS(l.CRDs)
	for n := range l.CRDs {
		if charts.KarpenterCRD(l.CRDs[n].Name) && !ours(charts.CRDChart, &l.CRDs[n]) && !slices.Contains(served, l.CRDs[n].Name) {
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

// releasesIn returns the foreign releases, from their Secrets in our namespace and from the marks on objects.
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

// ChartLabel contains the chart that an object was made from, as name-version.
const ChartLabel = "helm.sh/chart"

// VersionIn returns the version in a ChartLabel, if it is that of Karpenter's main chart.
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

// Release returns the release with a name in a namespace, if there is one.
func (f Found) Release(name, namespace string) (Release, bool) {
	at := slices.IndexFunc(f.Releases, func(r Release) bool { return r.Name == name && r.Namespace == namespace })
	if at < 0 {
		return Release{}, false
	}
	return f.Releases[at], true
}

// Version returns the version of the controller in a namespace: that of its release, or of its Deployment. It is empty
// if there is none.
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

// Empty reports whether nothing was found.
func (f Found) Empty() bool { return len(f.Releases)+len(f.CRDs)+len(f.Controllers) == 0 }

// Check returns why the charts of a version cannot be installed in a namespace with what was found. If adopt is set,
// that is adopted, unless another tool still reconciles it, or it is not where both releases belong. Errors:
// *ReconciledError, *ElsewhereError, *OtherChartError, *NewerError, *ForeignReleaseError, *ForeignObjectsError.
func (f Found) Check(namespace, version string, adopt bool) error {
	objects := slices.Concat(f.CRDs, f.Controllers)
	if err := reconciled(objects); err != nil {
		return err
	}
	for _, object := range objects {
		if err := elsewhere(object, namespace); err != nil {
			return err
		}
	}
	for _, release := range f.Releases {
		if release.Chart != "" && release.Chart != release.Name {
			return &OtherChartError{Release: release.String(), Chart: release.Chart}
		}
	}
	if !adopt {
		return f.foreign(namespace)
	}
	_, released := f.Release(charts.CRDChart, namespace)
	if runs := f.Version(namespace); !released && len(f.CRDs) > 0 && charts.Ahead(runs, version) {
		return &NewerError{Runs: runs, Version: version}
	}
	return nil
}

// reconciled returns the first owner that would revert a change, with all its objects.
func reconciled(objects []Object) error {
	var refusal *ReconciledError
	for _, object := range objects {
		switch {
		case !object.Owner.Reconciles():
		case refusal == nil:
			refusal = &ReconciledError{Owner: object.Owner, Objects: []string{object.String()}}
		case object.Owner == refusal.Owner:
			refusal.Objects = append(refusal.Objects, object.String())
		}
	}
	if refusal == nil {
		return nil // a nil pointer in an interface would not be nil
	}
	return refusal
}

// elsewhere checks that an object belongs to one of our two releases, or to none, and that no controller runs in
// another namespace.
func elsewhere(object Object, namespace string) error {
	owner := object.Owner
	of := owner.Kind == owners.ReleaseKind
	name := !of || owner.Name == charts.ControllerChart || owner.Name == charts.CRDChart
	switch {
	case !name:
		return &ElsewhereError{Object: object.String(), Owner: owner}
	case of && owner.Namespace != namespace:
		return &ElsewhereError{Object: object.String(), Owner: owner, Namespace: owner.Namespace}
	case object.Kind == controllerKind && object.Namespace != namespace:
		return &ElsewhereError{Object: object.String(), Owner: owner, Namespace: object.Namespace}
	case object.Kind == controllerKind && object.Name != charts.ControllerChart:
		return &ElsewhereError{Object: object.String(), Owner: owner}
	}
	return nil
}

// foreign refuses everything that was found, because adoption was not requested.
func (f Found) foreign(namespace string) error {
	for _, name := range []string{charts.CRDChart, charts.ControllerChart} {
		if release, ok := f.Release(name, namespace); ok {
			return &ForeignReleaseError{Release: release.Name, Revision: release.Revision}
		}
	}
	if objects := slices.Concat(f.CRDs, f.Controllers); len(objects) > 0 {
		return newForeignObjectsError(objects)
	}
	return nil
}

// CheckWrite returns why a release must not overwrite existing objects: a tool reconciles them, or they belong to
// another release or to none and adopt is not set. Errors: *ReconciledError, *ElsewhereError, *ForeignObjectsError.
func CheckWrite(existing []Object, release, namespace string, adopt bool) error {
	if err := reconciled(existing); err != nil {
		return err
	}
	var foreign []Object
	for _, object := range existing {
		if object.Owner.IsRelease(release, namespace) {
			continue
		}
		if err := elsewhere(object, namespace); adopt && err != nil {
			return err
		}
		foreign = append(foreign, object)
	}
	if len(foreign) > 0 && !adopt {
		return newForeignObjectsError(foreign)
	}
	return nil
}

// missingFields returns the fields of its manifest that a live object does not have, or has with another value: those
// that an upgrade to the same chart would write. Typed objects are compared, because they write a quantity in only one
// way.
func missingFields(wanted, live runtime.Object) ([]fieldpath.Path, error) {
	if _, untyped := wanted.(runtime.Unstructured); untyped {
		return nil, nil // Helm compares these only with the last manifest, and would write nothing
	}
	wants, err := written(wanted)
	if err != nil {
		return nil, err
	}
	has, err := written(live)
	if err != nil {
		return nil, err
	}
	return missing(nil, wants, has), nil
}

// missing returns the wanted fields that are missing or differ. Fields that others add do not count, nor do elements
// that others add to a list whose elements have names, such as containers and variables. Any other list counts as a
// whole.
func missing(at fieldpath.Path, wanted, live any) []fieldpath.Path {
	switch wanted := wanted.(type) {
	case map[string]any:
		if live, ok := live.(map[string]any); ok {
			return missingOfMap(at, wanted, live)
		}
	case []any:
		if live, ok := live.([]any); ok {
			return missingOfList(at, wanted, live)
		}
	default:
		if reflect.DeepEqual(wanted, live) {
			return nil
		}
	}
	return []fieldpath.Path{at}
}

func missingOfMap(at fieldpath.Path, wanted, live map[string]any) []fieldpath.Path {
	var found []fieldpath.Path
	for key, value := range wanted {
		if value != nil {
			found = append(found, missing(below(at, fieldpath.PathElement{FieldName: &key}), value, live[key])...)
		}
	}
	return found
}

func missingOfList(at fieldpath.Path, wanted, live []any) []fieldpath.Path {
	names := named(live)
	if names == nil && len(wanted) != len(live) {
		return []fieldpath.Path{at}
	}
	var found []fieldpath.Path
	for n, element := range wanted {
		switch {
		case names != nil:
			key := value.FieldList{{Name: "name", Value: value.NewValueInterface(name(element))}}
			found = append(found, missing(below(at, fieldpath.PathElement{Key: &key}), element, names[name(element)])...)
		case len(missing(at, element, live[n])) > 0:
			return []fieldpath.Path{at}
		}
	}
	return found
}

func below(at fieldpath.Path, element fieldpath.PathElement) fieldpath.Path {
	return append(at.Copy(), element)
}

// named returns the elements of a list by name; nil if one has no name.
func named(list []any) map[string]any {
	found := map[string]any{}
	for _, value := range list {
		if name(value) == "" {
			return nil
		}
		found[name(value)] = value
	}
	return found
}

func name(value any) string {
	fields, _ := value.(map[string]any)
	name, _ := fields["name"].(string)
	return name
}

// written returns an object without fields that no client writes: its status and its creation time. A typed object has
// both, empty.
func written(object runtime.Object) (map[string]any, error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, err
	}
	unstructured.RemoveNestedField(fields, "status")
	unstructured.RemoveNestedField(fields, "metadata", "creationTimestamp")
	return fields, nil
}

// waysOut are the two options for what plumbline has not installed.
const waysOut = "set adopt: true in plumbline.yaml to adopt what exists, as it is, " +
	"or management: External to leave the charts to the tool that installed them"

// ReconciledError reports that another tool still reconciles objects of the charts: each would revert the other.
type ReconciledError struct {
	Owner   owners.Owner
	Objects []string
}

// Error names the owner.
func (e *ReconciledError) Error() string {
	return fmt.Sprintf("%s reconciles %s, which is left unchanged: set management: External in plumbline.yaml to leave the charts to it, "+
		"or make it release them first, without deleting anything, and set adopt: true; NodePools that it applies are handed over with %s, or stay with it if you remove them from Git",
		e.Owner, strings.Join(e.Objects, ", "), e.handOver())
}

// handOver returns the command that takes definitions over from the owner's tool.
func (e *ReconciledError) handOver() string {
	if e.Owner.Tool == "Argo CD" {
		return "plumbline adopt --from argocd"
	}
	return "plumbline adopt --from flux"
}

// ElsewhereError reports that Karpenter was installed under another name or in another namespace than our releases.
type ElsewhereError struct {
	Object string
	Owner  owners.Owner
	// Namespace that would be right; empty if none would be.
	Namespace string
}

// Error names what to set.
func (e *ElsewhereError) Error() string {
	text := fmt.Sprintf("%s (%s) already belongs to Karpenter, and a second one would be installed beside it: ", e.Object, e.Owner)
	if e.Namespace != "" {
		return text + fmt.Sprintf("set namespace: %s in plumbline.yaml, with adopt: true, or management: External", e.Namespace)
	}
	return text + fmt.Sprintf("only releases named %s and %s can be adopted: set management: External in plumbline.yaml",
		charts.CRDChart, charts.ControllerChart)
}

// OtherChartError reports that a release of our name was made from another chart: an upgrade to ours would delete its
// other objects, such as NodePools.
type OtherChartError struct {
	Release, Chart string
}

// Error names the chart.
func (e *OtherChartError) Error() string {
	return fmt.Sprintf("Helm release %s was made from chart %s, which is not Karpenter's own: adopting it would delete its other objects: "+
		"set management: External in plumbline.yaml", e.Release, e.Chart)
}

// NewerError reports that CRDs without a release are apparently newer than Git's version: they would be downgraded.
type NewerError struct {
	Runs, Version string
}

// Error names what to do first.
func (e *NewerError) Error() string {
	return fmt.Sprintf("karpenter %s runs here with CRDs of no Helm release, and CRDs are never downgraded: set version: %s in plumbline.yaml to adopt them, and change it to %s in a later commit",
		e.Runs, e.Runs, e.Version)
}

// ForeignReleaseError reports that a release was not made by plumbline.
type ForeignReleaseError struct {
	Release  string
	Revision int
}

// Error names the options.
func (e *ForeignReleaseError) Error() string {
	return fmt.Sprintf("Helm release %s (revision %d) was not installed by plumbline and is left unchanged: %s",
		e.Release, e.Revision, waysOut)
}

// ForeignObjectsError reports that objects of the chart exist and do not belong to this release.
type ForeignObjectsError struct {
	Objects []string
}

func newForeignObjectsError(objects []Object) *ForeignObjectsError {
	e := &ForeignObjectsError{}
	for _, object := range objects {
		e.Objects = append(e.Objects, fmt.Sprintf("%s (%s)", object, object.Owner))
	}
	return e
}

// Error names the objects.
func (e *ForeignObjectsError) Error() string {
	return fmt.Sprintf("%s: not part of this Helm release, and left unchanged: %s", strings.Join(e.Objects, ", "), waysOut)
}

// ValuesNotIn returns the paths of a release's values that are missing or different in Git, sorted, without the
// cluster's name, which plumbline sets.
func (r Release) ValuesNotIn(git map[string]any) []string {
	var paths []string
	var walk func(path string, has, git any)
	walk = func(path string, has, git any) {
		fields, ok := has.(map[string]any)
		if !ok {
			if asJSON(has) != asJSON(git) {
				paths = append(paths, path)
			}
			return
		}
		inGit, _ := git.(map[string]any)
		for key, value := range fields {
			walk(strings.TrimPrefix(path+"."+key, "."), value, inGit[key])
		}
	}
	walk("", r.Values, git)
	paths = slices.DeleteFunc(paths, func(path string) bool { return path == "settings.clusterName" })
	slices.Sort(paths)
	return paths
}

// asJSON encodes a value, so that numbers of different types are equal.
func asJSON(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return string(text)
}
