package charts

import (
	"bytes"
	"fmt"
	"slices"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"k8s.io/client-go/discovery"
)

// hollow is a chart with nothing in it that Helm would render or validate, and what
// it is to be stored as. Helm renders within an install and an upgrade, with a
// client for templates that call lookup and a loader for schemas that name URLs: so
// it is given nothing to render, and what the chart has rendered to comes in as
// the output of its post-renderer.
type hollow struct {
	*chart.Chart
	full *chart.Chart
}

func newHollow(full *chart.Chart) hollow {
	metadata := *full.Metadata
	metadata.Dependencies, metadata.KubeVersion = nil, ""
	return hollow{Chart: &chart.Chart{Metadata: &metadata}, full: full}
}

// fill makes it the chart that Helm stores in the release.
func (h hollow) fill() { *h.Chart = *h.full }

// postRenderer hands Helm what a chart has rendered to, once the rehearsal has
// nothing against it. It is a postrender.PostRenderer.
type postRenderer struct {
	*rehearsal

	chart    hollow
	manifest string
}

// Run returns the manifest, or says why it must not be written.
func (p *postRenderer) Run(*bytes.Buffer) (*bytes.Buffer, error) {
	p.chart.fill()
	return p.rehearsal.Run(bytes.NewBufferString(p.manifest))
}

// capabilities are the cluster's, as Helm would find them out.
func (h *helm) capabilities() (capabilities, error) {
	client, err := h.getter.ToDiscoveryClient()
	if err != nil {
		return capabilities{}, err
	}
	version, err := client.ServerVersion()
	if err != nil {
		return capabilities{}, fmt.Errorf("read the version of Kubernetes: %w", err)
	}
	apis, err := action.GetVersionSet(client)
	if err != nil && !discovery.IsGroupDiscoveryFailedError(err) {
		return capabilities{}, fmt.Errorf("read the API versions of the cluster: %w", err)
	}
	slices.Sort(apis) // they come out of a map
	return capabilities{version: version.GitVersion, major: version.Major, minor: version.Minor, apis: apis}, nil
}
