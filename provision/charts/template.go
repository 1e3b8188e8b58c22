package charts

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/releaseutil"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

const crdKind = "CustomResourceDefinition"

// CRDs renders the CRD chart's templates, sorted by name. It needs no cluster.
func (c *Charts) CRDs() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	objects, err := c.template(CRDChart, c.loadCRD, "kube-system", crdValues())
	if err != nil {
		return nil, err
	}
	var crds []*apiextensionsv1.CustomResourceDefinition
	for _, document := range objects {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.Unmarshal([]byte(document), crd); err != nil {
			return nil, &MalformedError{Chart: CRDChart, Version: c.Version, Err: fmt.Errorf("read a CRD that it renders: %w", err)}
		}
		if crd.Kind != crdKind {
			return nil, &MalformedError{Chart: CRDChart, Version: c.Version, Err: fmt.Errorf("it renders a %s, and should render CRDs alone", crd.Kind)}
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

// Values are the defaults of the main chart: its values.yaml.
func (c *Charts) Values() (map[string]any, error) {
	loaded, err := c.loadController()
	if err != nil {
		return nil, err
	}
	return loaded.Values, nil
}

// Controller renders the main chart without a cluster, CRDs left out.
func (c *Charts) Controller(into Installation) ([]*unstructured.Unstructured, error) {
	values, err := into.values()
	if err != nil {
		return nil, err
	}
	documents, err := c.template(ControllerChart, c.loadController, into.Namespace, values)
	if err != nil {
		return nil, err
	}
	var objects []*unstructured.Unstructured
	for _, document := range documents {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
			return nil, &MalformedError{Chart: ControllerChart, Version: c.Version, Err: fmt.Errorf("read an object that it renders: %w", err)}
		}
		objects = append(objects, object)
	}
	return objects, nil
}

// template returns the documents that a chart renders to, in the order in which
// Helm would write them.
func (c *Charts) template(name string, load func() (*chart.Chart, error), namespace string, values map[string]any) ([]string, error) {
	loaded, err := load()
	if err != nil {
		return nil, err
	}
	return render(loaded, name, namespace, values)
}

// render needs no cluster: the chart sees the versions that Helm was built with.
func render(loaded *chart.Chart, name, namespace string, values map[string]any) ([]string, error) {
	fail := func(err error) error {
		return &RenderError{Chart: name, Version: loaded.Metadata.Version, Err: err}
	}
	options := chartutil.ReleaseOptions{Name: name, Namespace: namespace, Revision: 1, IsInstall: true}
	top, err := chartutil.ToRenderValues(loaded, values, options, chartutil.DefaultCapabilities)
	if err != nil {
		return nil, fail(err)
	}
	files, err := engine.Engine{}.Render(loaded, top)
	if err != nil {
		return nil, fail(err)
	}
	maps.DeleteFunc(files, func(name, _ string) bool { return strings.HasSuffix(name, "NOTES.txt") })
	_, manifests, err := releaseutil.SortManifests(files, nil, releaseutil.InstallOrder)
	if err != nil {
		return nil, fail(err)
	}
	var documents []string
	for _, manifest := range manifests {
		documents = append(documents, manifest.Content)
	}
	return documents, nil
}

// split cuts a manifest into its documents.
func split(manifest string) []string {
	return slices.Collect(maps.Values(releaseutil.SplitManifests(manifest)))
}
