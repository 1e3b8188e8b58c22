package grant

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

func TestCheck(t *testing.T) {
	cases := map[string]struct {
		hosts, nodeSyncs string // "-" if there is no annotation
		address          string
		policy           Policy
		refused          string // a part of the reason; empty if it is allowed
	}{
		"its host":                         {"git.example.com", "-", "https://git.example.com/acme/fleet.git", Policy{}, ""},
		"its host over ssh":                {"git.example.com", "-", "ssh://git@git.example.com/acme/fleet.git", Policy{}, ""},
		"one of several":                   {"ghcr.io, Git.Example.com", "-", "https://git.example.com/acme/fleet.git", Policy{}, ""},
		"its host at any port":             {"git.example.com", "-", "https://git.example.com:8443/fleet.git", Policy{}, ""},
		"its port":                         {"git.example.com:8443", "-", "https://git.example.com:8443/fleet.git", Policy{}, ""},
		"another port":                     {"git.example.com:8443", "-", "https://git.example.com:9443/fleet.git", Policy{}, "does not list that host"},
		"a registry's host":                {"registry.example.com:5000", "-", "registry.example.com:5000", Policy{}, ""},
		"another host":                     {"git.example.com", "-", "https://evil.example.com/x.git", Policy{}, "does not list that host"},
		"a host that ends like its":        {"example.com", "-", "https://evil-example.com/x.git", Policy{}, "does not list that host"},
		"a host below its":                 {"example.com", "-", "https://evil.example.com/x.git", Policy{}, "does not list that host"},
		"its host as a user of another":    {"git.example.com", "-", "https://git.example.com@evil.com/x.git", Policy{}, "does not list that host"},
		"no annotation":                    {"-", "-", "https://git.example.com/x.git", Policy{}, "kubectl annotate secret fleet-auth -n plumbline-system plumbline.dev/hosts=git.example.com"},
		"no annotation, as of old":         {"-", "-", "https://git.example.com/x.git", Policy{Unannotated: true}, ""},
		"an annotation counts as of old":   {"git.example.com", "-", "https://evil.com/x.git", Policy{Unannotated: true}, "does not list that host"},
		"an empty annotation":              {"", "-", "https://git.example.com/x.git", Policy{}, "does not list that host"},
		"its NodeSync":                     {"git.example.com", "prod-eu,prod-us", "https://git.example.com/x.git", Policy{}, ""},
		"another NodeSync":                 {"git.example.com", "prod-us", "https://git.example.com/x.git", Policy{}, "does not list NodeSync prod-eu"},
		"another NodeSync, as of old":      {"-", "prod-us", "https://git.example.com/x.git", Policy{Unannotated: true}, "does not list NodeSync prod-eu"},
		"plain HTTP":                       {"git.example.com", "-", "http://git.example.com/x.git", Policy{}, "plain HTTP"},
		"plain HTTP, as of old":            {"-", "-", "http://git.example.com/x.git", Policy{Unannotated: true}, "plain HTTP"},
		"plain HTTP on loopback":           {"127.0.0.1", "-", "http://127.0.0.1:3000/x.git", Policy{}, ""},
		"plain HTTP to what looks like it": {"127.0.0.1.example.com", "-", "http://127.0.0.1.example.com/x.git", Policy{}, "plain HTTP"},
		"IPv6":                             {"::1", "-", "http://[::1]:3000/x.git", Policy{}, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "plumbline-system", Name: "fleet-auth", Annotations: map[string]string{}}}
			if c.hosts != "-" {
				secret.Annotations[v1alpha1.HostsAnnotation] = c.hosts
			}
			if c.nodeSyncs != "-" {
				secret.Annotations[v1alpha1.NodeSyncsAnnotation] = c.nodeSyncs
			}
			err := c.policy.Check(secret, Use{NodeSync: "prod-eu", Address: c.address})
			var refused *RefusedError
			switch {
			case c.refused == "" && err != nil:
				t.Errorf("refused: %v", err)
			case c.refused != "" && (!errors.As(err, &refused) || !strings.Contains(refused.Reason, c.refused)):
				t.Errorf("%v, want it refused as %q", err, c.refused)
			}
		})
	}
}
