package karpenter

import (
	"fmt"
	"regexp"

	"github.com/Masterminds/semver/v3"
)

// IsFork reports whether a version is not built by upstream, because it has build metadata or a suffix that is not that of
// a release candidate, such as 1.14.0+acme.3 or 1.14.0-acme.3: the fork may differ from the release. It is false if the
// version is invalid.
func IsFork(version string) bool {
	v, err := parse(version)
	return err == nil && isFork(v)
}

func isFork(v *semver.Version) bool {
	return !isRelease(v) && (v.Metadata() != "" || !candidate.MatchString(v.Prerelease()))
}

// candidate is the suffix of upstream's release candidates, such as rc.1.
var candidate = regexp.MustCompile(`^rc\.?[0-9]+$`)

// isRelease reports whether a version is one of upstream's releases: the tables are about these, and neither about forks
// nor about release candidates.
func isRelease(v *semver.Version) bool { return v.Metadata() == "" && v.Prerelease() == "" }

// inTables reports whether the tables are about a version.
func inTables(v *semver.Version) bool { return known(v) && isRelease(v) }

// unknownOf describes what is unknown about a version that is not in the tables; empty if it is.
func unknownOf(v *semver.Version) string {
	switch {
	case !isRelease(v):
		return fmt.Sprintf("karpenter %s is not a release of upstream: which Kubernetes it supports, which permissions it needs, "+
			"which values are gone, how it hashes definitions and therefore which nodes a change replaces is unknown", v)
	case !known(v):
		return fmt.Sprintf("karpenter %s is newer than %s, the newest that this plumbline knows: "+
			"which Kubernetes it supports, which permissions it needs, which values are gone and whether it replaces nodes is unknown", v, newest)
	}
	return ""
}
