package charts

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/Masterminds/semver/v3"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/releaseutil"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/plumbline-dev/plumbline/confine"
	"github.com/plumbline-dev/plumbline/confine/weigh"
)

// Charts are the two charts of one version. A chart is read and checked again at each use; only the rendered CRD chart
// is kept.
type Charts struct {
	Version string
	// Repository they were resolved from, as in the Ref.
	Repository string
	// CRDDigest and Digest are those of the charts' OCI manifests, of their archives if they come from elsewhere, and
	// of the files of an unpacked chart.
	CRDDigest, Digest string

	// confined renders them; if nil, they are rendered in this process.
	confined *confine.Runner

	mu   sync.Mutex
	crds Documents // the rendered CRD chart, once it was requested

	readCRD, readController func() ([]byte, error)
	loadCRD, loadController func() (*chart.Chart, error)
}

// FromFolder loads both charts, unpacked, from dir/karpenter-crd and dir/karpenter. They have no digest and must not be
// installed.
func FromFolder(dir string) (*Charts, error) {
	c := &Charts{
		loadCRD:        func() (*chart.Chart, error) { return loader.LoadDir(filepath.Join(dir, CRDChart)) },
		loadController: func() (*chart.Chart, error) { return loader.LoadDir(filepath.Join(dir, ControllerChart)) },
	}
	main, err := c.loadController()
	if err != nil {
		return nil, fmt.Errorf("read chart %s in %s: %w", ControllerChart, dir, err)
	}
	c.Version = main.Metadata.Version
	return c, nil
}

// open returns a function that unpacks a chart and checks that it is the requested one.
func open(name, version string, read func() ([]byte, error)) func() (*chart.Chart, error) {
	return func() (*chart.Chart, error) {
		archive, err := read()
		if err != nil {
			return nil, err
		}
		if err := weighArchive(archive); err != nil {
			return nil, &MalformedError{Chart: name, Version: version, Err: err}
		}
		loaded, err := loader.LoadArchive(bytes.NewReader(archive))
		if err != nil {
			return nil, &MalformedError{Chart: name, Version: version, Err: err}
		}
		if err := identify(loaded, name, version); err != nil {
			return nil, &MalformedError{Chart: name, Version: version, Err: err}
		}
		return loaded, nil
	}
}

// identify checks that both charts have the same version: Chart.yaml must contain what the tag says.
func identify(c *chart.Chart, name, version string) error {
	if c.Metadata.Name != name {
		return fmt.Errorf("its Chart.yaml names it %q", c.Metadata.Name)
	}
	want, err := semver.StrictNewVersion(version)
	if err != nil {
		return fmt.Errorf("parse version %q: %w", version, err)
	}
	got, err := semver.NewVersion(c.Metadata.Version)
	if err != nil {
		return fmt.Errorf("parse the version in its Chart.yaml: %w", err)
	}
	if !got.Equal(want) || got.Metadata() != want.Metadata() {
		return fmt.Errorf("its Chart.yaml says version %s", c.Metadata.Version)
	}
	return nil
}

// Chart is one of the two charts, with the values to render it with.
type Chart struct {
	// Name is CRDChart or ControllerChart.
	Name, Version string
	// Digest is that of Charts; empty for a chart from FromFolder.
	Digest string
	Values map[string]any
	// Load reads the chart and checks it. Each call returns another copy.
	Load func() (*chart.Chart, error)

	// identity is what the fingerprint is computed from: the values, unless a Secret contains some of them.
	identity any
}

// Chart returns the chart of a name with its values for an installation; the CRD chart uses none of them. Errors:
// *contradiction.Error, *ValuesError.
func (c *Charts) Chart(name string, into Installation) (Chart, error) {
	if name == CRDChart {
		values := crdValues()
		return Chart{Name: name, Version: c.Version, Digest: c.CRDDigest, Values: values, Load: c.loadCRD, identity: values}, nil
	}
	values, err := into.values()
	if err != nil {
		return Chart{}, err
	}
	identity, err := into.identity(values)
	return Chart{Name: name, Version: c.Version, Digest: c.Digest, Values: values, Load: c.loadController, identity: identity}, err
}

// Fingerprint returns 32 characters that are equal for equal values. It does not depend on the content of Secrets.
func (c Chart) Fingerprint() (string, error) {
	if c.identity == nil {
		return "", errors.New("a chart that was not made by Charts has no fingerprint")
	}
	sum, err := fingerprint(c.identity)
	if err != nil {
		return "", fmt.Errorf("chart %s %s: %w", c.Name, c.Version, err)
	}
	return sum, nil
}

// CRDs renders the CRD chart's templates, sorted by name. It needs no cluster.
func (c *Charts) CRDs(ctx context.Context) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	objects, err := c.renderedCRDs(ctx)
	if err != nil {
		return nil, err
	}
	var crds []*apiextensionsv1.CustomResourceDefinition
	for _, document := range objects {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := document.decode(crd); err != nil {
			return nil, &MalformedError{Chart: CRDChart, Version: c.Version, Err: err}
		}
		if crd.Kind != crdKind {
			return nil, &MalformedError{
				Chart: CRDChart, Version: c.Version, Err: fmt.Errorf("it renders a %s, and should render only CRDs", crd.Kind),
			}
		}
		crds = append(crds, crd)
	}
	if len(crds) == 0 {
		return nil, &MalformedError{Chart: CRDChart, Version: c.Version, Err: fmt.Errorf("it renders no CRD")}
	}
	if foreign := foreignCRDs(crds); len(foreign) > 0 {
		return nil, &ForeignCRDsError{Version: c.Version, Names: foreign}
	}
	slices.SortFunc(crds, func(a, b *apiextensionsv1.CustomResourceDefinition) int { return cmp.Compare(a.Name, b.Name) })
	return crds, nil
}

// renderedCRDs renders the CRD chart once per Charts, which live for one reconcile that needs the CRDs several times.
func (c *Charts) renderedCRDs(ctx context.Context) (Documents, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.crds != nil {
		return c.crds, nil
	}
	var err error
	c.crds, err = c.template(ctx, CRDChart, Installation{Namespace: "kube-system"})
	return c.crds, err
}

// Values returns the defaults of the main chart: its values.yaml.
func (c *Charts) Values() (map[string]any, error) {
	loaded, err := c.loadController()
	if err != nil {
		return nil, err
	}
	return loaded.Values, nil
}

// Controller renders the main chart without a cluster, and without its CRDs.
func (c *Charts) Controller(ctx context.Context, into Installation) ([]*unstructured.Unstructured, error) {
	documents, err := c.template(ctx, ControllerChart, into)
	if err != nil {
		return nil, err
	}
	objects, err := documents.Objects()
	if err != nil {
		return nil, &MalformedError{Chart: ControllerChart, Version: c.Version, Err: err}
	}
	return objects, nil
}

// template renders a chart with Helm's default capabilities.
func (c *Charts) template(ctx context.Context, name string, into Installation) (Documents, error) {
	one, err := c.Chart(name, into)
	if err != nil {
		return nil, err
	}
	loaded, err := one.Load()
	if err != nil {
		return nil, err
	}
	return Render(ctx, c.confined, loaded, Rendering{Release: name, Namespace: into.Namespace, Revision: 1, Values: one.Values})
}

// Rendering is everything that a chart is rendered with. It is plain data: no template can access the cluster, the
// network or the environment.
type Rendering struct {
	Release, Namespace string
	// Revision of the release; Upgrade reports whether it is not the first.
	Revision int
	Upgrade  bool
	Values   map[string]any
	Cluster  Capabilities
	// SkipHooks ignores a chart's hooks, for a revision that was installed with them; otherwise a chart with hooks is
	// refused.
	SkipHooks bool
}

// Capabilities are what templates can query about the cluster. The zero value stands for those that Helm was built
// with.
type Capabilities struct {
	// Version of Kubernetes, with its Major and Minor as the API server reports them.
	Version, Major, Minor string
	// APIs are group/version and group/version/Kind.
	APIs []string
}

func (c Capabilities) helm() *chartutil.Capabilities {
	if c.Version == "" {
		return chartutil.DefaultCapabilities
	}
	return &chartutil.Capabilities{
		KubeVersion: chartutil.KubeVersion{Version: c.Version, Major: c.Major, Minor: c.Minor},
		APIVersions: c.APIs,
		HelmVersion: chartutil.DefaultCapabilities.HelmVersion,
	}
}

// renderChart renders a chart and returns the documents without notes, in the order in which Helm writes them. It
// modifies the chart.
func renderChart(loaded *chart.Chart, with Rendering) (Documents, *failure) {
	options := chartutil.ReleaseOptions{
		Name: with.Release, Namespace: with.Namespace, Revision: with.Revision,
		IsInstall: !with.Upgrade, IsUpgrade: with.Upgrade,
	}
	cluster := with.Cluster.helm()
	if wants := loaded.Metadata.KubeVersion; wants != "" && !chartutil.IsCompatibleRange(wants, cluster.KubeVersion.String()) {
		return nil, &failure{
			Kind: failedVersion, Words: fmt.Sprintf("it is for Kubernetes %s, and the cluster has %s", wants, cluster.KubeVersion.String()),
		}
	}
	if err := chartutil.ProcessDependenciesWithMerge(loaded, with.Values); err != nil {
		return nil, &failure{Kind: failedDependencies}
	}
	if !selfContained(loaded) {
		return nil, &failure{Kind: failedSchema}
	}
	top, err := chartutil.ToRenderValues(loaded, with.Values, options, cluster)
	if err != nil {
		return nil, &failure{Kind: failedValues, Words: schemaProblem(err)}
	}
	asked := &noCluster{}
	files, err := engine.RenderWithClientProvider(loaded, top, asked)
	if err != nil {
		f := &failure{Kind: failedTemplate}
		if asked.called {
			f.Kind = failedLookup
		}
		f.File, f.Line = placeOf(err, templates(loaded))
		return nil, f
	}
	for name := range files {
		if checkName(name) != nil { // a chart within it has another name than its folder
			return nil, &failure{Kind: failedName}
		}
		if strings.HasSuffix(name, "NOTES.txt") {
			delete(files, name)
		}
	}
	hooks, sorted, err := releaseutil.SortManifests(files, nil, releaseutil.InstallOrder)
	if err != nil {
		f := &failure{Kind: failedYAML}
		f.File, _ = placeOf(err, templates(loaded))
		return nil, f
	}
	if len(hooks) > 0 && !with.SkipHooks {
		return nil, &failure{Kind: failedHook, File: hooks[0].Path}
	}
	documents := make(Documents, 0, len(sorted))
	for _, one := range sorted {
		documents = append(documents, Document{Source: one.Name, Text: one.Content})
	}
	return documents, nil
}

// templates returns the names of a chart's templates as in Helm.
func templates(c *chart.Chart) map[string]bool {
	names := map[string]bool{}
	for _, one := range c.Templates {
		if one != nil {
			names[path.Join(c.ChartFullPath(), one.Name)] = true
		}
	}
	for _, below := range c.Dependencies() {
		for name := range templates(below) {
			names[name] = true
		}
	}
	return names
}

const crdKind = "CustomResourceDefinition"

// capacityBuffers is the only CRD that Karpenter releases in another project's group: cluster-autoscaler's, which has
// other kinds as well.
const capacityBuffers = "capacitybuffers.autoscaling.x-k8s.io"

// KarpenterCRD reports whether Karpenter releases the CRD of this name.
func KarpenterCRD(name string) bool {
	_, group, _ := strings.Cut(name, ".")
	return KarpenterGroup(group) || name == capacityBuffers
}

// KarpenterGroup reports whether all kinds of an API group are Karpenter's.
func KarpenterGroup(group string) bool {
	return group == "karpenter.sh" || group == "karpenter.k8s.aws"
}

// karpenterCRD is KarpenterCRD for a CRD whose name may contradict its group.
func karpenterCRD(crd *apiextensionsv1.CustomResourceDefinition) bool {
	if KarpenterGroup(crd.Spec.Group) {
		return crd.Name == crd.Spec.Names.Plural+"."+crd.Spec.Group
	}
	return crd.Name == capacityBuffers
}

// foreignCRDs returns the sorted names of those that are not Karpenter's.
func foreignCRDs(crds []*apiextensionsv1.CustomResourceDefinition) []string {
	var names []string
	for _, crd := range crds {
		if !karpenterCRD(crd) {
			names = append(names, crd.Name)
		}
	}
	slices.Sort(names)
	return names
}

// Document is one YAML document of a rendered chart.
type Document struct {
	// Source is the template that it comes from.
	Source, Text string
}

// Documents are a rendered chart, in the order in which Helm writes them.
type Documents []Document

// Manifest returns the text that Helm stores in a release and compares with.
func (d Documents) Manifest() string {
	var text strings.Builder
	for _, one := range d {
		fmt.Fprintf(&text, "---\n# Source: %s\n%s\n", one.Source, one.Text)
	}
	return text.String()
}

// Objects decodes the documents. A template that renders only to a comment has no object. The error contains no text of
// a document.
func (d Documents) Objects() ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	for _, one := range d {
		object := &unstructured.Unstructured{}
		if err := one.decode(&object.Object); err != nil {
			return nil, err
		}
		if unfit := weigh.Quantities(object.Object); len(unfit) > 0 {
			return nil, fmt.Errorf("%s renders to a quantity that is too much to read: %s", one.Source, unfit[0].Path)
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
	return objects, nil
}

// WithoutCRDs returns the documents except the CRDs of some names.
func (d Documents) WithoutCRDs(names []string) Documents {
	if len(names) == 0 {
		return d
	}
	return slices.DeleteFunc(slices.Clone(d), func(one Document) bool {
		crd := &metav1.PartialObjectMetadata{}
		return one.decode(crd) == nil && crd.Kind == crdKind && slices.Contains(names, crd.Name)
	})
}

// decode decodes a document. Its error contains none of the document's text.
func (d Document) decode(into any) error {
	if err := weigh.YAML([]byte(d.Text)); err != nil {
		return fmt.Errorf("%s renders to too much: %w", d.Source, err)
	}
	if err := yaml.Unmarshal([]byte(d.Text), into); err != nil {
		return fmt.Errorf("%s renders to something that is not an object", d.Source)
	}
	return nil
}

// Ahead reports whether the CRDs' version is newer than the wanted one. Newer CRDs stay when the controller is rolled
// back: an older schema would drop fields that the newer one has accepted, and an older CRD could lose a stored
// version.
func Ahead(crds, wanted string) bool {
	has, err := semver.NewVersion(crds)
	if err != nil {
		return false
	}
	wants, err := semver.NewVersion(wanted)
	return err == nil && has.GreaterThan(wants)
}

// Label returns a version as a label value or registry tag, which cannot contain a plus sign:
// https://helm.sh/docs/topics/registries/#oci-feature-deprecation-and-behavior-changes-with-v380
func Label(version string) string { return strings.ReplaceAll(version, "+", "_") }

// FromLabel returns the version from which Label made a label value. A semantic version has no underscore.
func FromLabel(label string) string { return strings.ReplaceAll(label, "_", "+") }
