package charts

import (
	"fmt"
	"path"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/releaseutil"
)

// rendering is all that a chart is rendered with. It is plain data: no template
// reaches the cluster, the network or the environment.
type rendering struct {
	release, namespace string
	// revision of the release; upgrade says that it is not the first.
	revision int
	upgrade  bool
	values   map[string]any
	cluster  capabilities
	// hooks says that those are left out, of a revision that has them already.
	hooks bool
}

// capabilities are what templates may ask of the cluster. The zero value stands for
// those that Helm was built with.
type capabilities struct {
	version, major, minor string
	apis                  []string
}

func (c capabilities) helm() *chartutil.Capabilities {
	if c.version == "" {
		return chartutil.DefaultCapabilities
	}
	return &chartutil.Capabilities{
		KubeVersion: chartutil.KubeVersion{Version: c.version, Major: c.major, Minor: c.minor},
		APIVersions: c.apis,
		HelmVersion: chartutil.DefaultCapabilities.HelmVersion,
	}
}

// rendered is one document that a chart renders to.
type rendered struct {
	// source is the template that it comes from.
	source, text string
}

// manifest is what Helm stores of a release, and compares by.
func manifest(documents []rendered) string {
	var text strings.Builder
	for _, one := range documents {
		fmt.Fprintf(&text, "---\n# Source: %s\n%s\n", one.source, one.text)
	}
	return text.String()
}

// renderChart returns the documents that a chart renders to, in the order in which
// Helm would write them, notes left out. A new chart with a hook is refused: Karpenter has none. The chart is changed.
func renderChart(loaded *chart.Chart, with rendering) ([]rendered, *failure) {
	options := chartutil.ReleaseOptions{
		Name: with.release, Namespace: with.namespace, Revision: with.revision,
		IsInstall: !with.upgrade, IsUpgrade: with.upgrade,
	}
	cluster := with.cluster.helm()
	if wants := loaded.Metadata.KubeVersion; wants != "" && !chartutil.IsCompatibleRange(wants, cluster.KubeVersion.String()) {
		return nil, &failure{Kind: failedVersion, Words: fmt.Sprintf("it is for Kubernetes %s, and the cluster has %s", wants, cluster.KubeVersion.String())}
	}
	if err := chartutil.ProcessDependenciesWithMerge(loaded, with.values); err != nil {
		return nil, &failure{Kind: failedDependencies}
	}
	top, err := chartutil.ToRenderValues(loaded, with.values, options, cluster)
	if err != nil {
		return nil, &failure{Kind: failedValues, Words: unfit(err)}
	}
	asked := &clusterless{}
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
	if len(hooks) > 0 && !with.hooks {
		return nil, &failure{Kind: failedHook, File: hooks[0].Path}
	}
	documents := make([]rendered, 0, len(sorted))
	for _, one := range sorted {
		documents = append(documents, rendered{source: one.Name, text: one.Content})
	}
	return documents, nil
}

// templates are the names of a chart's templates, as Helm has them.
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
