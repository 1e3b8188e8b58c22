package charts

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/Masterminds/semver/v3"
	"oras.land/oras-go/v2/registry/remote"
)

// maxNear is how many versions a message names; maxPages is how much of a long
// list of tags is read for it.
const (
	maxNear  = 3
	maxPages = 5
)

// near lists the repository's versions next to one that it has not. It is a
// courtesy: no list is no error.
func near(ctx context.Context, repository *remote.Repository, version string) []string {
	var tags []string
	pages := 0
	enough := errors.New("enough")
	err := repository.Tags(ctx, "", func(page []string) error {
		tags = append(tags, page...)
		if pages++; pages == maxPages {
			return enough
		}
		return nil
	})
	if err != nil && !errors.Is(err, enough) {
		return nil
	}
	return nearest(version, tags)
}

// nearest picks the releases with the smallest distance: first in the major,
// then in the minor, then in the patch number. Between equals the newer wins.
func nearest(version string, tags []string) []string {
	want, err := semver.NewVersion(version)
	if err != nil {
		return nil
	}
	var found []*semver.Version
	for _, tag := range tags {
		if v, err := semver.StrictNewVersion(tag); err == nil && v.Prerelease() == "" {
			found = append(found, v)
		}
	}
	slices.SortFunc(found, func(a, b *semver.Version) int {
		return cmp.Or(
			cmp.Compare(distance(a.Major(), want.Major()), distance(b.Major(), want.Major())),
			cmp.Compare(distance(a.Minor(), want.Minor()), distance(b.Minor(), want.Minor())),
			cmp.Compare(distance(a.Patch(), want.Patch()), distance(b.Patch(), want.Patch())),
			b.Compare(a),
		)
	})
	var names []string
	for _, v := range found[:min(maxNear, len(found))] {
		names = append(names, v.String())
	}
	return names
}

func distance(a, b uint64) uint64 { return max(a, b) - min(a, b) }
