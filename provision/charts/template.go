package charts

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/releaseutil"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/plumbline-dev/plumbline/confine/weigh"
)

const crdKind = "CustomResourceDefinition"

// CRDs renders the CRD chart's templates, sorted by name. It needs no cluster.
func (c *Charts) CRDs(ctx context.Context) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	objects, err := c.renderedCRDs(ctx)
	if err != nil {
		return nil, err
	}
	var crds []*apiextensionsv1.CustomResourceDefinition
	for _, document := range objects {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := unmarshal(document, crd); err != nil {
			return nil, &MalformedError{Chart: CRDChart, Version: c.Version, Err: err}
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

// renderedCRDs renders the CRD chart once for these Charts, which last for a pass: it is
// asked for several times in one.
func (c *Charts) renderedCRDs(ctx context.Context) ([]rendered, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.crds != nil {
		return c.crds, nil
	}
	var err error
	c.crds, err = c.template(ctx, CRDChart, c.loadCRD, "kube-system", crdValues())
	return c.crds, err
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
func (c *Charts) Controller(ctx context.Context, into Installation) ([]*unstructured.Unstructured, error) {
	values, err := into.values()
	if err != nil {
		return nil, err
	}
	documents, err := c.template(ctx, ControllerChart, c.loadController, into.Namespace, values)
	if err != nil {
		return nil, err
	}
	var objects []*unstructured.Unstructured
	for _, document := range documents {
		object := &unstructured.Unstructured{}
		if err := unmarshal(document, &object.Object); err != nil {
			return nil, &MalformedError{Chart: ControllerChart, Version: c.Version, Err: err}
		}
		objects = append(objects, object)
	}
	return objects, nil
}

// template renders a chart for no cluster in particular.
func (c *Charts) template(ctx context.Context, name string, load func() (*chart.Chart, error), namespace string, values map[string]any) ([]rendered, error) {
	loaded, err := load()
	if err != nil {
		return nil, err
	}
	return render(ctx, c.confined, loaded, rendering{release: name, namespace: namespace, revision: 1, values: values})
}

// unmarshal reads a document that a chart has rendered to. Its error has none of the
// document's words.
func unmarshal(document rendered, into any) error {
	if err := weigh.YAML([]byte(document.text)); err != nil {
		return fmt.Errorf("%s renders to too much: %w", document.source, err)
	}
	if err := yaml.Unmarshal([]byte(document.text), into); err != nil {
		return fmt.Errorf("%s renders to something that is no object", document.source)
	}
	return nil
}

// split cuts a manifest into its documents.
func split(manifest string) []string {
	return slices.Collect(maps.Values(releaseutil.SplitManifests(manifest)))
}
