package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/reconcile/preview"
	"github.com/plumbline-dev/plumbline/render"
	"github.com/plumbline-dev/plumbline/render/schema"
)

// crdsOf are the CRDs of the version in Git: those that this program was built
// with, or those of its chart.
func crdsOf(ctx context.Context, git *render.Karpenter, path string, files *render.Snapshot) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	if git.Version == schema.EmbeddedVersion {
		embedded, _, err := schema.Embedded()
		return embedded, err
	}
	keys, err := dockerLogin(nil)
	if err != nil {
		return nil, err
	}
	repository, _, err := git.ChartRepository(path)
	if err != nil {
		return nil, err
	}
	return chartCRDs(ctx, git, repository, charts.Access{Keys: keys, Files: render.NewFiles(*files)})
}

// chartCRDs are those of the chart of the version in Git.
func chartCRDs(ctx context.Context, git *render.Karpenter, repository string, access charts.Access) (crds []*apiextensionsv1.CustomResourceDefinition, err error) {
	err = withChart(ctx, git, repository, access, func(pulled *charts.Charts) (err error) {
		crds, err = pulled.CRDs(ctx)
		return err
	})
	return crds, err
}

// withChart uses the charts of the version in Git, by way of a cache of its own.
func withChart(ctx context.Context, git *render.Karpenter, repository string, access charts.Access, use func(*charts.Charts) error) error {
	cache, err := os.MkdirTemp("", "plumbline-charts-")
	if err != nil {
		return fmt.Errorf("make a folder for the charts: %w", err)
	}
	defer os.RemoveAll(cache)
	pulled, err := charts.NewStore(charts.StoreOptions{Dir: cache, Confine: confined(ctx)}).Resolve(ctx, charts.Ref{
		Repository: repository, Version: git.Version,
		Digests: charts.Digests{CRD: git.Digests.CRD, Controller: git.Digests.Controller},
	}, access)
	if err != nil {
		return err
	}
	return use(pulled)
}

// offlineCRDs are those of a folder, where one is given; of the charts in the
// checkout, as the daemon would take them; or those that this program was built with.
// version is the one they are for: what is given is for whatever Git says.
func (d *onDisk) offlineCRDs(ctx context.Context, given string) (crds []*apiextensionsv1.CustomResourceDefinition, version string, err error) {
	git := d.karpenter
	if given != "" {
		crds, err = crdsInFolder(given)
		return crds, git.Version, err
	}
	repository, inside, err := git.ChartRepository(d.name)
	if err != nil {
		return nil, "", err
	}
	if inside {
		crds, err = chartCRDs(ctx, git, repository, charts.Access{Files: render.NewFiles(*d.snapshot)})
		return crds, git.Version, err
	}
	crds, version, err = schema.Embedded()
	if git.Version == "" {
		version = "" // the tool that installs Karpenter decides it
	}
	return crds, version, err
}

// pullTime is how long a chart is waited for, for a plan that can do without it.
const pullTime = 30 * time.Second

// pullCRDs are those of the chart of the version in Git. Where that is out of reach, unavailable says
// why, and those that are known remain.
func (d *onDisk) pullCRDs(ctx context.Context, known []*apiextensionsv1.CustomResourceDefinition) (crds []*apiextensionsv1.CustomResourceDefinition, version string, unavailable, err error) {
	limited, stop := context.WithTimeout(ctx, pullTime)
	defer stop()
	crds, err = crdsOf(limited, d.karpenter, d.name, d.snapshot)
	switch {
	case err == nil:
		return crds, d.karpenter.Version, nil, nil
	case ctx.Err() == nil && (preview.OutOfReach(err) || errors.Is(err, context.DeadlineExceeded)):
		return known, schema.EmbeddedVersion, err, nil
	}
	return nil, "", nil, err
}

// noCRDsOffline says what is not known of definitions without a cluster and without their CRDs.
func noCRDsOffline(version string, err error) string {
	return fmt.Sprintf("the CRDs of Karpenter %s are unavailable, so fields of definitions are not checked; give them with --crds DIR, or compare with a cluster by --against NODESYNC: %v", version, err)
}

// crdsInFolder are those in the YAML files of a folder.
func crdsInFolder(dir string) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.y*ml"))
	if err != nil {
		return nil, fmt.Errorf("read --crds %s: %w", dir, err)
	}
	var crds []*apiextensionsv1.CustomResourceDefinition
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("read --crds: %w", err)
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.Unmarshal(raw, crd); err != nil {
			return nil, fmt.Errorf("read --crds: %s: %w", file, err)
		}
		crds = append(crds, crd)
	}
	if len(crds) == 0 {
		return nil, fmt.Errorf("read --crds: no YAML file in %s", dir)
	}
	return crds, nil
}
