package report

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// The keys of a report's Secret are named as in Flux.
const (
	keyToken    = "token"
	keyUsername = "username"
	keyPassword = "password"
	keyCA       = "ca.crt"
)

// credentials authenticate requests to a host.
type credentials interface {
	// sign adds the authentication to the header of a request. It may first request a token from the host; its error is
	// one that Post may return.
	sign(ctx context.Context, header http.Header, body []byte) error
	// secrets are the values that no message may repeat.
	secrets() []string
	// renew drops a cached token, and reports whether there was one: the next attempt gets a new one.
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

// value returns the value of a key, without surrounding white space such as a final newline.
func (r reader) value(key string) string { return strings.TrimSpace(string(r.secret[key])) }

// need returns a required value.
func (r reader) need(key string) (string, error) {
	if v := r.value(key); v != "" {
		return v, nil
	}
	return "", &SecretError{Key: key, Reason: "is missing"}
}

// fixed are credentials that the Secret contains in the host's form.
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

// header sends a token after a prefix in a header.
func header(name, prefix, token string) credentials {
	return &fixed{name: name, value: func([]byte) string { return prefix + token }, hide: []string{token}}
}

// basic authenticates with user and password. https://datatracker.ietf.org/doc/html/rfc7617
func basic(username, password string) credentials {
	c := header("Authorization", "Basic ", base64.StdEncoding.EncodeToString([]byte(username+":"+password))).(*fixed)
	c.hide = append(c.hide, password)
	return c
}

// tokenIn reads a token that is sent after a prefix in a header.
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

// signature signs the body of each request with the key in a Secret, like Flux's provider generic-hmac.
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

// The keys of a Secret with a GitHub App are named as in Flux.
const (
	keyAppID          = "githubAppID"
	keyInstallationID = "githubAppInstallationID"
	keyPrivateKey     = "githubAppPrivateKey"
)

const (
	// assertion is the lifetime of the app's JWT: GitHub accepts at most ten minutes, by its own clock, which may be
	// behind by clockSkew too.
	// https://docs.github.com/apps/creating-github-apps/authenticating-with-a-github-app/generating-a-json-web-token-jwt-for-a-github-app
	assertion = 9 * time.Minute
	clockSkew = time.Minute
	// renewBefore is how long before its expiry a token is replaced.
	renewBefore = 5 * time.Minute
)

// tokens caches the tokens that GitHub issued, in memory only.
type tokens struct {
	mu   sync.Mutex
	kept map[installation]token
}

// installation identifies what a token is for. The app's key is part of it, so that only those who have the key get the
// token.
type installation struct {
	api, app, id string
	rights       string
	key          [sha256.Size]byte
}

// token is a token that GitHub issued.
type token struct {
	value string
	ends  time.Time
}

func (t *tokens) get(of installation, now time.Time) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.DeleteFunc(t.kept, func(_ installation, kept token) bool { return !now.Before(kept.ends.Add(-renewBefore)) })
	return t.kept[of].value
}

func (t *tokens) put(of installation, got token) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.kept == nil {
		t.kept = map[installation]token{}
	}
	t.kept[of] = got
}

func (t *tokens) drop(of installation) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.kept, of)
}

// app requests a token of an installation from GitHub, with only the required permissions, and authenticates with it.
// https://docs.github.com/rest/apps/apps#create-an-installation-access-token-for-an-app
type app struct {
	of         installation
	rights     permissions
	key        *rsa.PrivateKey
	tokens     *tokens
	now        func() time.Time
	wire       wire
	repository repository
	// hide are the texts that no message may repeat.
	hide []string
	// kept reports whether the last request used a cached token.
	kept bool
}

func newApp(r reader) (credentials, error) {
	id, err := r.need(keyInstallationID)
	if err != nil {
		return nil, err
	}
	if strings.Trim(id, "0123456789") != "" {
		return nil, &SecretError{Key: keyInstallationID, Reason: "is not a number"}
	}
	text, err := r.need(keyPrivateKey)
	if err != nil {
		return nil, err
	}
	key, err := jwt.ParseRSAPrivateKeyFromPEM([]byte(text))
	if err != nil { // the error may quote the Secret
		return nil, &SecretError{Key: keyPrivateKey, Reason: "holds no RSA key in PEM form"}
	}
	return &app{
		of: installation{
			api: githubAPI(r.repository), app: r.value(keyAppID), id: id, key: sha256.Sum256([]byte(text)), rights: fmt.Sprint(r.rights),
		},
		rights: r.rights,
		key:    key, tokens: &r.hosts.tokens, now: r.hosts.Now, wire: r.wire, repository: r.repository, hide: []string{text},
	}, nil
}

func (a *app) secrets() []string { return a.hide }

func (a *app) renew() bool {
	if a.kept {
		a.tokens.drop(a.of)
	}
	return a.kept
}

func (a *app) sign(ctx context.Context, header http.Header, _ []byte) error {
	value := a.tokens.get(a.of, a.now())
	if a.kept = value != ""; !a.kept {
		got, err := a.requestToken(ctx)
		if err != nil {
			return err
		}
		a.tokens.put(a.of, got)
		value = got.value
	}
	a.hide = append(a.hide, value)
	header.Set("Authorization", "Bearer "+value)
	return nil
}

// prove signs the JWT of the app.
func (a *app) prove() (credentials, error) {
	now := a.now()
	proof, err := jwt.NewWithClaims(jwt.SigningMethodRS256, jwt.RegisteredClaims{
		Issuer: a.of.app, IssuedAt: jwt.NewNumericDate(now.Add(-clockSkew)), ExpiresAt: jwt.NewNumericDate(now.Add(assertion)),
	}).SignedString(a.key)
	if err != nil {
		return nil, &SecretError{Key: keyPrivateKey, Reason: "does not sign"}
	}
	return header("Authorization", "Bearer ", proof), nil
}

// requestToken requests a token from GitHub.
func (a *app) requestToken(ctx context.Context) (token, error) {
	proof, err := a.prove()
	if err != nil {
		return token{}, err
	}
	got, err := a.wire.send(ctx, request{
		to: join(a.of.api, "app", "installations", a.of.id, "access_tokens"), header: githubHeader(),
		body: map[string]any{"permissions": a.rights},
	}, proof)
	if err != nil {
		return token{}, err
	}
	switch got.code {
	case http.StatusBadRequest, http.StatusUnauthorized, http.StatusNotFound, http.StatusUnprocessableEntity:
		// The key, the installation or its permissions are wrong: a person must correct them.
		got.code = http.StatusUnauthorized
		got.message = strings.TrimSuffix(fmt.Sprintf("asked as app %s for installation %s: %s", a.of.app, a.of.id, got.message), ": ")
	}
	if err := responseError(got, a.repository, Task{}, ""); err != nil {
		return token{}, err
	}
	var made struct {
		Token string    `json:"token"`
		Ends  time.Time `json:"expires_at"`
	}
	if err := json.Unmarshal(got.body, &made); err != nil || made.Token == "" {
		return token{}, &UnavailableError{Host: a.repository.host, Err: fmt.Errorf("it issued no token for installation %s", a.of.id)}
	}
	return token{value: made.Token, ends: made.Ends}, nil
}

// self returns the user that an app writes as, which is named after it.
// https://docs.github.com/rest/apps/apps#get-the-authenticated-app
func (a *app) self(ctx context.Context) (string, error) {
	proof, err := a.prove()
	if err != nil {
		return "", err
	}
	task := readsSelf("be the key of the app")
	r := reads(join(a.of.api, "app"), githubHeader())
	r.task, r.long = task, true
	got, err := a.wire.send(ctx, r, proof)
	if err == nil {
		err = responseError(got, a.repository, task, "")
	}
	if err != nil {
		return "", err
	}
	var made struct {
		Slug string `json:"slug"`
	}
	if err := json.Unmarshal(got.body, &made); err != nil || made.Slug == "" {
		return "", &UnavailableError{Task: task, Host: a.repository.host, Err: errNoUser}
	}
	return made.Slug + "[bot]", nil
}

// identities caches the users of tokens, by a hash of the credentials.
type identities struct {
	mu   sync.Mutex
	kept map[[sha256.Size]byte]identity
}

type identity struct {
	name string
	ends time.Time
}

const (
	// identityLasts is how long a token is assumed to belong to the same user with the same name.
	identityLasts = time.Hour
	// maxIdentities limits the cache.
	maxIdentities = 1000
)

func (i *identities) get(of [sha256.Size]byte, now time.Time) string {
	i.mu.Lock()
	defer i.mu.Unlock()
	maps.DeleteFunc(i.kept, func(_ [sha256.Size]byte, known identity) bool { return !now.Before(known.ends) })
	return i.kept[of].name
}

func (i *identities) put(of [sha256.Size]byte, name string, now time.Time) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.kept == nil || len(i.kept) >= maxIdentities {
		i.kept = map[[sha256.Size]byte]identity{}
	}
	i.kept[of] = identity{name: name, ends: now.Add(identityLasts)}
}

// credentialsHash returns a hash of the credentials for a host: the same Secret means the same user there.
func credentialsHash(provider string, r repository, secret map[string][]byte) [sha256.Size]byte {
	sum := sha256.New()
	parts := []string{provider, r.root()}
	for _, key := range slices.Sorted(maps.Keys(secret)) {
		parts = append(parts, key, string(secret[key]))
	}
	for _, part := range parts {
		one := sha256.Sum256([]byte(part))
		sum.Write(one[:])
	}
	return [sha256.Size]byte(sum.Sum(nil))
}

// named are credentials that can look up their own user name on the host.
type named interface {
	self(ctx context.Context) (string, error)
}

// self returns the user that the token belongs to, as the host names authors of comments. The result is cached.
func (p *poster) self(ctx context.Context) (string, error) {
	if known := p.hosts.identities.get(p.credentialsHash, p.hosts.Now()); known != "" {
		return known, nil
	}
	name, err := p.querySelf(ctx)
	if err == nil {
		p.hosts.identities.put(p.credentialsHash, name, p.hosts.Now())
	}
	return name, err
}

func (p *poster) querySelf(ctx context.Context) (string, error) {
	if known, is := p.credentials.(named); is {
		return known.self(ctx)
	}
	task := readsSelf(p.review.selfRight)
	a, err := p.get(ctx, task, p.review.self(p.repository))
	if err != nil {
		return "", err
	}
	name, err := p.review.name(a)
	if err == nil && name == "" {
		err = errNoUser
	}
	if err != nil {
		return "", p.unreadable(task, err)
	}
	return name, nil
}

// readsSelf is the task to look up the token's user.
func readsSelf(right string) Task {
	return Task{What: "look up the token's own user, to know its comments", Right: cmp.Or(right, "read its own user")}
}

// login reads the name of a user on GitHub, Gitea and Forgejo.
func login(a answer) (string, error) {
	var user githubUser
	err := json.Unmarshal(a.body, &user)
	return user.Login, err
}

// hashes caches the full hashes of commits that lists abbreviate.
type hashes struct {
	mu   sync.Mutex
	kept map[string]string
}

const (
	// maxHashes limits the cache, and maxWhole the lookups for one list.
	maxHashes = 10_000
	maxWhole  = 60
	// wholeHash is the length of a SHA-1 in hexadecimal.
	wholeHash = 40
)

func (h *hashes) get(key string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.kept[key]
}

func (h *hashes) put(key, hash string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.kept == nil || len(h.kept) >= maxHashes {
		h.kept = map[string]string{}
	}
	h.kept[key] = hash
}

// complete replaces abbreviated heads of pull requests with full hashes. Each is looked up once, newest first, at most
// maxWhole for one list; the others follow with the next list.
func (p *poster) complete(ctx context.Context, listed []PullRequest) ([]PullRequest, error) {
	var open []PullRequest
	asked := 0
	for _, one := range listed {
		key := p.repository.url + " " + one.Head
		whole := one.Head
		if len(whole) < wholeHash {
			whole = p.hosts.hashes.get(key)
		}
		if whole == "" {
			if asked == maxWhole {
				continue
			}
			asked++
			var err error
			if whole, err = p.queryFullHash(ctx, one.Head); err != nil {
				return nil, err
			}
			if whole == "" {
				continue
			}
			p.hosts.hashes.put(key, whole)
		}
		one.Head = whole
		open = append(open, one)
	}
	return open, nil
}

// queryFullHash looks up the full hash of a commit; it is empty if the host no longer has it.
func (p *poster) queryFullHash(ctx context.Context, short string) (string, error) {
	a, err := p.get(ctx, readsHead, p.review.whole(p.repository, short))
	var gone *NotFoundError
	if errors.As(err, &gone) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	whole, err := p.review.hash(a.body)
	if err == nil && (len(whole) != wholeHash || !strings.HasPrefix(whole, short)) {
		err = errors.New("it names another commit")
	}
	if err != nil {
		return "", p.unreadable(readsHead, err)
	}
	return whole, nil
}
