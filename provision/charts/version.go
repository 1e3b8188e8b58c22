package charts

import (
	"strings"

	"github.com/Masterminds/semver/v3"
)

// Ahead says that CRDs are of a newer version than the one that is wanted. They
// stay when the controller goes back: an older schema would drop what the newer one
// has let in, and an older CRD could lose a stored version.
func Ahead(crds, wanted string) bool {
	has, err := semver.NewVersion(crds)
	if err != nil {
		return false
	}
	wants, err := semver.NewVersion(wanted)
	return err == nil && has.GreaterThan(wants)
}

// Label is a version as a label's value or a registry's tag, which have no plus sign:
// https://helm.sh/docs/topics/registries/#oci-feature-deprecation-and-behavior-changes-with-v380
func Label(version string) string { return strings.ReplaceAll(version, "+", "_") }

// FromLabel is the version that Label made a label's value of. A semantic version has no underscore.
func FromLabel(label string) string { return strings.ReplaceAll(label, "_", "+") }
