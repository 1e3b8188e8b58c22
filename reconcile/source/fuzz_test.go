package source

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

// scripted is a session whose host sends what the test defines.
type scripted struct {
	session
	says []byte
	ref  v1alpha1.GitRef
	// refs, if set, is returned instead of that.
	refs *packp.AdvRefs
}

func (s scripted) AdvertisedReferencesContext(context.Context) (*packp.AdvRefs, error) {
	if s.refs != nil {
		return s.refs, nil
	}
	return readReferences(bytes.NewReader(s.says), s.ref, nil)
}

// For any reference and any host, the result is an error of this package, or something that the host has and that the
// revision names.
func FuzzReference(f *testing.F) {
	f.Add("main", "", "", "", "", "refs/heads/main refs/tags/v1.0.0 HEAD")
	f.Add("", "v1.0.0", "", "", "", "refs/tags/v1.0.0")
	f.Add("", "", ">=1.0.0", "", "", "refs/tags/v1.0.0 refs/tags/v2.0.0 refs/tags/latest")
	f.Add("", "", "", "refs/pull/1/head", "", "refs/pull/1/head")
	f.Add("release", "", "", "", "0123456789012345678901234567890123456789", "refs/heads/release")
	f.Fuzz(func(t *testing.T, branch, tag, semver, name, commit, names string) {
		has := refs{tips: map[string]plumbing.Hash{}}
		for _, full := range strings.Fields(names) {
			has.tips[full] = plumbing.ComputeHash(plumbing.CommitObject, []byte(full))
		}
		ref := v1alpha1.GitRef{Branch: branch, Tag: tag, SemVer: semver, Name: name, Commit: commit}
		got, err := resolve(ref, has, "https://example.com/x")
		if err != nil {
			if !ours(err) {
				t.Fatalf("error %T: %v", err, err)
			}
			return
		}
		if commit == "" {
			known := false
			for full, tip := range has.tips {
				known = known || tip == got.commit && strings.HasSuffix(full, got.label)
			}
			if !known {
				t.Fatalf("%+v is nothing that the host has: %q", got, names)
			}
		}
		hash := got.commit.String()
		if commit != "" && !strings.EqualFold(commit, hash) {
			t.Fatalf("commit %q came to %s", commit, hash)
		}
		revision := got.revision()
		if !strings.HasSuffix(revision, "sha1:"+hash) || !strings.HasPrefix(revision, got.label) {
			t.Fatalf("the revision of %+v is %q", got, revision)
		}
		if short := render.ShortRevision(revision); short != strings.TrimSuffix(revision, hash[8:]) {
			t.Fatalf("%q is cut to %q", revision, short)
		}
	})
}

// Whatever a host sends as its references can be resolved, or is an error that can be classified.
func FuzzAdvertisedReferences(f *testing.F) {
	const tip = "0123456789012345678901234567890123456789"
	f.Add([]byte(pkt(tip+" HEAD\x00multi_ack side-band-64k shallow symref=HEAD:refs/heads/main\n") + pkt(tip+" refs/heads/main\n") + pkt(tip+" refs/tags/v1.0.0\n") + pkt(tip+" refs/tags/v1.0.0^{}\n") + pkt("shallow "+tip) + "0000"))
	f.Add([]byte(pkt("# service=git-upload-pack\n") + "0000" + pkt(tip+" refs/heads/main\x00\n") + "0000"))
	f.Add([]byte(pkt(strings.Repeat("0", 40)+" capabilities^{}\x00shallow\n") + "0000"))
	f.Add([]byte(pkt("ERR no such repository\n")))
	f.Add([]byte(pkt("version 2\n") + "0000"))
	f.Add([]byte("0000"))
	f.Add([]byte("<html>"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, says []byte) {
		for _, ref := range []v1alpha1.GitRef{{}, {Tag: "v1.0.0"}, {SemVer: "*"}, {Name: "HEAD"}, {Commit: tip}} {
			ar, has, err := advertised(t.Context(), scripted{says: says, ref: ref})
			if err != nil {
				if c := classify(t.Context(), err, Request{URL: "https://example.com/x"}); !ours(c) {
					t.Fatalf("error %T: %v", c, c)
				}
				continue
			}
			c := &conversation{ar: ar, has: has}
			if c.target, err = resolve(ref, has, ""); err != nil {
				if !ours(err) {
					t.Fatalf("error %T: %v", err, err)
				}
				continue
			}
			r, err := c.first(Request{URL: "https://example.com/x", Ref: ref})
			if err != nil {
				if !ours(err) {
					t.Fatalf("error %T: %v", err, err)
				}
				continue
			}
			if err := r.UploadRequest.Encode(&bytes.Buffer{}); err != nil {
				t.Fatalf("a request that cannot be sent: %v", err)
			}
		}
	})
}

// pkt is a line as git frames it.
func pkt(line string) string {
	const digits = "0123456789abcdef"
	n := len(line) + 4
	return string([]byte{digits[n>>12&15], digits[n>>8&15], digits[n>>4&15], digits[n&15]}) + line
}

// For any Secret, the result is an error that names a key and no value, or usable credentials.
func FuzzCredentialsFromSecret(f *testing.F) {
	f.Add("u", "p", "", "", "", "")
	f.Add("", "", "token", "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n", "", "")
	f.Add("", "", "", "", "-----BEGIN OPENSSH PRIVATE KEY-----\nAA==\n-----END OPENSSH PRIVATE KEY-----\n", "example.com ssh-ed25519 AAAA")
	f.Add("", "pass phrase", "", "", "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\nAA==\n-----END RSA PRIVATE KEY-----\n", "|1|a|b ssh-rsa AA")
	f.Fuzz(func(t *testing.T, username, password, bearer, ca, identity, known string) {
		data := map[string][]byte{
			keyUsername: []byte(username), keyPassword: []byte(password), keyBearerToken: []byte(bearer),
			keyCA: []byte(ca), keyIdentity: []byte(identity), keyKnownHosts: []byte(known),
		}
		c, err := CredentialsFromSecret(data)
		if err != nil {
			wantSecretError(t, err, data)
			return
		}
		if identity != "" {
			if _, err := c.signer(); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := authorities(c.CA); err != nil {
			t.Fatal(err)
		}
		_ = httpAuth(c)
		if _, err := readKnownHosts(c.KnownHosts, t.TempDir()); err != nil {
			wantSecretError(t, err, data)
		}
	})
}

// wantSecretError verifies that an error is no longer than its own words, so that it cannot contain a value.
func wantSecretError(t *testing.T, err error, data map[string][]byte) {
	t.Helper()
	var secret *SecretError
	if !errors.As(err, &secret) {
		t.Fatalf("error %T: %v", err, err)
	}
	if _, ok := data[secret.Key]; !ok {
		t.Fatalf("the error names %q, which is no key: %v", secret.Key, err)
	}
	for key, value := range data {
		if len(value) > 20 && strings.Contains(err.Error(), string(value)) {
			t.Fatalf("the value of %s is in %v", key, err)
		}
	}
}
