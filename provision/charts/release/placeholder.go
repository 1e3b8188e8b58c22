package release

import (
	"bytes"
	"fmt"
	"slices"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"k8s.io/client-go/discovery"

	"github.com/plumbline-dev/plumbline/provision/charts"
)

// placeholder is a chart with nothing in it that Helm would render or validate, and the
// chart that Helm stores in its place. Helm renders within an install and an upgrade, with a
// client for templates that call lookup and a loader for schemas that name URLs: so
// it is given nothing to render, and what the chart has rendered to comes in as
// the output of its post-renderer.
type placeholder struct {
	*chart.Chart
	full *chart.Chart
}

func newPlaceholder(full *chart.Chart) placeholder {
	metadata := *full.Metadata
	metadata.Dependencies, metadata.KubeVersion = nil, ""
	return placeholder{Chart: &chart.Chart{Metadata: &metadata}, full: full}
}

// fill makes it the chart that Helm stores in the release.
func (p placeholder) fill() { *p.Chart = *p.full }

// postRenderer hands Helm what a chart has rendered to, once the rehearsal has
// nothing against it. It is a postrender.PostRenderer.
type postRenderer struct {
	*rehearsal

	chart    placeholder
	manifest string
}

// Run returns the manifest, or says why it must not be written.
func (p *postRenderer) Run(*bytes.Buffer) (*bytes.Buffer, error) {
	p.chart.fill()
	return p.rehearsal.Run(bytes.NewBufferString(p.manifest))
}

// capabilities are the cluster's, as Helm would discover them.
func (h *helm) capabilities() (charts.Capabilities, error) {
	client, err := h.getter.ToDiscoveryClient()
	if err != nil {
		return charts.Capabilities{}, err
	}
	version, err := client.ServerVersion()
	if err != nil {
		return charts.Capabilities{}, fmt.Errorf("read the version of Kubernetes: %w", err)
	}
	apis, err := action.GetVersionSet(client)
	if err != nil && !discovery.IsGroupDiscoveryFailedError(err) {
		return charts.Capabilities{}, fmt.Errorf("read the API versions of the cluster: %w", err)
	}
	slices.Sort(apis) // they come out of a map
	return charts.Capabilities{Version: version.GitVersion, Major: version.Major, Minor: version.Minor, APIs: apis}, nil
}
