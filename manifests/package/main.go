// Command package builds plumbline's Helm chart for a release: with the release's version and its image, in a
// reproducible archive.
//
//	package VERSION IMAGE CREATED FOLDER
//
// CREATED is the time of the commit, in seconds since 1970.
package main

import (
	"archive/tar"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"sigs.k8s.io/yaml"
)

func main() {
	if len(os.Args) != 5 {
		fmt.Fprintln(os.Stderr, "usage: package VERSION IMAGE CREATED FOLDER")
		os.Exit(1)
	}
	if err := run("manifests/chart", os.Args[1], os.Args[2], os.Args[3], os.Args[4]); err != nil {
		fmt.Fprintln(os.Stderr, "package:", err)
		os.Exit(1)
	}
}

// run packs the chart in a folder into another one.
func run(from, version, image, created, to string) error {
	seconds, err := strconv.ParseInt(created, 10, 64)
	if err != nil {
		return fmt.Errorf("read the time of the commit: %w", err)
	}
	c, err := loader.LoadDir(from)
	if err != nil {
		return err
	}
	if err := release(c, version, image); err != nil {
		return err
	}
	out, err := os.Create(filepath.Join(to, fmt.Sprintf("plumbline-%s.tgz", c.Metadata.Version)))
	if err != nil {
		return err
	}
	if err := pack(c, time.Unix(seconds, 0), out); err != nil {
		_ = out.Close() // it has failed already
		return err
	}
	return out.Close()
}

// release sets the version of a release in a chart, and its image.
func release(c *chart.Chart, version, image string) error {
	c.Metadata.Version, c.Metadata.AppVersion = strings.TrimPrefix(version, "v"), version
	if err := c.Metadata.Validate(); err != nil {
		return err
	}
	metadata, err := yaml.Marshal(c.Metadata)
	if err != nil {
		return err
	}
	const built = "# The image that you built with `make image` and pushed.\nimage:\n  repository: plumbline\n"
	for _, file := range c.Raw {
		switch file.Name {
		case "Chart.yaml":
			file.Data = metadata
		case "values.yaml":
			if !strings.Contains(string(file.Data), built) {
				return fmt.Errorf("values.yaml does not have %q", built)
			}
			file.Data = []byte(strings.Replace(string(file.Data), built, "image:\n  repository: "+image+"\n", 1))
		}
	}
	return nil
}

// pack writes an archive. Helm's own writer adds the current time to it.
func pack(c *chart.Chart, created time.Time, out io.Writer) error {
	zipped := gzip.NewWriter(out)
	archive := tar.NewWriter(zipped)
	for _, file := range c.Raw {
		header := &tar.Header{Name: c.Name() + "/" + file.Name, Mode: 0o644, Size: int64(len(file.Data)), ModTime: created, Format: tar.FormatPAX}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		if _, err := archive.Write(file.Data); err != nil {
			return err
		}
	}
	if err := archive.Close(); err != nil {
		return err
	}
	return zipped.Close()
}
