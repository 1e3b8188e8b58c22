package charts

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCredentialsFromSecret(t *testing.T) {
	config := func(text string) map[string][]byte { return map[string][]byte{".dockerconfigjson": []byte(text)} }
	encoded := base64.StdEncoding.EncodeToString([]byte("ada:s3cret"))
	ada := Credentials{Username: "ada", Password: "s3cret"}
	tests := map[string]struct {
		data map[string][]byte
		want Credentials
		key  string
	}{
		"Flux's keys":        {map[string][]byte{"username": []byte("ada"), "password": []byte("s3cret\n")}, ada, ""},
		"docker":             {config(`{"auths": {"r.example.com:5000": {"username": "ada", "password": "s3cret"}}}`), ada, ""},
		"docker, encoded":    {config(`{"auths": {"r.example.com:5000": {"auth": "` + encoded + `"}, "other": {"auth": "eDp5"}}}`), ada, ""},
		"docker, with a URL": {config(`{"auths": {"https://r.example.com:5000/v2/": {"auth": "` + encoded + `"}}}`), ada, ""},
		"another host":       {config(`{"auths": {"r.example.com": {"auth": "` + encoded + `"}}}`), Credentials{}, ".dockerconfigjson"},
		"a token alone":      {config(`{"auths": {"r.example.com:5000": {"identitytoken": "s3cret"}}}`), Credentials{}, ".dockerconfigjson"},
		"no JSON":            {config(`s3cret`), Credentials{}, ".dockerconfigjson"},
		"no base64":          {config(`{"auths": {"r.example.com:5000": {"auth": "s3cret:"}}}`), Credentials{}, ".dockerconfigjson"},
		"no password":        {map[string][]byte{"username": []byte("s3cret")}, Credentials{}, "password"},
		"nothing":            {nil, Credentials{}, "username"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := CredentialsFromSecret(t.Context(), test.data, "r.example.com:5000")
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			var unusable *SecretError
			switch {
			case test.key == "" && err != nil:
				t.Error(err)
			case test.key != "" && (!errors.As(err, &unusable) || unusable.Key != test.key || strings.Contains(err.Error(), "s3cret")):
				t.Errorf("error %v, want one of the key %s", err, test.key)
			}
		})
	}
}
