package signature_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/plumbline-dev/plumbline/reconcile/source/signature"
)

func TestAllowedSigners(t *testing.T) {
	bob := newSSH(t)
	data, key := commit(t, bob), strings.TrimSpace(bob.public(t))
	cases := map[string]struct{ line, want string }{
		"plain":             {line: "bob@example.com " + key},
		"quoted principals": {line: `"bob@example.com,b@example.com" ` + key},
		"for git":           {line: `bob@example.com namespaces="git,file" ` + key},
		"for files":         {line: `bob@example.com namespaces="file" ` + key, want: "which is not for the namespace git"},
		"valid for now":     {line: `bob@example.com valid-after="20260101",valid-before="20270101Z" ` + key},
		"expired":           {line: `bob@example.com valid-before="202611220000" ` + key, want: "which expired on 2026-11-22"},
		"not yet":           {line: `bob@example.com valid-after="20270101" ` + key, want: "which is valid only after 2027-01-01"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			keys := secret(t, map[string]string{"team.allowed_signers": "# the team\n" + c.line + "\n"})
			who, _, err := keys.Commit(asCommit(data), now)
			switch {
			case c.want == "" && (err != nil || !strings.HasPrefix(who, "team.allowed_signers: ")):
				t.Errorf("Commit() = %q, %v", who, err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("Commit() = %q, %v, want %q", who, err, c.want)
			}
		})
	}
}

// A Secret that anyone may name says nothing of what is in it.
func TestSecretsWithoutAKey(t *testing.T) {
	private := newPGP(t, now, 0)
	bob := strings.TrimSpace(newSSH(t).public(t))
	cases := map[string]struct {
		data map[string]string
		want string
	}{
		"empty":             {want: "it has no entry"},
		"a password":        {data: map[string]string{"password": "hunter2"}, want: "password is no armored OpenPGP public key"},
		"a private key":     {data: map[string]string{"a.asc": strings.ReplaceAll(private.public(t), "PUBLIC", "PRIVATE")}, want: "a.asc has a private key"},
		"not ssh":           {data: map[string]string{"a.sshpub": "\nhunter2"}, want: "a.sshpub line 2 is no SSH public key"},
		"no line":           {data: map[string]string{"a.sshpub": "# hunter2\n"}, want: "a.sshpub is empty"},
		"a weak key":        {data: map[string]string{"a.sshpub": weakRSA(t)}, want: "is an RSA key of 1024 bits"},
		"no principals":     {data: map[string]string{"allowed_signers": "hunter2"}, want: "is no allowed signer"},
		"an authority":      {data: map[string]string{"allowed_signers": "a cert-authority " + bob}, want: "is an authority of certificates"},
		"an unknown option": {data: map[string]string{"allowed_signers": "a hunter2 " + bob}, want: "has an option that is not known"},
		"a time twice":      {data: map[string]string{"allowed_signers": `a valid-before="20260101",Valid-Before="20990101" ` + bob}, want: "has the option valid-before twice"},
		"a strange time":    {data: map[string]string{"allowed_signers": `a valid-before="hunter2" ` + bob}, want: "has a time that is not"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			data := map[string][]byte{}
			for entry, text := range c.data {
				data[entry] = []byte(text)
			}
			_, err := signature.KeysFromSecret("signers", data)
			var none *signature.KeysError
			if !errors.As(err, &none) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("KeysFromSecret() = %v, want %q", err, c.want)
			}
		})
	}
}
