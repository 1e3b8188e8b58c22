package karpenter

import (
	"fmt"

	"github.com/Masterminds/semver/v3"
)

// newest is the newest version whose sources the tables were read from.
const newest = "1.14.1"

// Newer says whether a version is newer than another; false where one of them is none.
func Newer(version, than string) bool {
	a, b, err := parsePair(version, than)
	return err == nil && a.GreaterThan(b)
}

// OtherRelease says whether a version is of another release than the other one, whatever builds they are of; false
// where one of them is none.
func OtherRelease(version, than string) bool {
	a, b, err := parsePair(version, than)
	return err == nil && (a.Major() != b.Major() || a.Minor() != b.Minor() || a.Patch() != b.Patch())
}

// Newest is the newest version of Karpenter that the tables know.
func Newest() string { return newest }

// known says whether the tables were read from a version of this minor number,
// or a later one.
func known(v *semver.Version) bool {
	top := semver.MustParse(newest)
	return v.Major() < top.Major() || v.Major() == top.Major() && v.Minor() <= top.Minor()
}

// VersionError says that a text is no version of Karpenter.
type VersionError struct {
	Version string
}

// Error says how a version is written.
func (e *VersionError) Error() string {
	return fmt.Sprintf("version of karpenter is %q: give one full version such as %s, without a range", e.Version, newest)
}

// parse reads a full version; the v that older tags and images have is let pass.
func parse(version string) (*semver.Version, error) {
	if len(version) > 1 && version[0] == 'v' {
		version = version[1:]
	}
	v, err := semver.StrictNewVersion(version)
	if err != nil {
		return nil, &VersionError{Version: version}
	}
	return v, nil
}

// parsePair reads the two ends of an upgrade.
func parsePair(from, to string) (a, b *semver.Version, err error) {
	if a, err = parse(from); err != nil {
		return nil, nil, err
	}
	b, err = parse(to)
	return a, b, err
}

// row is one line of a table: what holds from a version on, until the next row.
type row[T any] struct {
	since string
	is    T
}

// at finds what a table says of a version; ok is false for one before its first
// row.
func at[T any](table []row[T], v *semver.Version) (is T, ok bool) {
	for _, r := range table {
		if v.LessThan(semver.MustParse(r.since)) {
			break
		}
		is, ok = r.is, true
	}
	return is, ok
}

// between returns the rows that come into force on an upgrade.
func between[T any](table []row[T], from, to *semver.Version) []row[T] {
	var found []row[T]
	for _, r := range table {
		if crosses(from, to, r.since) {
			found = append(found, r)
		}
	}
	return found
}

// crosses says whether an upgrade brings a cluster from before a version to it, or
// past it.
func crosses(from, to *semver.Version, version string) bool {
	v := semver.MustParse(version)
	return from.LessThan(v) && !to.LessThan(v)
}
