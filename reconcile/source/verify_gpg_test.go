package source_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/source/signature"
)

// gpgKey creates a key with gpg. It returns the public key and a program with which git signs.
func gpgKey(t *testing.T, user string) (public []byte, program string) {
	t.Helper()
	home, err := os.MkdirTemp("", "gpg") // a short name, because gpg's agent creates a socket in it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = exec.Command("gpgconf", "--homedir", home, "--kill", "all").Run() // it may have exited
		_ = os.RemoveAll(home)
	})
	options := []string{"--homedir", home, "--batch", "--quiet", "--pinentry-mode", "loopback", "--passphrase", ""}
	if out, err := exec.CommandContext(t.Context(), "gpg", append(options, "--quick-generate-key", user, "ed25519", "sign", "0")...).CombinedOutput(); err != nil {
		t.Fatalf("gpg: %v: %s", err, out)
	}
	if public, err = exec.CommandContext(t.Context(), "gpg", append(options, "--armor", "--export")...).Output(); err != nil {
		t.Fatal(err)
	}
	program = filepath.Join(home, "sign")
	script := "#!/bin/sh\nexec gpg '" + strings.Join(options, "' '") + "' \"$@\"\n"
	if err := os.WriteFile(program, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return public, program
}

// TestVerifyTagOfGPG verifies tags signed by gpg with a key of the Secret, with another key, and with a message changed
// afterwards.
func TestVerifyTagOfGPG(t *testing.T) {
	s := newSigned(t)
	public, alice := gpgKey(t, "alice@example.com")
	_, mallory := gpgKey(t, "mallory@example.com")
	var err error
	if s.keys, err = signature.KeysFromSecret("signers", map[string][]byte{"alice.asc": public}); err != nil {
		t.Fatal(err)
	}
	at := s.push(t, false)
	tag := func(name, program, user string) {
		t.Helper()
		s.git(t, "", "-c", "gpg.format=openpgp", "-c", "gpg.program="+program, "-c", "user.signingkey="+user, "tag", "-f", "-s", "-m", "r", name, at)
	}
	v1, v2 := v1alpha1.GitRef{Tag: "v1.0.0"}, v1alpha1.GitRef{Tag: "v2.0.0"}
	tag("v1.0.0", mallory, "mallory@example.com")
	s.fails(t, v1alpha1.VerifyTag, v1, "tag v1.0.0 is signed with")
	tag("v1.0.0", alice, "alice@example.com")
	found, err := s.verify(t, v1alpha1.VerifyTag, v1)
	if err != nil || !strings.HasPrefix(found.Signer, "alice.asc (") {
		t.Errorf("Verify() = %+v, %v", found, err)
	}
	forged := strings.Replace(s.git(t, "", "cat-file", "tag", "v1.0.0"), "tag v1.0.0\n", "tag v2.0.0\n", 1)
	git(t, s.repository, "", "update-ref", "refs/tags/v2.0.0", s.git(t, forged+"\n", "hash-object", "-t", "tag", "-w", "--stdin"))
	s.fails(t, v1alpha1.VerifyTag, v2, "signature")
}
