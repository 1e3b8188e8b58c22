package charts

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"strings"
)

// CRDs returns a release's CRDs for kubectl, those of the main chart's crds/, in one file.
func (r *Registry) CRDs(ctx context.Context, version string) ([]byte, error) {
	module, err := openModule(ctx, r.source, version)
	if err != nil {
		return nil, err
	}

	c, err := readChart(module, MainChart, version)
	if err != nil {
		return nil, err
	}

	var all [][]byte

	for _, name := range slices.Sorted(maps.Keys(c.Files)) {
		if strings.HasPrefix(name, "crds/") {
			all = append(all, c.Files[name])
		}
	}

	return bytes.Join(all, []byte("\n---\n")), nil
}
