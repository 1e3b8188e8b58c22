package sandbox

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/plumbline-dev/plumbline/tests/sandbox/binaries"
	"github.com/plumbline-dev/plumbline/tests/sandbox/karpenter"
)

// PullControllers builds the controllers of releases that are not in the cache, so that no pod has to wait for its
// image.
func (s *Sandbox) PullControllers(ctx context.Context, versions ...string) error {
	for _, version := range versions {
		if _, err := s.pull(ctx, version); err != nil {
			return fmt.Errorf("build the controller of Karpenter %s: %w", version, err)
		}
	}
	return nil
}

// pull is the registry of the controller's images: it builds a release of Karpenter on demand. The image of a fork, such
// as 1.14.1-acme.3, has the controller of the release.
func (s *Sandbox) pull(ctx context.Context, version string) (string, error) {
	version, _, _ = strings.Cut(version, "-")
	if !slices.Contains(binaries.KarpenterControllers(), version) {
		return "", fmt.Errorf("%w: the sandbox has controllers of %v alone", karpenter.ErrNoImage, binaries.KarpenterControllers())
	}
	name := binaries.KarpenterOf(version)
	paths, err := s.builder.Build(ctx, name)
	return paths[name], err
}
