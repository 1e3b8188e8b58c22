package charts

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"maps"
	"path"
	"slices"
	"time"
)

// archive packs a chart like `helm package`, in a folder with the chart's name. Its bytes depend only on the files.
func (c *chart) archive() ([]byte, error) {
	var out bytes.Buffer

	zipped := gzip.NewWriter(&out)
	packed := tar.NewWriter(zipped)

	for _, name := range slices.Sorted(maps.Keys(c.Files)) {
		header := &tar.Header{
			Name:    path.Join(c.Name, name),
			Mode:    0o644,
			Size:    int64(len(c.Files[name])),
			ModTime: time.Unix(0, 0).UTC(),
			Format:  tar.FormatPAX,
		}
		if err := packed.WriteHeader(header); err != nil {
			return nil, fmt.Errorf("pack %s of chart %s %s: %w", name, c.Name, c.Version, err)
		}

		if _, err := packed.Write(c.Files[name]); err != nil {
			return nil, fmt.Errorf("pack %s of chart %s %s: %w", name, c.Name, c.Version, err)
		}
	}

	if err := packed.Close(); err != nil {
		return nil, fmt.Errorf("pack chart %s %s: %w", c.Name, c.Version, err)
	}

	if err := zipped.Close(); err != nil {
		return nil, fmt.Errorf("pack chart %s %s: %w", c.Name, c.Version, err)
	}

	return out.Bytes(), nil
}
