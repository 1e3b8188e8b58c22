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

// Use is what credentials are wanted for.
type Use struct {
	// NodeSync is its name.
	NodeSync string
	// Address is the URL that they go to, or its host, with the port where the URL
	// has one. A host without a scheme is spoken to in HTTPS, but for loopback.
	Address string
}

// Policy is the daemon's.
type Policy struct {
	// Unannotated lets a Secret without the annotation of hosts go to any host.
	Unannotated bool
}

// Check returns a *RefusedError where the Secret is not for that use.
func (p Policy) Check(secret metav1.Object, use Use) error {
	scheme, host := split(use.Address)
	annotations := secret.GetAnnotations()
	refuse := func(reason string) error {
		return &RefusedError{Secret: secret.GetName(), Host: host, Reason: reason}
	}
	if scheme == "http" && !loopback(host) {
		return refuse("credentials are sent over plain HTTP to loopback addresses only: use https or ssh")
	}
	if names, limited := annotations[v1alpha1.NodeSyncsAnnotation]; limited && !slices.Contains(list(names), use.NodeSync) {
		return refuse(fmt.Sprintf("its annotation %s does not list NodeSync %s", v1alpha1.NodeSyncsAnnotation, use.NodeSync))
	}
	hosts, stated := annotations[v1alpha1.HostsAnnotation]
	switch {
	case !stated && p.Unannotated:
		return nil
	case !stated:
		return refuse(fmt.Sprintf("it does not say for which hosts it is: kubectl annotate secret %s -n %s %s=%s",
			secret.GetName(), secret.GetNamespace(), v1alpha1.HostsAnnotation, hostname(host)))
	case !slices.ContainsFunc(list(hosts), func(entry string) bool { return entry == host || entry == hostname(host) }):
		return refuse(fmt.Sprintf("its annotation %s does not list that host", v1alpha1.HostsAnnotation))
	}
	return nil
}

// RefusedError says why the credentials in a Secret are not sent to a host. It
// holds nothing of what is in the Secret.
type RefusedError struct {
	Secret, Host, Reason string
}

// Error names the Secret, the host and what to do.
func (e *RefusedError) Error() string {
	return fmt.Sprintf("secret %s is not used for %s: %s", e.Secret, e.Host, e.Reason)
}

// list reads names between commas.
func list(text string) []string {
	var entries []string
	for entry := range strings.SplitSeq(text, ",") {
		if entry = strings.ToLower(strings.TrimSpace(entry)); entry != "" {
			entries = append(entries, entry)
		}
	}
	return entries
}

// split reads an address. What is no URL is a host.
func split(address string) (scheme, host string) {
	if u, err := url.Parse(address); err == nil && u.Host != "" {
		return strings.ToLower(u.Scheme), strings.ToLower(u.Host)
	}
	return "", strings.ToLower(address)
}

// hostname is a host without its port.
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
