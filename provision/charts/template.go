package charts

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

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
			return nil, &MalformedError{Chart: CRDChart, Version: c.Version, Err: fmt.Errorf("it renders a %s, and should render only CRDs", crd.Kind)}
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

// template renders a chart for no cluster in particular.
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
