package charts

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/opencontainers/go-digest"
)

// Vendored is a chart's archive on disk.
type Vendored struct {
	Chart string
	// File is its name in the folder, Digest its own: what pins it there.
	File, Digest string
}

// Vendor writes the archives of both charts into a folder, where a repository that
// is a path finds them. They are what came out of a Store. Archives of other
// versions stay.
func (c *Charts) Vendor(dir string) ([]Vendored, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("create the folder of the charts: %w", err)
	}
	var written []Vendored
	for _, one := range []struct {
		chart string
		read  func() ([]byte, error)
	}{{CRDChart, c.readCRD}, {ControllerChart, c.readController}} {
		archive, err := one.read()
		if err != nil {
			return nil, err
		}
		name := archiveName(one.chart, c.Version)
		if err := os.WriteFile(filepath.Join(dir, name), archive, 0o644); err != nil {
			return nil, fmt.Errorf("write chart %s %s into %s: %w", one.chart, c.Version, dir, err)
		}
		written = append(written, Vendored{Chart: one.chart, File: name, Digest: digest.FromBytes(archive).String()})
	}
	return written, nil
}
