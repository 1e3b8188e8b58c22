package report

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"strings"
)

// The keys of a report's Secret, as Flux names them.
const (
	keyToken    = "token"
	keyUsername = "username"
	keyPassword = "password"
	keyCA       = "ca.crt"
)

// credentials prove to a host who asks.
type credentials interface {
	// sign adds the proof to the header of a request. It may ask the host for a token
	// first; the error is then what a Post may end in.
	sign(ctx context.Context, header http.Header, body []byte) error
	// secrets are what no message may repeat.
	secrets() []string
	// renew drops a token that was kept from an earlier request, and says whether there
	// was one: another try gets another.
	renew() bool
}

// reader reads credentials from a Secret.
type reader struct {
	secret     map[string][]byte
	hosts      *Hosts
	wire       wire
	repository repository
	rights     permissions
}

// value is what stands under a key. A line that ends a file is no part of it.
func (r reader) value(key string) string { return strings.TrimSpace(string(r.secret[key])) }

// need is a value that has to be there.
func (r reader) need(key string) (string, error) {
	if v := r.value(key); v != "" {
		return v, nil
	}
	return "", &SecretError{Key: key, Reason: "is missing"}
}

// fixed are credentials that are in the Secret as the host wants them.
type fixed struct {
	name  string
	value func(body []byte) string
	hide  []string
}

func (f *fixed) sign(_ context.Context, header http.Header, body []byte) error {
	header.Set(f.name, f.value(body))
	return nil
}

func (f *fixed) secrets() []string { return f.hide }

func (f *fixed) renew() bool { return false }

// header puts a token after a prefix into a header.
func header(name, prefix, token string) credentials {
	return &fixed{name: name, value: func([]byte) string { return prefix + token }, hide: []string{token}}
}

// basic is a user with a password.
// https://datatracker.ietf.org/doc/html/rfc7617
func basic(username, password string) credentials {
	c := header("Authorization", "Basic ", base64.StdEncoding.EncodeToString([]byte(username+":"+password))).(*fixed)
	c.hide = append(c.hide, password)
	return c
}

// tokenIn reads a token that goes after a prefix into a header.
func tokenIn(name, prefix string) func(reader) (credentials, error) {
	return func(r reader) (credentials, error) {
		token, err := r.need(keyToken)
		if err != nil {
			return nil, err
		}
		return header(name, prefix, token), nil
	}
}

// tokenOrPassword reads a token or, without one, a user and a password.
func tokenOrPassword(r reader) (credentials, error) {
	username, password := r.value(keyUsername), r.value(keyPassword)
	if r.value(keyToken) == "" && username != "" && password != "" {
		return basic(username, password), nil
	}
	return tokenIn("Authorization", "Bearer ")(r)
}

// signature signs the body of each request with the key in a Secret, as Flux's
// provider generic-hmac does.
// https://fluxcd.io/flux/components/notification/providers/#generic-webhook-with-hmac
func signature(r reader) (credentials, error) {
	key, err := r.need(keyToken)
	if err != nil {
		return nil, err
	}
	sum := func(body []byte) string {
		mac := hmac.New(sha256.New, []byte(key))
		mac.Write(body)
		return "sha256=" + hex.EncodeToString(mac.Sum(nil))
	}
	return &fixed{name: "X-Signature", value: sum, hide: []string{key}}, nil
}
