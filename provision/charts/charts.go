package charts

import (
	"bytes"
	"fmt"
	"path/filepath"
	"sync"

	"github.com/Masterminds/semver/v3"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"

	"github.com/plumbline-dev/plumbline/confine"
)

// Charts are the two charts of one version. A chart is read and checked again at each
// use; only what the CRD chart renders to is kept.
type Charts struct {
	Version string
	// Repository they were resolved from, as in the Ref.
	Repository string
	// CRDDigest and Digest are those of the charts' OCI manifests; of the archives
	// where they come from elsewhere, and of an unpacked chart's files.
	CRDDigest, Digest string

	// confined renders them; nil for in this process.
	confined *confine.Runner

	mu   sync.Mutex
	crds Documents // what the CRD chart renders to, once it was asked for

	readCRD, readController func() ([]byte, error)
	loadCRD, loadController func() (*chart.Chart, error)
}

// FromFolder takes both charts, unpacked, from dir/karpenter-crd and
// dir/karpenter. They have no digest and must not be installed.
func FromFolder(dir string) (*Charts, error) {
	c := &Charts{
		loadCRD:        func() (*chart.Chart, error) { return loader.LoadDir(filepath.Join(dir, CRDChart)) },
		loadController: func() (*chart.Chart, error) { return loader.LoadDir(filepath.Join(dir, ControllerChart)) },
	}
	main, err := c.loadController()
	if err != nil {
		return nil, fmt.Errorf("read chart %s in %s: %w", ControllerChart, dir, err)
	}
	c.Version = main.Metadata.Version
	return c, nil
}

// open returns a function that unpacks a chart and checks that it is the one
// that was asked for.
func open(name, version string, read func() ([]byte, error)) func() (*chart.Chart, error) {
	return func() (*chart.Chart, error) {
		archive, err := read()
		if err != nil {
			return nil, err
		}
		if err := weighArchive(archive); err != nil {
			return nil, &MalformedError{Chart: name, Version: version, Err: err}
		}
		loaded, err := loader.LoadArchive(bytes.NewReader(archive))
		if err != nil {
			return nil, &MalformedError{Chart: name, Version: version, Err: err}
		}
		if err := identify(loaded, name, version); err != nil {
			return nil, &MalformedError{Chart: name, Version: version, Err: err}
		}
		return loaded, nil
	}
}

// identify checks that the two charts are of one version: Chart.yaml has to say
// what the tag said.
func identify(c *chart.Chart, name, version string) error {
	if c.Metadata.Name != name {
		return fmt.Errorf("its Chart.yaml names it %q", c.Metadata.Name)
	}
	want, err := semver.StrictNewVersion(version)
	if err != nil {
		return fmt.Errorf("parse version %q: %w", version, err)
	}
	got, err := semver.NewVersion(c.Metadata.Version)
	if err != nil {
		return fmt.Errorf("parse the version in its Chart.yaml: %w", err)
	}
	if !got.Equal(want) || got.Metadata() != want.Metadata() {
		return fmt.Errorf("its Chart.yaml says version %s", c.Metadata.Version)
	}
	return nil
}
