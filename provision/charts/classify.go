package charts

import (
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"

	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/errcode"

	"github.com/plumbline-dev/plumbline/redact"
)

// classify turns an error of a registry or a Helm repository into one of ours.
func classify(ref Ref, chart string, with *session, err error) error {
	var keys *keysError
	if errors.As(err, &keys) {
		return keys.err
	}
	var token *tokenHostError
	if errors.As(err, &token) {
		return &AuthError{Ref: ref, Chart: chart, Host: token.home, Origin: with.originOf(token.home), Err: token}
	}
	scrub(err)
	var answer *errcode.ErrorResponse
	status := 0
	if errors.As(err, &answer) {
		status = answer.StatusCode
	}
	said := redact.Credentials(with.secrets()...).Error(err)
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		host := answer.URL.Host
		return &AuthError{Ref: ref, Chart: chart, Host: host, Origin: with.originOf(host), Err: said}
	case errors.Is(err, auth.ErrBasicCredentialNotFound):
		return &AuthError{Ref: ref, Chart: chart, Host: with.home, Err: said}
	case errors.Is(err, errdef.ErrNotFound), status == http.StatusNotFound:
		return &NotFoundError{Ref: ref, Chart: chart, Err: said}
	case errors.Is(err, content.ErrMismatchedDigest), errors.Is(err, content.ErrTrailingData):
		return &DigestError{Ref: ref, Chart: chart, Err: said}
	case errors.Is(err, errdef.ErrInvalidMediaType), errors.Is(err, errdef.ErrSizeExceedsLimit):
		return &MalformedError{Chart: chart, Version: ref.Version, Err: said}
	case untrusted(err):
		return &CertificateError{Ref: ref, Chart: chart, Err: said}
	}
	return &UnreachableError{Ref: ref, Chart: chart, Err: said}
}

// scrub takes out of an error what changes from try to try: signed queries of
// redirects, which are secrets besides, and local ports.
func scrub(err error) {
	var answer *errcode.ErrorResponse
	if errors.As(err, &answer) && answer.URL != nil {
		clean := *answer.URL
		clean.RawQuery = ""
		answer.URL = &clean
	}
	var request *url.Error
	if errors.As(err, &request) {
		request.URL, _, _ = strings.Cut(request.URL, "?")
	}
	var operation *net.OpError
	if errors.As(err, &operation) {
		operation.Source = nil
	}
}
