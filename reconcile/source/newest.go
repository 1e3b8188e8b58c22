package source

import (
	"strings"

	"github.com/Masterminds/semver/v3"
)

// newest is the tag with the highest version in a range, of those that it was shown. As in Flux
// a version is full (1.2.3) and may begin with v.
type newest struct {
	within  *semver.Constraints
	version *semver.Version // nil until there is one
	tag     string
}

// newestIn is of a range. The error is a *RefError.
func newestIn(within string) (*newest, error) {
	constraint, err := semver.NewConstraint(within)
	if err != nil {
		return nil, &RefError{Field: "semver", Value: within, Err: err}
	}
	return &newest{within: constraint}, nil
}

// take says whether a tag is the newest so far.
func (n *newest) take(tag string) bool {
	v, err := semver.StrictNewVersion(strings.TrimPrefix(tag, "v"))
	if err != nil || !n.within.Check(v) {
		return false // not a version, or another one
	}
	if n.version != nil && !v.GreaterThan(n.version) && (!v.Equal(n.version) || tag <= n.tag) {
		return false
	}
	n.version, n.tag = v, tag
	return true
}
