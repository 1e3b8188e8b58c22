package release

import (
	"context"
	"errors"
	"fmt"

	"helm.sh/helm/v3/pkg/kube"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/provision/charts"
)

// Rendered is what a chart renders to for a release.
type Rendered struct {
	// Chart is its name: charts.CRDChart or charts.ControllerChart.
	Chart, Version string
	// Digest of the chart, as sha256:<hex>. Of an earlier revision only its first 32 digits
	// are known, and none where plumbline has not installed it.
	Digest string
	// Namespace of the release.
	Namespace string
	// Objects as Helm reads them out of the manifest that it writes and stores.
	Objects []*unstructured.Unstructured
}

// permitted asks whether what Helm has read out of a manifest may be written. It is not
// asked about the documents that the manifest was made of: what Helm makes of that text
// may be something else.
func (t task) permitted(resources kube.ResourceList) error {
	if t.permit == nil {
		return nil
	}
	objects := make([]*unstructured.Unstructured, 0, len(resources))
	for _, info := range resources {
		object, ok := info.Object.(*unstructured.Unstructured)
		if !ok {
			return &charts.MalformedError{Chart: t.Name, Version: t.Version, Err: errors.New("it renders to something that is not an object")}
		}
		objects = append(objects, object)
	}
	return t.permit(t.rendered(objects))
}

// rendered is what the chart renders to, as Permit is asked about it.
func (t task) rendered(objects []*unstructured.Unstructured) Rendered {
	return Rendered{Chart: t.Name, Version: t.Version, Digest: t.Digest, Namespace: t.namespace, Objects: objects}
}

// Permitted asks request.Permit about what both charts render to in this cluster, and has the
// API server try none of it: it takes no other right than to read which APIs there are. Error:
// that of Permit, *charts.RenderError, *charts.MalformedError, or one of the API server's.
func (i *Installer) Permitted(ctx context.Context, c *charts.Charts, request Request) error {
	for _, name := range []string{charts.CRDChart, charts.ControllerChart} {
		t, err := newTask(name, c, request)
		if err != nil {
			return err
		}
		if err := i.permitted(ctx, t); err != nil {
			return fmt.Errorf("render chart %s at version %s: %w", t.Name, t.Version, err)
		}
	}
	return nil
}

func (i *Installer) permitted(ctx context.Context, t task) error {
	helm, err := newHelm(i.config, t.namespace, i.options.Logger)
	if err != nil {
		return err
	}
	loaded, err := t.Load()
	if err != nil {
		return err
	}
	_, objects, err := i.render(ctx, helm, t, loaded, Release{})
	if err != nil || t.permit == nil {
		return err
	}
	return t.permit(t.rendered(objects))
}
