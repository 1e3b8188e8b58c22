package source

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/transport"
)

// classify turns what a conversation with a host ended in into one of this
// package's errors.
func classify(ctx context.Context, err error, req Request) error {
	if err == nil || ours(err) {
		return err
	}
	// go-git's wrapper cannot be unwrapped by the errors package.
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

// stable takes what differs at each try out of an error of the network: it
// names the port from which the host was asked.
func stable(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		return fmt.Errorf("%s: %w", op.Op, op.Err)
	}
	return err
}

// ours is whether an error is one of this package's already.
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

// Lost says whether an error of reading a Snapshot means that it has to be
// fetched again: its store was replaced, or is damaged.
func Lost(err error) bool {
	var (
		stale *StaleError
		lost  *MissingError
		disk  *StoreError
	)
	return errors.As(err, &stale) || errors.As(err, &lost) || errors.As(err, &disk)
}

// refusedBySSH is whether the server took none of our keys: golang.org/x/crypto
// has no type for that on the client's side.
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

// unwanted is whether the server refused to send the object that we asked for.
func unwanted(err error) bool {
	return strings.Contains(err.Error(), "not our ref")
}
