package signature_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
)

// weakPGP creates an RSA key with the given number of bits.
func weakPGP(t *testing.T, bits int) *pgpSigner {
	t.Helper()
	t.Setenv("GODEBUG", "rsa1024min=0")
	at := now.AddDate(-1, 0, 0)
	entity, err := openpgp.NewEntity("Rob", "", "rob@example.com", &packet.Config{Time: func() time.Time { return at }, Algorithm: packet.PubKeyAlgoRSA, RSABits: bits})
	if err != nil {
		t.Fatal(err)
	}
	return &pgpSigner{entity: entity, at: at}
}

// fixed is a signature over body(parent) that was made with gpg.
type fixed string

func (f fixed) read(t *testing.T, suffix string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", string(f)+suffix))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func (f fixed) sign(t *testing.T, _ string) string { t.Helper(); return f.read(t, ".sig") }
func (f fixed) public(t *testing.T) string         { t.Helper(); return f.read(t, ".asc") }

// several is more than one signature in one armor.
type several []*pgpSigner

func (s several) sign(t *testing.T, payload string) string {
	t.Helper()
	var packets bytes.Buffer
	for _, one := range s {
		block, err := armor.Decode(strings.NewReader(one.sign(t, payload)))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := packets.ReadFrom(block.Body); err != nil {
			t.Fatal(err)
		}
	}
	return armoredBytes(t, packets.Bytes())
}

func (s several) public(*testing.T) string { return "" }

func armoredBytes(t *testing.T, packets []byte) string {
	t.Helper()
	var out bytes.Buffer
	w, err := armor.Encode(&out, openpgp.SignatureType, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(packets); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String() + "\n"
}

// hashed is a signer whose signatures claim to use a hash, by its number in OpenPGP.
type hashed struct {
	*pgpSigner
	id byte
}

func (h hashed) sign(t *testing.T, payload string) string {
	t.Helper()
	block, err := armor.Decode(strings.NewReader(h.pgpSigner.sign(t, payload)))
	if err != nil {
		t.Fatal(err)
	}
	var packets bytes.Buffer
	if _, err := packets.ReadFrom(block.Body); err != nil {
		t.Fatal(err)
	}
	raw := packets.Bytes()
	start := bytes.Index(raw, []byte{4, 0}) // version and type, then the key's algorithm, then the hash
	raw[start+3] = h.id
	return armoredBytes(t, raw)
}

// TestWeakSignatures shows that signatures by weak algorithms are refused, because others could forge them.
func TestWeakSignatures(t *testing.T) {
	year := now.AddDate(-1, 0, 0)
	alice, bob := newPGP(t, year, 0), newPGP(t, year, 0)
	small := weakPGP(t, 1024)
	for name, c := range map[string]struct {
		by   signer
		want string // empty if it counts
	}{
		"as it should be":      {alice, ""},
		"RSA of 2048 bits":     {weakPGP(t, 2048), ""},
		"RSA of 1024 bits":     {small, "has a signature of OpenPGP key " + small.id() + " of signer.asc by an RSA key of 1024 bits, and 2048 are the least"},
		"SHA-1":                {fixed("sha1"), " of signer.asc by the weak hash SHA-1"},
		"MD5":                  {hashed{alice, 1}, "an algorithm that is not accepted, such as MD5"},
		"DSA":                  {fixed("dsa"), " of signer.asc by the weak algorithm DSA"},
		"two of the same":      {several{alice, alice}, "has more than one signature"},
		"a stranger's, theirs": {several{bob, alice}, "has more than one signature"},
	} {
		t.Run(name, func(t *testing.T) {
			keys := secret(t, map[string]string{"signer.asc": c.by.public(t), "alice.asc": alice.public(t)})
			who, _, err := keys.Commit(asCommit(commit(t, c.by)), now)
			switch {
			case c.want == "" && err != nil:
				t.Errorf("refused: %v", err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || who != ""):
				t.Errorf("Commit() = %q, %v, want %q", who, err, c.want)
			}
		})
	}
}
