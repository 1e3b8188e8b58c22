package source

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"

	"golang.org/x/crypto/ssh"
)

// Credentials are what a Git host may ask for. The zero value asks as nobody.
type Credentials struct {
	Username, Password string
	BearerToken        string
	// CA is a PEM bundle of authorities, in addition to the system's.
	CA []byte
	// Identity is a private ssh key, KnownHosts the host keys to accept.
	Identity, KnownHosts []byte
	// IdentityPassword opens an encrypted Identity.
	IdentityPassword []byte
}

// anonymous says that there is nothing by which a host knows who asks: neither in a Secret nor,
// for HTTP, in the URL.
func (r Request) anonymous() bool {
	c := r.Credentials
	if at, err := url.Parse(r.URL); err == nil && at.User != nil && at.Scheme != "ssh" {
		return false
	}
	return c.Username == "" && c.Password == "" && c.BearerToken == "" && len(c.Identity) == 0
}

// The keys of a Secret, as Flux names them.
const (
	keyUsername    = "username"
	keyPassword    = "password"
	keyBearerToken = "bearerToken"
	keyCA          = "ca.crt"
	keyCAFile      = "caFile"
	keyIdentity    = "identity"
	keyKnownHosts  = "known_hosts"
)

// CredentialsFromSecret reads a Secret that is written as for Flux's
// GitRepository: username and password, or bearerToken; ca.crt (or caFile);
// identity, known_hosts and, for an encrypted identity, password. An error is a
// *SecretError, which names the key.
func CredentialsFromSecret(data map[string][]byte) (Credentials, error) {
	c := Credentials{
		Username:    string(data[keyUsername]),
		Password:    string(data[keyPassword]),
		BearerToken: string(data[keyBearerToken]),
		CA:          data[keyCA],
		Identity:    data[keyIdentity],
		KnownHosts:  data[keyKnownHosts],
	}
	if len(c.CA) == 0 {
		c.CA = data[keyCAFile]
	}
	if len(c.Identity) > 0 {
		// With an identity, Flux's key password is that of the identity.
		c.IdentityPassword, c.Username, c.Password = data[keyPassword], "", ""
	}
	if c.BearerToken != "" && c.Password != "" {
		return Credentials{}, &SecretError{Key: keyBearerToken, Reason: "stands beside password: keep one of the two"}
	}
	if len(c.CA) > 0 && !x509.NewCertPool().AppendCertsFromPEM(c.CA) {
		return Credentials{}, &SecretError{Key: keyCA, Reason: "holds no certificate in PEM form"}
	}
	if len(c.Identity) > 0 {
		if _, err := c.signer(); err != nil {
			return Credentials{}, err
		}
	}
	return c, nil
}

// signer opens the identity.
func (c Credentials) signer() (ssh.Signer, error) {
	if len(c.Identity) == 0 {
		return nil, &SecretError{Key: keyIdentity, Reason: "is missing: an ssh URL needs a private key"}
	}
	signer, err := ssh.ParsePrivateKey(c.Identity)
	if err == nil {
		return signer, nil
	}
	var missing *ssh.PassphraseMissingError
	if !errors.As(err, &missing) {
		return nil, &SecretError{Key: keyIdentity, Reason: "is no private key in PEM or OpenSSH form"}
	}
	if len(c.IdentityPassword) == 0 {
		return nil, &SecretError{Key: keyPassword, Reason: "is missing: the identity is encrypted"}
	}
	if signer, err = ssh.ParsePrivateKeyWithPassphrase(c.Identity, c.IdentityPassword); err != nil {
		return nil, &SecretError{Key: keyPassword, Reason: "does not open the identity"}
	}
	return signer, nil
}

// Secrets are the values that may not stand in any message.
func (c Credentials) Secrets() []string {
	return []string{c.Password, c.BearerToken, string(c.Identity), string(c.IdentityPassword)}
}

// SecretError says which key of a Secret cannot be used. It never holds a value.
type SecretError struct {
	Key, Reason string
}

// Error names the key and what is wrong with it.
func (e *SecretError) Error() string {
	return fmt.Sprintf("the key %s of the source's secret %s", e.Key, e.Reason)
}
