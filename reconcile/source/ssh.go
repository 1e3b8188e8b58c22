package source

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/format/pktline"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/sideband"
	"github.com/go-git/go-git/v5/plumbing/transport"
	"github.com/skeema/knownhosts"
	"golang.org/x/crypto/ssh"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

const (
	sshPort = 22
	sshUser = "git"
)

// sshSession is a connection to git-upload-pack or git-receive-pack over ssh.
//
// go-git has one too, but its handshake has no deadline, so that a host that accepts the connection and sends nothing
// would block a goroutine forever; and it reads the ssh configuration and agent of the user who runs the program.
type sshSession struct {
	client  *ssh.Client
	session *ssh.Session
	in      io.WriteCloser
	out     io.Reader
	ref     v1alpha1.GitRef
	records []string
	said    *firstBytes
	release func() bool
}

func openSSH(ctx context.Context, ep *transport.Endpoint, req Request, l *line, service string) (*sshSession, error) {
	port := ep.Port
	if port == 0 {
		port = sshPort
	}
	addr := net.JoinHostPort(strings.Trim(ep.Host, "[]"), strconv.Itoa(port))
	config, err := sshConfig(ep, addr, req, l.dir)
	if err != nil {
		return nil, err
	}
	conn, err := l.dial(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	// Closing the connection aborts a handshake, a read or a write.
	release := context.AfterFunc(ctx, func() { _ = conn.Close() })
	c, channels, requests, err := ssh.NewClientConn(conn, addr, config)
	if err != nil {
		release()
		_ = conn.Close()
		return nil, err
	}
	s := &sshSession{client: ssh.NewClient(c, channels, requests), release: release, said: &firstBytes{}, ref: req.Ref, records: req.Records}
	if err := s.start(service, ep.Path); err != nil {
		_ = s.Close()
		return nil, err
	}
	return s, nil
}

func (s *sshSession) start(service, path string) (err error) {
	if s.session, err = s.client.NewSession(); err != nil {
		return err
	}
	s.session.Stderr = s.said
	if s.in, err = s.session.StdinPipe(); err != nil {
		return err
	}
	if s.out, err = s.session.StdoutPipe(); err != nil {
		return err
	}
	return s.session.Start(service + " " + quoted(path))
}

// quoted returns a path in single quotes, as a shell expects it. Git hosts parse it the same way; csh also requires the
// exclamation mark to be escaped.
func quoted(path string) string {
	return "'" + strings.NewReplacer(`'`, `'\''`, `!`, `'\!'`).Replace(path) + "'"
}

// AdvertisedReferencesContext reads the host's references.
func (s *sshSession) AdvertisedReferencesContext(context.Context) (*packp.AdvRefs, error) {
	ar, err := readReferences(s.out, s.ref, s.records)
	// Gitea and Forgejo start an error there with an empty line (cmd/serv.go).
	if errors.Is(err, packp.ErrEmptyInput) || errors.Is(err, pktline.ErrInvalidPktLen) {
		_ = s.session.Wait() // so that its stderr is complete
		return nil, refusedToServe(s.said.String())
	}
	return ar, err
}

// readReferences reads the part of a host's list of references that a GitRef needs, and the records.
func readReferences(r io.Reader, ref v1alpha1.GitRef, records []string) (*packp.AdvRefs, error) {
	ar := packp.NewAdvRefs()
	limit := &LimitError{What: "the host's list of references", Limit: maxAdvertisement}
	err := ar.Decode(onlyWanted(&limitedReader{r: r, left: maxAdvertisement, over: limit}, ref, records))
	switch {
	case errors.Is(err, packp.ErrEmptyAdvRefs):
		return nil, transport.ErrEmptyRemoteRepository
	case err != nil:
		return nil, err
	case ar.IsEmpty():
		return nil, transport.ErrEmptyRemoteRepository
	}
	transport.FilterUnsupportedCapabilities(ar.Capabilities)
	return ar, nil
}

// refusedToServe converts what a host sends instead of a list of references into an error. There is no protocol for
// this, only the hosts' messages.
func refusedToServe(said string) error {
	lower := strings.ToLower(said)
	has := func(phrase string) bool { return strings.Contains(lower, phrase) }
	switch {
	case said == "":
		return errors.New("the host closed the connection without an answer")
	case slices.ContainsFunc([]string{"not found", "not exist", "not appear", "not be found", "cannot find", "no such", "not a git repository"}, has):
		return transport.ErrRepositoryNotFound
	case slices.ContainsFunc([]string{"denied", "unauthorized", "not authorized", "permission", "read only", "not have write access"}, has):
		return transport.ErrAuthorizationFailed
	}
	return fmt.Errorf("the host says: %s", said)
}

// UploadPack requests a pack.
func (s *sshSession) UploadPack(_ context.Context, req *packp.UploadPackRequest) (*packp.UploadPackResponse, error) {
	if err := req.UploadRequest.Encode(s.in); err != nil {
		return nil, err
	}
	if err := req.UploadHaves.Encode(s.in, false); err != nil {
		return nil, err
	}
	if err := pktline.NewEncoder(s.in).EncodeString("done\n"); err != nil {
		return nil, err
	}
	res := packp.NewUploadPackResponse(req)
	if err := res.Decode(io.NopCloser(s.out)); err != nil {
		return nil, fmt.Errorf("%w %s", err, s.said)
	}
	return res, nil
}

// ReceivePack sends a pack to the host.
func (s *sshSession) ReceivePack(_ context.Context, req *packp.ReferenceUpdateRequest) (*packp.ReportStatus, error) {
	if err := errors.Join(req.Encode(s.in), s.in.Close()); err != nil {
		return nil, err
	}
	out := s.out
	if req.Capabilities.Supports(capability.Sideband64k) {
		d := sideband.NewDemuxer(sideband.Sideband64k, s.out)
		d.Progress, out = req.Progress, d
	}
	report := packp.NewReportStatus()
	if err := report.Decode(out); err != nil {
		return nil, fmt.Errorf("%w %s", err, s.said)
	}
	return report, report.Error()
}

// Close closes the session and its connection.
func (s *sshSession) Close() error {
	s.release()
	err := s.client.Close()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// errNoKey reports that ssh has no key and no known hosts.
var errNoKey = errors.New("ssh needs identity and known_hosts")

// sshConfig checks the host against known_hosts, strictly.
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
		// Without these, the host may offer a key of a type that is not in known_hosts, although it also has a known
		// one.
		HostKeyAlgorithms: db.HostKeyAlgorithms(addr),
	}, nil
}

// readKnownHosts uses a temporary file, because the library only reads files.
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
		return nil, &SecretError{Key: keyKnownHosts, Reason: "is not in the known_hosts format of OpenSSH"}
	}
	return db, nil
}
