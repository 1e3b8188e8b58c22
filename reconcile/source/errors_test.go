package source

import (
	"errors"
	"io/fs"
	"net/url"
	"strings"
	"testing"
)

func TestRedact(t *testing.T) {
	const secret = "pa ss/w+rd"
	cases := map[string]struct {
		url         string
		credentials Credentials
	}{
		"password":          {"https://example.com/x", Credentials{Username: "u", Password: secret}},
		"bearer":            {"https://example.com/x", Credentials{BearerToken: secret}},
		"identity":          {"ssh://git@example.com/x", Credentials{Identity: []byte(secret)}},
		"identity's":        {"ssh://git@example.com/x", Credentials{IdentityPassword: []byte(secret)}},
		"in the url":        {"https://u:" + url.PathEscape(secret) + "@example.com/x", Credentials{}},
		"token in the url":  {"https://" + url.PathEscape(secret) + "@example.com/x", Credentials{}},
		"nothing to redact": {"%zz", Credentials{Password: secret}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			said := errors.Join(fs.ErrPermission, errors.New("as written "+secret+"; in a path "+url.PathEscape(secret)+"; in a form "+url.QueryEscape(secret)))
			err := hideSecrets(said, c.url, c.credentials)
			for _, form := range []string{secret, url.PathEscape(secret), url.QueryEscape(secret)} {
				if strings.Contains(err.Error(), form) {
					t.Errorf("%q is in %q", form, err)
				}
			}
			if !errors.Is(err, fs.ErrPermission) || errors.Unwrap(err) != nil {
				t.Error("the error can no longer be asked, or can be unwrapped to the secret")
			}
		})
	}
	if got := hideSecrets(errors.New(strings.Repeat("é ", 400)), "", Credentials{}).Error(); len(got) > 320 {
		t.Errorf("a message of %d bytes", len(got))
	}
}

func TestBare(t *testing.T) {
	for raw, want := range map[string]string{
		"https://u:p@example.com/x.git": "https://example.com/x.git",
		"ssh://git@example.com:22/x":    "ssh://example.com:22/x",
		"https://%zz:p@x":               "(not a URL)",
	} {
		if got := bare(raw); got != want {
			t.Errorf("%s: %s, want %s", raw, got, want)
		}
	}
}
