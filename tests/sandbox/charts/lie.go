package charts

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/plumbline-dev/plumbline/tests/sandbox/binaries"
)

// Lie is a chart that differs from what its tag claims.
type Lie struct {
	// Chart is MainChart or CRDChart; Version is the release that it is made from.
	Chart, Version string
	// Tag is the tag that serves it. That of a release replaces that release.
	Tag string
	// Says is the version in its Chart.yaml. Default: Tag.
	Says string
	// Image is the tag of the controller's image in the main chart. Default: Version.
	Image string
	// Files are added to the chart, or replace its own, by their path below its folder. Nil removes one.
	Files map[string][]byte
}

// Publish serves a lie until the returned function is called.
func (r *Registry) Publish(ctx context.Context, lie Lie) (withdraw func(context.Context) error, err error) {
	c, err := r.tell(ctx, lie)
	if err != nil {
		return nil, fmt.Errorf("make %s %s from %s: %w", lie.Chart, lie.Tag, lie.Version, err)
	}

	if slices.Contains(binaries.KarpenterReleases(), lie.Tag) {
		// Package it now, or it would be packaged over the lie on demand.
		if err := r.Add(ctx, lie.Tag); err != nil {
			return nil, err
		}
	}

	if err := r.serveChart(ctx, c, lie.Tag); err != nil {
		return nil, err
	}

	return func(ctx context.Context) error { return r.withdraw(ctx, lie.Chart, lie.Tag) }, nil
}

func (r *Registry) tell(ctx context.Context, lie Lie) (*chart, error) {
	module, err := openModule(ctx, r.source, lie.Version)
	if err != nil {
		return nil, err
	}

	c, err := readChart(module, lie.Chart, lie.Version)
	if err != nil {
		return nil, err
	}

	says := lie.Tag
	if lie.Says != "" {
		says = lie.Says
	}

	// appVersion becomes a label, which cannot contain a plus sign.
	if err := c.edit("Chart.yaml", map[string]string{"version": says, "appVersion": strings.ReplaceAll(says, "+", "_")}); err != nil {
		return nil, err
	}

	if lie.Image != "" {
		if err := c.setImage(lie.Image); err != nil {
			return nil, err
		}
	}

	maps.Copy(c.Files, lie.Files)
	maps.DeleteFunc(c.Files, func(_ string, content []byte) bool { return content == nil })
	c.Version = says

	return c, nil
}

// withdraw serves the real chart again, or nothing if there is none.
func (r *Registry) withdraw(ctx context.Context, chart, tag string) error {
	if slices.Contains(binaries.KarpenterReleases(), tag) {
		return r.pack(ctx, tag)
	}

	return send(ctx, r.store, http.MethodDelete, "/v2/"+namespace+"/"+chart+"/manifests/"+tag, manifestType, nil, http.StatusAccepted)
}
