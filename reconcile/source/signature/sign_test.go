package signature_test

import (
	"crypto/ed25519"
	"encoding/pem"
	"strings"
	"testing"
	"time"

	gossh "golang.org/x/crypto/ssh"

	"github.com/plumbline-dev/plumbline/reconcile/source/signature"
)

// TestSign: what a Signer signs is verified with its public key, and with no other.
func TestSign(t *testing.T) {
	key := func(number byte, password string) []byte {
		seed := make([]byte, ed25519.SeedSize)
		seed[0] = number
		private := ed25519.NewKeyFromSeed(seed)
		block, err := gossh.MarshalPrivateKey(private, "")
		if password != "" {
			block, err = gossh.MarshalPrivateKeyWithPassphrase(private, "", []byte(password))
		}
		if err != nil {
			t.Fatal(err)
		}
		return pem.EncodeToMemory(block)
	}
	signer, err := signature.NewSigner(key(1, "s3cret"), []byte("s3cret"))
	if err != nil {
		t.Fatal(err)
	}
	other, err := signature.NewSigner(key(2, ""), nil)
	if err != nil {
		t.Fatal(err)
	}
	const tree = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
	header, message := "tree "+tree+"\nauthor A <a@b> 1700000000 +0000\ncommitter A <a@b> 1700000000 +0000\n", "\nx\n"
	armored, err := signer.Sign([]byte(header + message))
	if err != nil {
		t.Fatal(err)
	}
	data := header + "gpgsig " + strings.ReplaceAll(strings.TrimSuffix(armored, "\n"), "\n", "\n ") + "\n" + message
	for who, c := range map[string]struct {
		signer signature.Signer
		good   bool
	}{"its own key": {signer, true}, "another key": {other, false}} {
		keys, err := signature.KeysFromSecret("keys", map[string][]byte{"a.sshpub": []byte(c.signer.Public())})
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = keys.Commit(signature.Commit{Hash: strings.Repeat("a", 40), Data: []byte(data), Tree: tree}, time.Unix(1_700_000_000, 0))
		if (err == nil) != c.good {
			t.Errorf("%s: %v", who, err)
		}
	}
	for name, wrong := range map[string]struct{ identity, password string }{
		"none":           {" ", ""},
		"no key":         {"secret text", ""},
		"no password":    {string(key(1, "s3cret")), ""},
		"wrong password": {string(key(1, "s3cret")), "other"},
	} {
		if _, err := signature.NewSigner([]byte(wrong.identity), []byte(wrong.password)); err == nil || strings.Contains(err.Error(), "secret text") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
