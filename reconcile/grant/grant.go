package grant

import (
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// Use is the intended use of credentials.
type Use struct {
	// NodeSync is the name of the NodeSync.
	NodeSync string
	// Address is the URL that they are sent to, or its host, with the port if the URL has one. A host without a scheme
	// uses HTTPS, except loopback.
	Address string
}

// Policy is the configuration of the daemon.
type Policy struct {
	// Unannotated allows a Secret without the hosts annotation to be sent to any host.
	Unannotated bool
}

// Check returns a *RefusedError if the Secret does not allow that use.
func (p Policy) Check(secret metav1.Object, use Use) error {
	scheme, host := split(use.Address)
	annotations := secret.GetAnnotations()
	refuse := func(reason string) error {
		return &RefusedError{Secret: secret.GetName(), Host: host, Reason: reason}
	}
	if scheme == "http" && !loopback(host) {
		return refuse("credentials are sent over plain HTTP to loopback addresses only: use https or ssh")
	}
	if !lists(secret, use.NodeSync) {
		return refuse(fmt.Sprintf("its annotation %s does not list NodeSync %s", v1alpha1.NodeSyncsAnnotation, use.NodeSync))
	}
	hosts, stated := annotations[v1alpha1.HostsAnnotation]
	switch {
	case !stated && p.Unannotated:
		return nil
	case !stated:
		return refuse(fmt.Sprintf("it does not list the hosts that may receive it: kubectl annotate secret %s -n %s %s=%s",
			secret.GetName(), secret.GetNamespace(), v1alpha1.HostsAnnotation, hostname(host)))
	case !slices.ContainsFunc(list(hosts), func(entry string) bool { return entry == host || entry == hostname(host) }):
		return refuse(fmt.Sprintf("its annotation %s does not list that host", v1alpha1.HostsAnnotation))
	}
	return nil
}

// CheckNodeSync returns a *RefusedError if a Secret does not allow a NodeSync. Public keys and values of the chart are
// sent to no host, so the Secret need not list any.
func CheckNodeSync(secret metav1.Object, nodeSync string) error {
	if lists(secret, nodeSync) {
		return nil
	}
	return &RefusedError{
		Secret: secret.GetName(), Reason: fmt.Sprintf("its annotation %s does not list NodeSync %s", v1alpha1.NodeSyncsAnnotation, nodeSync),
	}
}

// lists reports whether a Secret allows a NodeSync: it lists the NodeSync, or has no list.
func lists(secret metav1.Object, nodeSync string) bool {
	names, limited := secret.GetAnnotations()[v1alpha1.NodeSyncsAnnotation]
	return !limited || slices.Contains(list(names), nodeSync)
}

// RefusedError is why the credentials in a Secret are not sent to a host, or, if Host is empty, why its keys are not
// used. It contains nothing of the Secret's data.
type RefusedError struct {
	Secret, Host, Reason string
}

// Error returns the Secret, the host and what to do.
func (e *RefusedError) Error() string {
	if e.Host == "" {
		return fmt.Sprintf("secret %s is not used: %s", e.Secret, e.Reason)
	}
	return fmt.Sprintf("secret %s is not used for %s: %s", e.Secret, e.Host, e.Reason)
}

// list parses a comma-separated list.
func list(text string) []string {
	var entries []string
	for entry := range strings.SplitSeq(text, ",") {
		if entry = strings.ToLower(strings.TrimSpace(entry)); entry != "" {
			entries = append(entries, entry)
		}
	}
	return entries
}

// split parses an address. Anything that is not a URL is a host.
func split(address string) (scheme, host string) {
	if u, err := url.Parse(address); err == nil && u.Host != "" {
		return strings.ToLower(u.Scheme), strings.ToLower(u.Host)
	}
	return "", strings.ToLower(address)
}

// hostname returns a host without its port.
func hostname(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return strings.Trim(host, "[]")
}

func loopback(host string) bool {
	name := hostname(host)
	ip := net.ParseIP(name)
	return name == "localhost" || ip != nil && ip.IsLoopback()
}
