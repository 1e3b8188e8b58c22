package karpenter

import (
	"fmt"

	"github.com/Masterminds/semver/v3"
)

// IsFork reports whether a version is not one of upstream's releases, because it has a pre-release or build suffix, such
// as 1.14.0+acme.3: the tables are about the release, and the fork may differ. It is false if the version is invalid.
func IsFork(version string) bool {
	v, err := parse(version)
	return err == nil && isFork(v)
}

func isFork(v *semver.Version) bool { return v.Metadata() != "" || v.Prerelease() != "" }

// inTables reports whether the tables are about a version.
func inTables(v *semver.Version) bool { return known(v) && !isFork(v) }

// unknownOf describes what is unknown about a version that is not in the tables; empty if it is.
func unknownOf(v *semver.Version) string {
	switch {
	case isFork(v):
		return fmt.Sprintf("karpenter %s is not a release of upstream: which Kubernetes it supports, which permissions it needs, "+
			"which values are gone, how it hashes definitions and therefore which nodes a change replaces is unknown", v)
	case !known(v):
		return fmt.Sprintf("karpenter %s is newer than %s, the newest that this plumbline knows: "+
			"which Kubernetes it supports, which permissions it needs, which values are gone and whether it replaces nodes is unknown", v, newest)
	}
	return ""
}
