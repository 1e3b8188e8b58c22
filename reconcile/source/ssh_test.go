package source_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/source"
)

// sshHost serves a repository over ssh to one key.
type sshHost struct {
	*host
	addr   string
	config *ssh.ServerConfig
	root   string
	// readOnly is the host's message for a key without push access; empty if it has that.
	readOnly string
}

// Messages of hosts for a read-only key. Gitea sends its message after an empty line instead of the references.
const (
	githubReadOnly = "ERROR: The key you are authenticating with has been marked as read only.\nfatal: Could not read from remote repository.\n"
	giteaReadOnly  = "error:\nerror: Deploy Key: 1:fleet is not authorized to write to acme/fleet.\nerror:\n"
)

func newKey(t *testing.T) (ssh.Signer, []byte) {
	t.Helper()
	private := newPrivateKey(t)
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	return signer, pem.EncodeToMemory(plain)
}

func newPrivateKey(t *testing.T) ed25519.PrivateKey {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return private
}

// newLockedKey is a key with a password.
func newLockedKey(t *testing.T) (ssh.Signer, []byte) {
	t.Helper()
	private := newPrivateKey(t)
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	locked, err := ssh.MarshalPrivateKeyWithPassphrase(private, "", []byte(password))
	if err != nil {
		t.Fatal(err)
	}
	return signer, pem.EncodeToMemory(locked)
}

func newSSHHost(t *testing.T, client ssh.PublicKey, hostKeys ...ssh.Signer) *sshHost {
	t.Helper()
	h := newRepository(t)
	s := &sshHost{host: h, root: filepath.Dir(h.repository)}
	s.config = &ssh.ServerConfig{PublicKeyCallback: func(c ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		if c.User() != "git" || string(key.Marshal()) != string(client.Marshal()) {
			return nil, errors.New("no such key")
		}
		return nil, nil
	}}
	for _, key := range hostKeys {
		s.config.AddHostKey(key)
	}
	listener := listen(t, s.serve)
	s.addr = listener.Addr().String()
	s.url = "ssh://git@" + s.addr + "/fleet.git"
	return s
}

// listen passes each connection to serve until the test ends.
func listen(t *testing.T, serve func(net.Conn)) net.Listener {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go serve(conn)
		}
	}()
	return listener
}

func (s *sshHost) serve(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	_, channels, requests, err := ssh.NewServerConn(conn, s.config)
	if err != nil {
		return
	}
	go ssh.DiscardRequests(requests)
	for c := range channels {
		channel, requests, err := c.Accept()
		if err != nil {
			return
		}
		for r := range requests {
			if r.Type != "exec" {
				_ = r.Reply(false, nil)
				continue
			}
			_ = r.Reply(true, nil)
			s.run(channel, string(r.Payload[4:]))
			break
		}
		_ = channel.Close()
	}
}

func (s *sshHost) run(channel ssh.Channel, command string) {
	service, path, _ := strings.Cut(command, " '/")
	switch {
	case service == "git-receive-pack" && s.readOnly != "":
		if s.readOnly == giteaReadOnly {
			_, _ = io.WriteString(channel, "\n")
		}
		_, _ = io.WriteString(channel.Stderr(), s.readOnly)
		return
	case service != "git-receive-pack" && service != "git-upload-pack":
		_, _ = io.WriteString(channel.Stderr(), "not allowed: "+command)
		return
	}
	cmd := exec.Command("git", strings.TrimPrefix(service, "git-"), filepath.Join(s.root, strings.TrimSuffix(path, "'"))) // it exits when its connection closes
	cmd.Env, cmd.Stdout, cmd.Stderr = environment(), channel, channel.Stderr()
	in, err := cmd.StdinPipe() // so that an exiting program does not wait for more input
	if err != nil {
		return
	}
	go func() {
		_, _ = io.Copy(in, channel)
		_ = in.Close()
	}()
	status := 0
	if err := cmd.Run(); err != nil {
		status = 128
	}
	_, _ = channel.SendRequest("exit-status", false, ssh.Marshal(struct{ Code uint32 }{uint32(status)}))
}

func knownHosts(addr string, keys ...ssh.Signer) []byte {
	var b strings.Builder
	host, port, _ := net.SplitHostPort(addr)
	for _, k := range keys {
		fmt.Fprintf(&b, "[%s]:%s %s", host, port, ssh.MarshalAuthorizedKey(k.PublicKey()))
	}
	return []byte(b.String())
}

func TestFetchOverSSH(t *testing.T) {
	hostKey, _ := newKey(t)
	signer, plain := newKey(t)
	h := newSSHHost(t, signer.PublicKey(), hostKey)
	c := newClient(t, h.url, source.Options{})
	known := knownHosts(h.addr, hostKey)
	var err error
	c.request.Credentials, err = source.CredentialsFromSecret(map[string][]byte{"identity": plain, "known_hosts": known})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.fetch(t, v1alpha1.GitRef{})
	var gone *source.NotFoundError
	if !errors.As(err, &gone) || gone.What != "commit" {
		t.Fatalf("an empty repository: %v", err)
	}
	first := h.commit(t, "main", files{"a.yaml": "a"})
	wantContent(t, c.mustFetch(t, v1alpha1.GitRef{}), first, map[string]string{"a.yaml": "a"})
	second := h.commit(t, "main", files{"a.yaml": "aa"})
	wantContent(t, c.mustFetch(t, v1alpha1.GitRef{}), second, map[string]string{"a.yaml": "aa"})
	wantOneStore(t, c)

	c.request.URL = strings.Replace(h.url, "fleet", "other's!", 1)
	if _, err := c.fetch(t, v1alpha1.GitRef{}); !errors.As(err, &gone) || gone.What != "repository" {
		t.Errorf("a repository that is not there: %v", err)
	}
}

func TestFetchOverSSHWithALockedIdentity(t *testing.T) {
	hostKey, _ := newKey(t)
	signer, locked := newLockedKey(t)
	h := newSSHHost(t, signer.PublicKey(), hostKey)
	h.commit(t, "main", files{"a.yaml": "a"})
	c := newClient(t, h.url, source.Options{})
	c.request.Credentials = source.Credentials{Identity: locked, IdentityPassword: []byte(password), KnownHosts: knownHosts(h.addr, hostKey)}
	c.mustFetch(t, v1alpha1.GitRef{})
}

// With a host that has keys of several types, the known one is used.
func TestFetchOverSSHFromAHostWithTwoKeys(t *testing.T) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	first, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	second, _ := newKey(t)
	signer, plain := newKey(t)
	h := newSSHHost(t, signer.PublicKey(), first, second)
	h.commit(t, "main", files{"a.yaml": "a"})
	for _, known := range []ssh.Signer{first, second} {
		c := newClient(t, h.url, source.Options{})
		c.request.Credentials = source.Credentials{Identity: plain, KnownHosts: knownHosts(h.addr, known)}
		c.mustFetch(t, v1alpha1.GitRef{})
	}
}

func TestFetchOverSSHIsStrict(t *testing.T) {
	hostKey, _ := newKey(t)
	other, otherPlain := newKey(t)
	signer, plain := newKey(t)
	h := newSSHHost(t, signer.PublicKey(), hostKey)
	h.commit(t, "main", files{"a.yaml": "a"})
	key := func(changed, shown bool) func(error) bool {
		return func(err error) bool {
			var e *source.HostKeyError
			return errors.As(err, &e) && e.Changed == changed && (e.Fingerprint != "") == shown
		}
	}
	cases := map[string]struct {
		credentials source.Credentials
		is          func(error) bool
	}{
		"nothing at all": {source.Credentials{}, func(err error) bool {
			return as[*source.AuthError](err) && strings.Contains(err.Error(), "name a Secret with username and password (a token), bearerToken, or for ssh identity and known_hosts, in spec.source.git.secretRef")
		}},
		"no known hosts":       {source.Credentials{Identity: plain}, key(false, false)},
		"host is unknown":      {source.Credentials{Identity: plain, KnownHosts: knownHosts("127.0.0.2:1", other)}, key(false, true)},
		"host key changed":     {source.Credentials{Identity: plain, KnownHosts: knownHosts(h.addr, other)}, key(true, true)},
		"no identity":          {source.Credentials{KnownHosts: knownHosts(h.addr, hostKey)}, as[*source.SecretError]},
		"identity refused":     {source.Credentials{Identity: otherPlain, KnownHosts: knownHosts(h.addr, hostKey)}, as[*source.AuthError]},
		"known hosts unlikely": {source.Credentials{Identity: plain, KnownHosts: []byte("what is this")}, as[*source.SecretError]},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			client := newClient(t, h.url, source.Options{})
			client.request.Credentials = c.credentials
			_, err := client.fetch(t, v1alpha1.GitRef{})
			if err == nil || !c.is(err) {
				t.Fatalf("unexpected error %T: %v", err, err)
			}
		})
	}
}

func as[E error](err error) bool {
	var e E
	return errors.As(err, &e)
}
