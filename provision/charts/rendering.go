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

// Rendering is all that a chart is rendered with. It is plain data: no template
// reaches the cluster, the network or the environment.
type Rendering struct {
	Release, Namespace string
	// Revision of the release; Upgrade says that it is not the first.
	Revision int
	Upgrade  bool
	Values   map[string]any
	Cluster  Capabilities
	// SkipHooks leaves a chart's hooks out, for a revision that was installed with
	// them; a chart that has some is refused without it.
	SkipHooks bool
}

// Capabilities are what templates may ask about the cluster. The zero value stands for
// those that Helm was built with.
type Capabilities struct {
	// Version of Kubernetes, with its Major and Minor as the API server says them.
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

// renderChart returns the documents that a chart renders to, in the order in which
// Helm would write them, notes left out. The chart is changed.
func renderChart(loaded *chart.Chart, with Rendering) (Documents, *failure) {
	options := chartutil.ReleaseOptions{
		Name: with.Release, Namespace: with.Namespace, Revision: with.Revision,
		IsInstall: !with.Upgrade, IsUpgrade: with.Upgrade,
	}
	cluster := with.Cluster.helm()
	if wants := loaded.Metadata.KubeVersion; wants != "" && !chartutil.IsCompatibleRange(wants, cluster.KubeVersion.String()) {
		return nil, &failure{Kind: failedVersion, Words: fmt.Sprintf("it is for Kubernetes %s, and the cluster has %s", wants, cluster.KubeVersion.String())}
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
