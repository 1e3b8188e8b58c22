package kube

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// The files of an identity, in the folder "pki" of a control plane.
const (
	caCertFile      = "ca.crt"
	caKeyFile       = "ca.key"
	accountKeyFile  = "service-account.key"
	accountPubFile  = "service-account.pub"
	adminTokenFile  = "admin.token"
	tokensFile      = "tokens.csv"
	servingCertFile = "serving.crt"
	servingKeyFile  = "serving.key"
)

// identity is what a copy of a control plane keeps: its certificate authority, the key that signs service-account
// tokens, and the administrator's token.
type identity struct {
	dir   string
	caPEM []byte
	ca    *x509.Certificate
	caKey crypto.Signer
	admin string
}

// openIdentity reads the identity in dir, or creates one.
func openIdentity(dir string) (*identity, error) {
	_, err := os.Stat(filepath.Join(dir, caCertFile))
	if errors.Is(err, fs.ErrNotExist) {
		err = makeIdentity(dir)
	}
	if err != nil {
		return nil, fmt.Errorf("make the control plane's keys in %s: %w", dir, err)
	}
	id, err := readIdentity(dir)
	if err != nil {
		return nil, fmt.Errorf("read the control plane's keys in %s: %w", dir, err)
	}
	return id, nil
}

func makeIdentity(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	token, err := randomToken()
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, adminTokenFile), []byte(token), 0o600); err != nil {
		return err
	}
	if err := makeAccountKey(dir); err != nil {
		return err
	}
	return makeAuthority(dir)
}

func makeAccountKey(dir string) error {
	key, err := newKey()
	if err != nil {
		return err
	}
	if err := writeKey(filepath.Join(dir, accountKeyFile), key); err != nil {
		return err
	}
	pub, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return err
	}
	return writePEM(filepath.Join(dir, accountPubFile), "PUBLIC KEY", pub)
}

func readIdentity(dir string) (*identity, error) {
	caPEM, err := os.ReadFile(filepath.Join(dir, caCertFile))
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(caPEM)
	if block == nil {
		return nil, fmt.Errorf("%s holds no PEM block", caCertFile)
	}
	ca, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("parse %s: %w", caCertFile, err)
	}
	key, err := readKey(filepath.Join(dir, caKeyFile))
	if err != nil {
		return nil, err
	}
	admin, err := os.ReadFile(filepath.Join(dir, adminTokenFile))
	if err != nil {
		return nil, err
	}
	return &identity{dir: dir, caPEM: caPEM, ca: ca, caKey: key, admin: string(admin)}, nil
}

func newKey() (crypto.Signer, error) {
	return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
}

func randomToken() (string, error) {
	raw := make([]byte, 24)
	if _, err := rand.Read(raw); err != nil {
		return "", err
	}
	return hex.EncodeToString(raw), nil
}

func writeKey(path string, key crypto.Signer) error {
	ec, ok := key.(*ecdsa.PrivateKey)
	if !ok {
		return fmt.Errorf("write %s: unexpected kind of key %T", path, key)
	}
	der, err := x509.MarshalECPrivateKey(ec)
	if err != nil {
		return err
	}
	return writePEM(path, "EC PRIVATE KEY", der)
}

func readKey(path string) (crypto.Signer, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, fmt.Errorf("%s holds no PEM block", path)
	}
	return x509.ParseECPrivateKey(block.Bytes)
}

func writePEM(path, kind string, der []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}
