package charts

import (
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"strings"

	"github.com/Masterminds/semver/v3"
	"github.com/opencontainers/go-digest"
)

// The names of the two charts, and of their releases.
const (
	CRDChart        = "karpenter-crd"
	ControllerChart = "karpenter"
)

// Ref says which version of the two charts, and where they are.
type Ref struct {
	// Repository holds both charts. It is one of
	//
	//	oci://host/path    an OCI registry
	//	https://host/path  a Helm repository, with its index.yaml
	//	a/path             a folder of the checkout, from its root
	//
	// A loopback address may be spoken to in plain HTTP: a registry there is, and
	// a Helm repository may say http://.
	Repository string
	// Version is a full semantic version without a leading v.
	Version string
	// Digests are what the two charts have to have.
	Digests Digests
	// InForce are the digests that this version of this repository has in the cluster. They are
	// pulled whatever the version's tag names by now, unless Digests pins another. Charts of the
	// checkout have none: only a commit changes those.
	InForce Digests
}

// Digests pin the charts, as sha256:<hex>: the manifests of an OCI registry, the
// archives of all else. An empty one pins nothing.
type Digests struct {
	CRD, Controller string
}

func (d Digests) of(chart string) digest.Digest {
	if chart == CRDChart {
		return digest.Digest(d.CRD)
	}
	return digest.Digest(d.Controller)
}

// are reports whether both charts have these digests.
func (d Digests) are(m memo) bool {
	return d != Digests{} && d.of(CRDChart) == m.CRD.Manifest && d.of(ControllerChart) == m.Controller.Manifest
}

// wanted is the digest that a chart has to have; empty if any will do.
func (r Ref) wanted(chart string) digest.Digest {
	if pin := r.Digests.of(chart); pin != "" || r.local() {
		return pin
	}
	return r.InForce.of(chart)
}

const ociScheme = "oci://"

// local says that the charts are in the checkout.
func (r Ref) local() bool { return !strings.Contains(r.Repository, "://") }

// check refuses a Ref that no request could be made for.
func (r Ref) check() error {
	invalid := func(format string, args ...any) error {
		return &InvalidRefError{Ref: r, Reason: fmt.Sprintf(format, args...)}
	}
	if _, err := semver.StrictNewVersion(r.Version); err != nil {
		return invalid("version %q is not a full semantic version such as 1.14.1: %v", r.Version, err)
	}
	for _, chart := range []string{CRDChart, ControllerChart} {
		if pin := r.Digests.of(chart); pin != "" && (pin.Validate() != nil || pin.Algorithm() != digest.SHA256) {
			return invalid("digest %q of chart %s is not of the form sha256:<64 hexadecimal digits>", pin, chart)
		}
		if known := r.InForce.of(chart); known != "" && known.Validate() != nil {
			return invalid("digest %q of chart %s in the status is not of the form sha256:<64 hexadecimal digits>", known, chart)
		}
	}
	switch {
	case r.Repository != "" && r.local():
		if !fs.ValidPath(r.Repository) {
			return invalid("repository %q is not a folder of the checkout", r.Repository)
		}
	case strings.HasPrefix(r.Repository, ociScheme):
		if strings.Trim(r.Repository[len(ociScheme):], "/") == "" {
			return invalid("repository %q is not of the form oci://host/path", r.Repository)
		}
	default:
		if reason := indexProblem(r.Repository); reason != "" {
			return invalid("repository %s", reason)
		}
	}
	return nil
}

// indexProblem says why a URL is not that of a Helm repository. A URL with a password
// in it is not repeated.
func indexProblem(repository string) string {
	u, err := url.Parse(repository)
	switch {
	case err != nil:
		return "is not a URL"
	case u.User != nil:
		return fmt.Sprintf("https://%s/… contains a user or a password, which do not belong in Git: name a Secret under spec.charts.registries of the NodeSync", u.Host)
	case u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		return fmt.Sprintf("%q is not oci://host/path, https://host/path or a path in the repository", repository)
	case u.RawQuery != "" || u.Fragment != "":
		return fmt.Sprintf("%q has a query or a fragment: use the URL of the folder that contains index.yaml", repository)
	case u.Scheme == "http" && !loopback(u.Host):
		return fmt.Sprintf("%q is plain HTTP, which only loopback addresses may use: use https://", repository)
	}
	return ""
}

// registry returns host/path/<chart>, and whether it is in plain HTTP.
func (r Ref) registry(chart string) (name string, plain bool) {
	base := strings.TrimRight(strings.TrimPrefix(r.Repository, ociScheme), "/")
	host, _, _ := strings.Cut(base, "/")
	return base + "/" + chart, loopback(host)
}

// loopback says whether a host, with or without a port, is this very machine.
func loopback(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return host == "localhost" || (ip != nil && ip.IsLoopback())
}

// String names a Ref in messages.
func (r Ref) String() string { return r.Repository + " " + r.Version }
