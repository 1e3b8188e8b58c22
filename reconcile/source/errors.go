package source

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/transport"

	"github.com/plumbline-dev/plumbline/redact"
)

// The URLs in these errors never contain a user or password.

// URLError reports that plumbline cannot fetch from a URL.
type URLError struct {
	URL, Reason string
}

// Error describes what is wrong with the URL.
func (e *URLError) Error() string {
	return fmt.Sprintf("the source's url %s %s: give one that begins with https://, http:// or ssh://", e.URL, e.Reason)
}

// RefError reports that a reference is invalid.
type RefError struct {
	Field, Value string
	Err          error
}

// Error names the field.
func (e *RefError) Error() string {
	return fmt.Sprintf("the source's ref.%s %q is invalid: %v", e.Field, e.Value, e.Err)
}

// Unwrap returns the parser's error.
func (e *RefError) Unwrap() error { return e.Err }

// AuthError reports that the host rejects the credentials, or requires some.
type AuthError struct {
	URL string
	// Anonymous reports whether the request had no credentials.
	Anonymous bool
	Err       error
}

// Error says what to check.
func (e *AuthError) Error() string {
	if e.Anonymous {
		return fmt.Sprintf("fetch %s: the host requires credentials, and none are configured: %s", e.URL, giveSecret)
	}
	return fmt.Sprintf("fetch %s: the host refuses the credentials: %v: check the secret that source.git.secretRef names and its rights on the repository", e.URL, e.Err)
}

// Unwrap returns the host's error.
func (e *AuthError) Unwrap() error { return e.Err }

// NotFoundError reports that the repository, reference or commit does not exist on the host.
type NotFoundError struct {
	URL string
	// What is missing: "the repository", "any commit", "branch main", …
	What string
	// Anonymous reports whether the request had no credentials.
	Anonymous bool
}

// giveSecret says which Secret a private repository needs.
const giveSecret = "if the repository is private, name a Secret with username and password (a token), bearerToken, or for ssh identity and known_hosts, in spec.source.git.secretRef"

// Error names what is missing.
func (e *NotFoundError) Error() string {
	if e.What == whatRepository && e.Anonymous {
		return fmt.Sprintf("fetch %s: the host has no such repository, or hides it from those without credentials: check spec.source.git.url, and %s", e.URL, giveSecret)
	}
	switch e.What {
	case whatRepository:
		return fmt.Sprintf("fetch %s: the host has no such repository, or hides it from these credentials: check source.git.url and source.git.secretRef", e.URL)
	case whatCommit:
		return fmt.Sprintf("fetch %s: the repository is empty: push a commit", e.URL)
	}
	return fmt.Sprintf("fetch %s: the repository has no %s: push it, or change source.git.ref", e.URL, e.What)
}

const (
	whatRepository = "repository"
	whatCommit     = "commit"
)

// UnreachableError reports that the host did not answer, or that its answer was incomplete.
type UnreachableError struct {
	URL string
	// Timeout reports whether the fetch timed out.
	Timeout bool
	Err     error
}

// Error says what to check.
func (e *UnreachableError) Error() string {
	if e.Timeout {
		return fmt.Sprintf("fetch %s: the host did not answer to the end within the timeout: see whether it is slow or down, or raise spec.timeout", e.URL)
	}
	return fmt.Sprintf("fetch %s: %v: see whether the host is up and can be reached from here", e.URL, e.Err)
}

// Unwrap returns the network's error.
func (e *UnreachableError) Unwrap() error { return e.Err }

// CertificateError reports that the host's TLS certificate is not trusted.
type CertificateError struct {
	URL string
	Err error
}

// Error says where to put the certificate authority.
func (e *CertificateError) Error() string {
	return fmt.Sprintf("fetch %s: the host's certificate is not trusted: %v: put its authority into the key %s of the source's secret",
		e.URL, e.Err, keyCA)
}

// Unwrap returns the error of the verification.
func (e *CertificateError) Unwrap() error { return e.Err }

// HostKeyError reports that an ssh host does not present the expected key.
type HostKeyError struct {
	URL, Host string
	// Changed is true if known_hosts has another key for the host, and false if it has none.
	Changed bool
	// Fingerprint is that of the key that the host presented; empty if known_hosts is missing and plumbline did not
	// connect to the host.
	Fingerprint string
}

// Error says what to compare.
func (e *HostKeyError) Error() string {
	switch {
	case e.Fingerprint == "":
		return fmt.Sprintf("fetch %s: the key %s of the source's secret is missing: write the host key of %s there", e.URL, keyKnownHosts, e.Host)
	case e.Changed:
		return fmt.Sprintf("fetch %s: the host key of %s has changed to %s: if its owner confirms that, write the new key into %s of the source's secret", e.URL, e.Host, e.Fingerprint, keyKnownHosts)
	}
	return fmt.Sprintf("fetch %s: the host key %s of %s is unknown: if its owner confirms it, add it to %s of the source's secret",
		e.URL, e.Fingerprint, e.Host, keyKnownHosts)
}

// LimitError reports that something exceeds a limit of plumbline.
type LimitError struct {
	// What is too large: "the repository", "the file nodes/a.yaml", …
	What string
	// Limit is in Unit; an empty Unit means bytes.
	Limit int64
	Unit  string
	// Flag is the daemon's flag that sets the limit; empty if the limit is fixed.
	Flag string
}

// StoreLimitFlag is the daemon's flag that limits the disk space for stores of fetched revisions.
const StoreLimitFlag = "--git-store-limit"

// Error names what is too large and the limit.
func (e *LimitError) Error() string {
	words := fmt.Sprintf("%s is larger than the limit of %d %s: make it smaller, or remove it from the repository", e.What, e.Limit, cmp.Or(e.Unit, "bytes"))
	if e.Flag != "" {
		words += ", or raise " + e.Flag
	}
	return words
}

// MissingError reports that the host sent a revision without all of its objects. The next fetch clones again.
type MissingError struct {
	URL string
	// Object is its hash, and Name its path if known.
	Object, Name string
}

// Error names the object.
func (e *MissingError) Error() string {
	what := e.Object
	if e.Name != "" {
		what = fmt.Sprintf("%s (%s)", e.Object, e.Name)
	}
	return fmt.Sprintf("fetch %s: object %s is missing from what the host sent: check the repository with git fsck on the host", e.URL, what)
}

// HistoryError reports that the commits between two commits are unknown or cannot be fetched.
type HistoryError struct {
	// Since is the older of the two.
	Since  string
	Reason string
}

// Error gives the reason.
func (e *HistoryError) Error() string {
	return fmt.Sprintf("the commits since %.8s cannot be listed: %s", e.Since, e.Reason)
}

// StaleError reports a read of a Snapshot whose store was replaced by a newer one.
type StaleError struct {
	Revision string
}

// Error says to fetch again.
func (e *StaleError) Error() string {
	return fmt.Sprintf("the snapshot of %s was superseded: fetch again", e.Revision)
}

// SymlinkError reports a symlink whose target does not exist or must not be read.
type SymlinkError struct {
	// Name is the symlink's path from the root; Target is where it points.
	Name, Target string
	Reason       string
}

// Error names the link and its target.
func (e *SymlinkError) Error() string {
	return fmt.Sprintf("symlink %s -> %s %s", e.Name, e.Target, e.Reason)
}

// StoreError reports that the store on disk cannot be written or read.
type StoreError struct {
	Err error
}

// Error says what to check.
func (e *StoreError) Error() string {
	return fmt.Sprintf("cannot access the store of fetched revisions on disk: %v: check whether its volume is full or read-only", e.Err)
}

// Unwrap returns the operating system's error.
func (e *StoreError) Unwrap() error { return e.Err }

// FluxRefError reports that a Flux source cannot be followed.
type FluxRefError struct {
	// Ref is kind/namespace/name.
	Ref, Problem string
}

// Error says what to do.
func (e *FluxRefError) Error() string { return e.Ref + " " + e.Problem }

// ArtifactError reports that the artifact of a Flux source is not available, or that Flux has not fetched it.
type ArtifactError struct {
	// Of is the source: kind/namespace/name.
	Of, Problem string
	Err         error
}

// Error describes the problem.
func (e *ArtifactError) Error() string {
	if e.Err == nil {
		return e.Of + " " + e.Problem
	}
	return fmt.Sprintf("%s %s: %v", e.Of, e.Problem, e.Err)
}

// Unwrap returns the cause.
func (e *ArtifactError) Unwrap() error { return e.Err }

// classify converts the error of a connection to a host into one of this package's errors.
func classify(ctx context.Context, err error, req Request) error {
	if err == nil || ours(err) {
		return err
	}
	// The errors package cannot unwrap go-git's wrapper.
	var unexpected *plumbing.UnexpectedError
	if errors.As(err, &unexpected) {
		return classify(ctx, unexpected.Err, req)
	}
	at, anonymous, said := bare(req.URL), req.anonymous(), hideSecrets(stable(err), req.URL, req.Credentials)
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		return &UnreachableError{URL: at, Timeout: true, Err: context.DeadlineExceeded}
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, transport.ErrAuthenticationRequired):
		return &AuthError{URL: at, Anonymous: anonymous, Err: transport.ErrAuthenticationRequired}
	case errors.Is(err, transport.ErrAuthorizationFailed):
		return &AuthError{URL: at, Anonymous: anonymous, Err: transport.ErrAuthorizationFailed}
	case refusedBySSH(err):
		return &AuthError{URL: at, Anonymous: anonymous, Err: said}
	case errors.Is(err, transport.ErrRepositoryNotFound):
		return &NotFoundError{URL: at, What: whatRepository, Anonymous: anonymous}
	case errors.Is(err, transport.ErrEmptyRemoteRepository):
		return &NotFoundError{URL: at, What: whatCommit}
	case untrusted(err):
		return &CertificateError{URL: at, Err: said}
	}
	return &UnreachableError{URL: at, Err: said}
}

// stable removes from a network error the part that differs at each attempt: the local port.
func stable(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		return fmt.Errorf("%s: %w", op.Op, op.Err)
	}
	return err
}

// ours reports whether err is already one of this package's errors.
func ours(err error) bool {
	var (
		auth   *AuthError
		gone   *NotFoundError
		away   *UnreachableError
		key    *HostKeyError
		limit  *LimitError
		secret *SecretError
		lost   *MissingError
		ref    *RefError
		url    *URLError
		disk   *StoreError
		full   *SpaceError
		past   *HistoryError
		push   *PushError
		branch *BranchError
		graft  *GraftError
	)
	return errors.As(err, &auth) || errors.As(err, &gone) || errors.As(err, &away) ||
		errors.As(err, &key) || errors.As(err, &limit) || errors.As(err, &secret) ||
		errors.As(err, &lost) || errors.As(err, &ref) || errors.As(err, &url) || errors.As(err, &disk) || errors.As(err, &past) ||
		errors.As(err, &full) || errors.As(err, &push) || errors.As(err, &branch) || errors.As(err, &graft)
}

// Lost reports whether an error from reading a Snapshot means that it must be fetched again, because its store was
// replaced or is damaged.
func Lost(err error) bool {
	var (
		stale *StaleError
		lost  *MissingError
		disk  *StoreError
	)
	return errors.As(err, &stale) || errors.As(err, &lost) || errors.As(err, &disk)
}

// refusedBySSH reports whether the server accepted none of our keys. golang.org/x/crypto has no client-side error type
// for that.
func refusedBySSH(err error) bool {
	return strings.Contains(err.Error(), "ssh: unable to authenticate")
}

func untrusted(err error) bool {
	var (
		verification *tls.CertificateVerificationError
		authority    x509.UnknownAuthorityError
		hostname     x509.HostnameError
		invalid      x509.CertificateInvalidError
	)
	return errors.As(err, &verification) || errors.As(err, &authority) || errors.As(err, &hostname) || errors.As(err, &invalid)
}

// unwanted reports whether the server refused to send the requested object.
func unwanted(err error) bool {
	return strings.Contains(err.Error(), "not our ref")
}

// bare returns a URL without user and password.
func bare(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "(not a URL)"
	}
	u.User = nil
	return u.String()
}

// hideSecrets removes the secrets from an error's message, by value, and truncates what a host may have added to it.
func hideSecrets(err error, raw string, c Credentials) error {
	const longest = 300
	secrets := c.Secrets()
	if u, perr := url.Parse(raw); perr == nil && u.User != nil {
		password, _ := u.User.Password()
		secrets = append(secrets, password, u.User.String())
		if _, set := u.User.Password(); !set && u.Scheme != "ssh" {
			secrets = append(secrets, u.User.Username()) // a token in place of a user
		}
	}
	message := strings.Join(strings.Fields(redact.Credentials(secrets...).Hide(err.Error())), " ")
	if len(message) > longest {
		message = strings.ToValidUTF8(message[:longest], "") + "…"
	}
	return &redacted{message: message, err: err}
}

// redacted is an error whose message contains no secret. It works with errors.Is but does not unwrap, because the
// wrapped error may have a secret in its message.
type redacted struct {
	message string
	err     error
}

func (e *redacted) Error() string        { return e.message }
func (e *redacted) Is(target error) bool { return errors.Is(e.err, target) }
