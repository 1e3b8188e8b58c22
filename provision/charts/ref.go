package charts

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"
	"github.com/opencontainers/go-digest"
	"helm.sh/helm/v3/pkg/kube"

	"github.com/plumbline-dev/plumbline/contradiction"
)

// The names of the two charts, and of their releases.
const (
	CRDChart        = "karpenter-crd"
	ControllerChart = "karpenter"
)

// Ref identifies a version of the two charts, and their repository.
type Ref struct {
	// Repository holds both charts. It is one of
	//
	//	oci://host/path    an OCI registry
	//	https://host/path  a Helm repository, with its index.yaml
	//	a/path             a folder of the checkout, from its root
	//
	// Plain HTTP is allowed only for loopback addresses: a registry there always uses it,
	// and a Helm repository may use http://.
	Repository string
	// Version is a full semantic version without a leading v.
	Version string
	// Digests are the required digests of the two charts.
	Digests Digests
	// InForce are the digests that this version of this repository has in the cluster. These are pulled even if the
	// version's tag has moved, unless Digests pins others. They do not apply to charts of the checkout: only a commit
	// changes those.
	InForce Digests
}

// Digests pin the charts, as sha256:<hex>: the manifest in an OCI registry, otherwise the archive. An empty one pins
// nothing.
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

// requiredDigest returns the required digest of a chart; empty if any is accepted.
func (r Ref) requiredDigest(chart string) digest.Digest {
	if pin := r.Digests.of(chart); pin != "" || r.local() {
		return pin
	}
	return r.InForce.of(chart)
}

const ociScheme = "oci://"

// local reports whether the charts are in the checkout.
func (r Ref) local() bool { return !strings.Contains(r.Repository, "://") }

// check refuses a Ref that cannot be requested.
func (r Ref) check() error {
	invalid := func(format string, args ...any) error {
		return &InvalidRefError{Ref: r, Reason: fmt.Sprintf(format, args...)}
	}
	if _, err := semver.StrictNewVersion(r.Version); err != nil {
		return invalid("version %q is not a full semantic version such as 1.15.0: %v", r.Version, err)
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

// indexProblem returns why a URL is not that of a Helm repository. It does not repeat a URL with a password.
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

// registry returns host/path/<chart>, and whether it uses plain HTTP.
func (r Ref) registry(chart string) (name string, plain bool) {
	base := strings.TrimRight(strings.TrimPrefix(r.Repository, ociScheme), "/")
	host, _, _ := strings.Cut(base, "/")
	return base + "/" + chart, loopback(host)
}

// loopback reports whether a host, with or without a port, is this machine.
func loopback(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return host == "localhost" || (ip != nil && ip.IsLoopback())
}

// String names a Ref in messages.
func (r Ref) String() string { return r.Repository + " " + r.Version }

// Installation describes how the main chart is installed.
type Installation struct {
	// Namespace of both releases. It must exist.
	Namespace string
	// Cluster and Region are the cluster's name and region in AWS.
	Cluster, Region string
	// InterruptionQueue and ControllerRole become values if they are not empty.
	InterruptionQueue, ControllerRole string `json:",omitempty"`
	// Values of the main chart, merged.
	Values map[string]any
	// Sealed replaces Values in every fingerprint if a Secret contains some of them, because the hash of a short secret
	// can be guessed. See Values.
	Sealed string `json:",omitempty"`
}

// regionVariable has no setting in the chart (its values.yaml mentions it under controller.env). Without it the
// controller queries the instance metadata (karpenter-provider-aws pkg/operator/operator.go), which a pod cannot reach
// with a hop limit of one.
const regionVariable = "AWS_REGION"

// crdValues keep every CRD when its release is uninstalled: deleting a CRD deletes every node.
// https://helm.sh/docs/howto/charts_tips_and_tricks/#tell-helm-not-to-uninstall-a-resource
func crdValues() map[string]any {
	return map[string]any{"additionalAnnotations": map[string]any{kube.ResourcePolicyAnno: kube.KeepPolicy}}
}

// ValuesError reports that a value does not have the type that the chart expects.
type ValuesError struct {
	Value, Reason string
}

// Error names the value.
func (e *ValuesError) Error() string { return fmt.Sprintf("values.%s %s", e.Value, e.Reason) }

// values returns Git's values with the cluster's settings of plumbline.yaml added. It does not modify Git's values.
func (i Installation) values() (map[string]any, error) {
	if found := contradiction.Of(contradiction.Cluster{
		Name: i.Cluster, Region: i.Region, InterruptionQueue: i.InterruptionQueue, ControllerRole: i.ControllerRole,
	}, i.Values, "values."); len(found) > 0 {
		return nil, found[0]
	}
	values := maps.Clone(i.Values)
	if values == nil {
		values = map[string]any{}
	}
	settings, err := child(values, "settings", "settings")
	if err != nil {
		return nil, err
	}
	fill(settings, "clusterName", i.Cluster)
	fill(settings, "interruptionQueue", i.InterruptionQueue)
	if err := i.fillRole(values); err != nil {
		return nil, err
	}
	controller, err := child(values, "controller", "controller")
	if err != nil {
		return nil, err
	}
	controller["env"], err = i.env(controller["env"])
	return values, err
}

// fillRole sets the role of the service account, if plumbline.yaml has one.
func (i Installation) fillRole(values map[string]any) error {
	if i.ControllerRole == "" {
		return nil
	}
	account, err := child(values, "serviceAccount", "serviceAccount")
	if err != nil {
		return err
	}
	annotations, err := child(account, "annotations", "serviceAccount.annotations")
	if err != nil {
		return err
	}
	fill(annotations, contradiction.RoleAnnotation, i.ControllerRole)
	return nil
}

// fill sets a value from a field of plumbline.yaml, unless it is empty there.
func fill(values map[string]any, name, want string) {
	if want != "" {
		values[name] = want
	}
}

// child replaces a map in values by a copy, and returns the copy. at is its path.
func child(values map[string]any, name, at string) (map[string]any, error) {
	if values[name] == nil {
		values[name] = map[string]any{}
	}
	inner, ok := values[name].(map[string]any)
	if !ok {
		return nil, &ValuesError{Value: at, Reason: "is not a map"}
	}
	inner = maps.Clone(inner)
	values[name] = inner
	return inner, nil
}

// env returns the controller's environment with the region.
func (i Installation) env(env any) ([]any, error) {
	list, ok := env.([]any)
	if env != nil && !ok {
		return nil, &ValuesError{Value: "controller.env", Reason: "is not a list"}
	}
	for _, item := range list {
		if variable, _ := item.(map[string]any); variable["name"] == regionVariable {
			return list, nil
		}
	}
	return append(slices.Clone(list), map[string]any{"name": regionVariable, "value": i.Region}), nil
}

// Public returns the part of the Installation that may be hashed: without its values if a Secret contains some of them.
func (i Installation) Public() Installation {
	if i.Sealed != "" {
		i.Values = nil
	}
	return i
}

// identity returns what the fingerprint of the main chart's values is computed from.
func (i Installation) identity(values map[string]any) (any, error) {
	if i.Sealed == "" {
		return values, nil
	}
	filled, err := i.Public().values()
	return []any{i.Sealed, filled}, err
}

// fingerprint returns a hash that is short enough for a label.
func fingerprint(of any) (string, error) {
	raw, err := json.Marshal(of)
	if err != nil {
		return "", fmt.Errorf("encode the chart's values: %w", err)
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:16]), nil
}
