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
	slices.SortFunc(crds, func(a, b *apiextensionsv1.CustomResourceDefinition) int { return cmp.Compare(a.Name, b.Name) })
	return crds, nil
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

// template returns the documents that a chart renders to, in a stable order.
func (c *Charts) template(name string, load func() (*chart.Chart, error), namespace string, values map[string]any) ([]string, error) {
	loaded, err := load()
	if err != nil {
		return nil, err
	}
	options := chartutil.ReleaseOptions{Name: name, Namespace: namespace, Revision: 1, IsInstall: true}
	top, err := chartutil.ToRenderValues(loaded, values, options, chartutil.DefaultCapabilities)
	if err != nil {
		return nil, &MalformedError{Chart: name, Version: c.Version, Err: err}
	}
	files, err := engine.Engine{}.Render(loaded, top)
	if err != nil {
		return nil, &MalformedError{Chart: name, Version: c.Version, Err: err}
	}
	var documents []string
	for _, file := range slices.Sorted(maps.Keys(files)) {
		if strings.HasSuffix(file, "NOTES.txt") {
			continue
		}
		documents = append(documents, split(files[file])...)
	}
	return documents, nil
}

// split cuts a YAML stream into its documents, in order.
func split(stream string) []string {
	parts := releaseutil.SplitManifests(stream)
	keys := slices.Collect(maps.Keys(parts))
	slices.SortFunc(keys, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
	var documents []string
	for _, key := range keys {
		if object := map[string]any{}; yaml.Unmarshal([]byte(parts[key]), &object) == nil && len(object) == 0 {
			continue
		}
		documents = append(documents, parts[key])
	}
	return documents
}
