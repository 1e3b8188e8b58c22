package signature

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/hiddeco/sshsig"
	gossh "golang.org/x/crypto/ssh"
)

// Signer makes SSH signatures as Git does.
type Signer struct {
	key gossh.Signer
}

// NewSigner parses a private key in PEM or OpenSSH form; password decrypts it. The error never repeats the key.
func NewSigner(identity, password []byte) (Signer, error) {
	if len(bytes.TrimSpace(identity)) == 0 {
		return Signer{}, errors.New("it has no private SSH key in the entry identity: make one with ssh-keygen -t ed25519")
	}
	key, err := gossh.ParsePrivateKey(identity)
	if missing := (*gossh.PassphraseMissingError)(nil); errors.As(err, &missing) {
		if len(password) == 0 {
			return Signer{}, errors.New("the key in the entry identity is encrypted: add its password in the entry password")
		}
		key, err = gossh.ParsePrivateKeyWithPassphrase(identity, password)
	}
	if err != nil {
		return Signer{}, errors.New("the entry identity is not a private key in PEM or OpenSSH form, or password does not decrypt it")
	}
	return Signer{key: key}, nil
}

// Sign returns the armored signature of a text.
func (s Signer) Sign(payload []byte) (string, error) {
	sig, err := sshsig.Sign(bytes.NewReader(payload), s.key, sshsig.HashSHA512, namespace)
	if err != nil {
		return "", fmt.Errorf("sign with the key in the entry identity: %w", err)
	}
	return string(sshsig.Armor(sig)), nil
}

// Public returns the public key, in the format of authorized_keys.
func (s Signer) Public() string {
	return string(bytes.TrimSpace(gossh.MarshalAuthorizedKey(s.key.PublicKey())))
}
