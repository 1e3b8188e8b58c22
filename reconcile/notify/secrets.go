package notify

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/grant"
)

// credentials are what a receiver is reached with.
type credentials struct {
	Address, Token, Username, Password string
	// CA are authorities of the host, in PEM, beside the system's.
	CA []byte
}

// secrets are what no message repeats. The whole address is one: that of Slack and of Teams is all
// that it takes to write there.
func (c credentials) secrets() []string {
	all := []string{c.Address, c.Token, c.Password}
	if at, err := url.Parse(c.Address); err == nil {
		all = append(all, strings.Trim(at.Path, "/"), at.RawQuery)
	}
	return all
}

// open reads a Secret of the NodeSync's namespace, where it may be sent to the host that it names.
func open(ctx context.Context, reader client.Reader, grants grant.Policy, sync types.NamespacedName, name string) (credentials, error) {
	secret := &corev1.Secret{}
	if err := reader.Get(ctx, types.NamespacedName{Namespace: sync.Namespace, Name: name}, secret); err != nil {
		return credentials{}, fmt.Errorf("read secret %s: %w", name, err)
	}
	value := func(key string) string { return strings.TrimSpace(string(secret.Data[key])) }
	c := credentials{Address: value("address"), Token: value("token"), Username: value("username"), Password: value("password"), CA: secret.Data["ca.crt"]}
	at, err := url.Parse(c.Address)
	if err != nil || at.Host == "" || at.Scheme != "https" && at.Scheme != "http" {
		return credentials{}, fmt.Errorf("the key address of secret %s is no URL of http or https", name)
	}
	return c, grants.Check(secret, grant.Use{NodeSync: sync.Name, Address: c.Address})
}
