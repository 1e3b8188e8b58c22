package charts

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"sigs.k8s.io/yaml"
)

// The names of upstream's two charts.
const (
	// MainChart and CRDChart are the names of upstream's two charts, which are always released together with the same
	// version.
	MainChart = "karpenter"
	CRDChart  = "karpenter-crd"
)

// chart is one chart at one version, ready to be archived.
type chart struct {
	Name    string
	Version string
	// Files are the chart's files by their path below the chart's folder.
	Files map[string][]byte
}

// readChart returns the released form of one of the module's charts.
func readChart(module fs.FS, name, version string) (*chart, error) {
	c := &chart{Name: name, Version: version, Files: map[string][]byte{}}
	if err := c.addFolder(module, path.Join("charts", name), ""); err != nil {
		return nil, fmt.Errorf("read chart %s %s: %w", name, version, err)
	}

	if err := c.edit("Chart.yaml", map[string]string{"version": version, "appVersion": version}); err != nil {
		return nil, err
	}

	if name != MainChart {
		return c, nil
	}

	if err := c.addFolder(module, "pkg/apis/crds", "crds"); err != nil {
		return nil, fmt.Errorf("fill crds/ of chart %s %s: %w", name, version, err)
	}

	return c, c.setImage(version)
}

// setImage sets the release of the controller that the main chart runs.
func (c *chart) setImage(version string) error {
	return c.edit("values.yaml", map[string]string{
		"controller.image.tag":    version,
		"controller.image.digest": imageDigest(version),
	})
}

// addFolder adds a folder's files under a path of the chart. Go sources and templates of the README are not part of a
// release.
func (c *chart) addFolder(module fs.FS, from, to string) error {
	found := 0
	err := fs.WalkDir(module, from, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}

		if ext := path.Ext(name); ext == ".gotmpl" || ext == ".go" {
			return nil
		}

		content, err := fs.ReadFile(module, name)
		if err != nil {
			return err
		}

		c.Files[path.Join(to, strings.TrimPrefix(name, from+"/"))] = content
		found++

		return nil
	})
	if err == nil && found == 0 {
		err = errors.New("it holds no files")
	}

	return err
}

// edit sets scalars in one of the chart's YAML files and keeps every other byte.
func (c *chart) edit(file string, scalars map[string]string) error {
	edited, err := setScalars(c.Files[file], scalars)
	if err != nil {
		return fmt.Errorf("edit %s of chart %s %s: %w", file, c.Name, c.Version, err)
	}

	c.Files[file] = edited

	return nil
}

// metadata returns Chart.yaml as JSON, which Helm uses as the config of a chart's OCI artifact.
func (c *chart) metadata() ([]byte, error) {
	config, err := yaml.YAMLToJSON(c.Files["Chart.yaml"])
	if err != nil {
		return nil, fmt.Errorf("read Chart.yaml of chart %s %s: %w", c.Name, c.Version, err)
	}

	return config, nil
}

// imageDigest returns a stand-in for the digest of the controller's image, which does not exist in the sandbox. It
// differs between versions but not between runs.
func imageDigest(version string) string {
	return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte("karpenter/controller:"+version)))
}
