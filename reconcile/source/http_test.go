package source_test

import (
	"encoding/pem"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/reconcile/source"
)

func TestCredentialsFromSecret(t *testing.T) {
	server := httptest.NewTLSServer(nil)
	t.Cleanup(server.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	_, plain := newKey(t)
	_, locked := newLockedKey(t)
	type data = map[string][]byte
	cases := map[string]struct {
		data data
		want source.Credentials
		key  string // of the SecretError
	}{
		"nothing": {data: data{}},
		"basic": {
			data: data{"username": []byte("u"), "password": []byte("p"), "ca.crt": ca},
			want: source.Credentials{Username: "u", Password: "p", CA: ca},
		},
		"bearer, older name of the authority": {
			data: data{"bearerToken": []byte("b"), "caFile": ca},
			want: source.Credentials{BearerToken: "b", CA: ca},
		},
		"identity": {
			data: data{"identity": plain, "identity.pub": []byte("x"), "known_hosts": []byte("k")},
			want: source.Credentials{Identity: plain, KnownHosts: []byte("k")},
		},
		"locked identity": {
			data: data{"identity": locked, "password": []byte(password), "known_hosts": []byte("k")},
			want: source.Credentials{Identity: locked, KnownHosts: []byte("k"), IdentityPassword: []byte(password)},
		},
		"two ways":                     {data: data{"password": []byte("hunter2"), "bearerToken": []byte("hunter2")}, key: "bearerToken"},
		"no certificate":               {data: data{"ca.crt": []byte("hunter2")}, key: "ca.crt"},
		"no key":                       {data: data{"identity": []byte("hunter2")}, key: "identity"},
		"locked identity, no password": {data: data{"identity": locked}, key: "password"},
		"locked identity, wrong":       {data: data{"identity": locked, "password": []byte("hunter2")}, key: "password"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := source.CredentialsFromSecret(c.data)
			if c.key != "" {
				secret, ok := err.(*source.SecretError) //nolint:errorlint // the very type is promised
				if !ok || secret.Key != c.key || strings.Contains(err.Error(), "hunter2") {
					t.Fatalf("error %v, want a SecretError of %s", err, c.key)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
