package githost

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"os"
	"strings"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// hostKey is the SSH server's private key, in the host's folder. Gitea's own would be RSA and take seconds to generate.
const hostKey = "keys/host"

// Key is an SSH key pair for a client.
type Key struct {
	// PrivateFile is an OpenSSH private key, readable only by its owner.
	PrivateFile string
	// Public is a line in the format of authorized_keys.
	Public string
}

// NewKey creates a key pair in the host's folder. The name must not have been used before.
func (h *Host) NewKey(name string) (Key, error) {
	file := h.path("keys/client-" + name)
	if _, err := os.Stat(file); err == nil {
		return Key{}, fmt.Errorf("make SSH key %s: it exists already", file)
	}
	public, err := writeKey(file)
	if err != nil {
		return Key{}, err
	}
	return Key{PrivateFile: file, Public: strings.TrimSpace(string(ssh.MarshalAuthorizedKey(public)))}, nil
}

// writeHostKey creates the server's key and the known_hosts file for clients.
func (h *Host) writeHostKey() error {
	public, err := writeKey(h.path(hostKey))
	if err != nil {
		return err
	}
	h.KnownHosts = h.path("keys/known_hosts")
	line := knownhosts.Line([]string{h.SSHAddress}, public) + "\n"
	if err := os.WriteFile(h.KnownHosts, []byte(line), 0o600); err != nil {
		return fmt.Errorf("write the Git host's known_hosts: %w", err)
	}
	return nil
}

func writeKey(file string) (ssh.PublicKey, error) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make SSH key %s: %w", file, err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		return nil, fmt.Errorf("make SSH key %s: %w", file, err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		return nil, fmt.Errorf("encode SSH key %s: %w", file, err)
	}
	if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
		return nil, fmt.Errorf("write SSH key %s: %w", file, err)
	}
	return signer.PublicKey(), nil
}
