package charts

import (
	"fmt"
	"net"
	"strings"

	"github.com/Masterminds/semver/v3"
)

// The names of the two charts, and of their releases.
const (
	CRDChart        = "karpenter-crd"
	ControllerChart = "karpenter"
)

// Ref says which version of the two charts, and where they are.
type Ref struct {
	// Repository holds both charts: oci://host/path. It is spoken to in plain
	// HTTP when the host is a loopback address, in HTTPS otherwise.
	Repository string
	// Version is a full semantic version without a leading v.
	Version string
}

// Credentials open a repository. The zero value is anonymous.
type Credentials struct {
	Username, Password string
	// CA is a PEM bundle that is trusted beside the system's.
	CA []byte
}

const scheme = "oci://"

// check refuses what no registry is asked about.
func (r Ref) check() error {
	if !strings.HasPrefix(r.Repository, scheme) || strings.Trim(r.Repository[len(scheme):], "/") == "" {
		return &InvalidRefError{Ref: r, Reason: fmt.Sprintf("repository %q is not of the form oci://host/path", r.Repository)}
	}
	if _, err := semver.StrictNewVersion(r.Version); err != nil {
		return &InvalidRefError{Ref: r, Reason: fmt.Sprintf("version %q is not a full semantic version such as 1.14.1: %v", r.Version, err)}
	}
	return nil
}

// repository returns host/path/<chart>, and whether it is in plain HTTP.
func (r Ref) repository(chart string) (name string, plain bool) {
	base := strings.TrimRight(strings.TrimPrefix(r.Repository, scheme), "/")
	host, _, _ := strings.Cut(base, "/")
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return base + "/" + chart, host == "localhost" || (ip != nil && ip.IsLoopback())
}

// tag is the version as a registry's tag, which has no plus sign:
// https://helm.sh/docs/topics/registries/#oci-feature-deprecation-and-behavior-changes-with-v380
func (r Ref) tag() string { return strings.ReplaceAll(r.Version, "+", "_") }

// String names a Ref in messages.
func (r Ref) String() string { return r.Repository + " " + r.Version }
