package signature_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
	"github.com/hiddeco/sshsig"
	gossh "golang.org/x/crypto/ssh"

	"github.com/plumbline-dev/plumbline/reconcile/source/signature"
)

// now is the time in these tests, at which keys are one year old.
var now = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

const (
	tree   = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
	parent = "1111111111111111111111111111111111111111"
	evil   = "6666666666666666666666666666666666666666"
	hash   = "abcdefabcdefabcdefabcdefabcdefabcdefabcd"
)

// body is a commit without a signature: its header, and its message.
func body(parents ...string) (header, message string) {
	header = "tree " + tree + "\n"
	for _, p := range parents {
		header += "parent " + p + "\n"
	}
	return header + "author A <a@example.com> 1790000000 +0200\ncommitter C <c@example.com> 1790000060 +0200\n", "\nAdd a pool\n"
}

// headed returns a signature as a header of a commit.
func headed(name, armored string) string {
	return name + " " + strings.ReplaceAll(strings.TrimSuffix(armored, "\n"), "\n", "\n ") + "\n"
}

type signer interface {
	sign(t *testing.T, payload string) string
	// public is the entry of a Secret.
	public(t *testing.T) string
}

// commit is a commit that is signed by a signer.
func commit(t *testing.T, by signer) string {
	header, message := body(parent)
	return header + headed("gpgsig", by.sign(t, header+message)) + message
}

func asCommit(data string) signature.Commit {
	return signature.Commit{Hash: hash, Data: []byte(data), Tree: tree, Parents: []string{parent}}
}

type pgpSigner struct {
	entity *openpgp.Entity
	at     time.Time
	text   bool
}

// newPGP creates a key at a time with the given lifetime; 0 means forever.
func newPGP(t *testing.T, at time.Time, lasts time.Duration) *pgpSigner {
	t.Helper()
	entity, err := openpgp.NewEntity("Alice", "", "alice@example.com", &packet.Config{Time: func() time.Time { return at }, KeyLifetimeSecs: uint32(lasts / time.Second), Algorithm: packet.PubKeyAlgoEdDSA})
	if err != nil {
		t.Fatal(err)
	}
	return &pgpSigner{entity: entity, at: at}
}

func (s *pgpSigner) sign(t *testing.T, payload string) string {
	t.Helper()
	var out bytes.Buffer
	sign := openpgp.ArmoredDetachSign
	if s.text {
		sign = openpgp.ArmoredDetachSignText
	}
	if err := sign(&out, s.entity, strings.NewReader(payload), &packet.Config{Time: func() time.Time { return s.at }}); err != nil {
		t.Fatal(err)
	}
	return out.String() + "\n"
}

func (s *pgpSigner) public(t *testing.T) string {
	t.Helper()
	return armored(t, openpgp.PublicKeyType, s.entity.Serialize)
}

func armored(t *testing.T, kind string, serialize func(io.Writer) error) string {
	t.Helper()
	var out bytes.Buffer
	w, err := armor.Encode(&out, kind, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := serialize(w); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String() + "\n"
}

func (s *pgpSigner) id() string { return fmt.Sprintf("%016X", s.entity.PrimaryKey.KeyId) }

type sshSigner struct {
	gossh.Signer
	namespace string
}

func newSSH(t *testing.T) *sshSigner {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	s, err := gossh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return &sshSigner{Signer: s, namespace: "git"}
}

func (s *sshSigner) sign(t *testing.T, payload string) string {
	t.Helper()
	sig, err := sshsig.Sign(strings.NewReader(payload), s.Signer, sshsig.HashSHA512, s.namespace)
	if err != nil {
		t.Fatal(err)
	}
	return string(sshsig.Armor(sig))
}

func (s *sshSigner) public(*testing.T) string {
	return string(gossh.MarshalAuthorizedKey(s.PublicKey()))
}

func (s *sshSigner) fingerprint() string { return gossh.FingerprintSHA256(s.PublicKey()) }

func weakRSA(t *testing.T) string {
	t.Helper()
	t.Setenv("GODEBUG", "rsa1024min=0")
	private, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	s, err := gossh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return string(gossh.MarshalAuthorizedKey(s.PublicKey()))
}
