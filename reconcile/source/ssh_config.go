package source

import (
	"bytes"
	"errors"
	"net"
	"os"

	"github.com/go-git/go-git/v5/plumbing/transport"
	"github.com/skeema/knownhosts"
	"golang.org/x/crypto/ssh"
)

// errNoKey says that ssh has nothing to begin with.
var errNoKey = errors.New("ssh needs identity and known_hosts")

// sshConfig holds the host to known_hosts, strictly.
func sshConfig(ep *transport.Endpoint, addr string, req Request, dir string) (*ssh.ClientConfig, error) {
	if req.anonymous() && len(req.Credentials.KnownHosts) == 0 {
		return nil, &AuthError{URL: bare(req.URL), Anonymous: true, Err: errNoKey}
	}
	signer, err := req.Credentials.signer()
	if err != nil {
		return nil, err
	}
	if len(bytes.TrimSpace(req.Credentials.KnownHosts)) == 0 {
		return nil, &HostKeyError{URL: bare(req.URL), Host: addr}
	}
	db, err := readKnownHosts(req.Credentials.KnownHosts, dir)
	if err != nil {
		return nil, err
	}
	user := ep.User
	if user == "" {
		user = sshUser
	}
	return &ssh.ClientConfig{
		User: user,
		Auth: []ssh.AuthMethod{ssh.PublicKeys(signer)},
		HostKeyCallback: func(host string, remote net.Addr, key ssh.PublicKey) error {
			err := db.HostKeyCallback()(host, remote, key)
			if err == nil {
				return nil
			}
			return &HostKeyError{
				URL: bare(req.URL), Host: addr,
				Changed: knownhosts.IsHostKeyChanged(err), Fingerprint: ssh.FingerprintSHA256(key),
			}
		},
		// Without these the host may offer a key of a kind that known_hosts
		// has not, although it has another that is known.
		HostKeyAlgorithms: db.HostKeyAlgorithms(addr),
	}, nil
}

// readKnownHosts goes by way of a file, because the library reads nothing else.
func readKnownHosts(data []byte, dir string) (*knownhosts.HostKeyDB, error) {
	f, err := os.CreateTemp(dir, "known_hosts")
	if err != nil {
		return nil, &StoreError{Err: err}
	}
	defer func() { _ = os.Remove(f.Name()) }()
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, &StoreError{Err: err}
	}
	db, err := knownhosts.NewDB(f.Name())
	if err != nil {
		return nil, &SecretError{Key: keyKnownHosts, Reason: "is not written as ssh writes it"}
	}
	return db, nil
}
