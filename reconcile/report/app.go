package report

import (
	"context"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// The keys of a Secret with a GitHub App, as Flux names them.
const (
	keyAppID          = "githubAppID"
	keyInstallationID = "githubAppInstallationID"
	keyPrivateKey     = "githubAppPrivateKey"
)

const (
	// assertion is how long the proof that we are the app holds: GitHub takes ten
	// minutes at most, by its own clock. That may be slow by clockSkew, too.
	// https://docs.github.com/apps/creating-github-apps/authenticating-with-a-github-app/generating-a-json-web-token-jwt-for-a-github-app
	assertion = 9 * time.Minute
	clockSkew = time.Minute
	// renewBefore is how long before its end a token is replaced.
	renewBefore = 5 * time.Minute
)

// tokens are the tokens that GitHub gave out, in memory only.
type tokens struct {
	mu   sync.Mutex
	kept map[installation]token
}

// installation is what a token is for. The app's key is part of it, so that a token
// goes to those who have the key and to nobody else.
type installation struct {
	api, app, id string
	rights       string
	key          [sha256.Size]byte
}

// token is one that GitHub gave out.
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

// app asks GitHub for a token of an installation, which may do what it is for and
// nothing else, and signs with it.
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
	// kept says that the last request was signed with a token that was kept.
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
	if err != nil { // its words may be the secret's
		return nil, &SecretError{Key: keyPrivateKey, Reason: "holds no RSA key in PEM form"}
	}
	return &app{
		of:     installation{api: githubAPI(r.repository), app: r.value(keyAppID), id: id, key: sha256.Sum256([]byte(text)), rights: fmt.Sprint(r.rights)},
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
		got, err := a.ask(ctx)
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

// prove signs the proof that we are the app.
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

// ask has GitHub make a token.
func (a *app) ask(ctx context.Context) (token, error) {
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
		// The key, the installation or its permissions: each waits for a person.
		got.code = http.StatusUnauthorized
		got.said = strings.TrimSuffix(fmt.Sprintf("asked as app %s for installation %s: %s", a.of.app, a.of.id, got.said), ": ")
	}
	if err := judge(got, a.repository, Task{}, ""); err != nil {
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

// self is the user that an app writes as, which is named after it.
// https://docs.github.com/rest/apps/apps#get-the-authenticated-app
func (a *app) self(ctx context.Context) (string, error) {
	proof, err := a.prove()
	if err != nil {
		return "", err
	}
	task := readsSelf("be the key of the app")
	r := reads(join(a.of.api, "app"), githubHeader())
	r.task, r.most = task, maxListing
	got, err := a.wire.send(ctx, r, proof)
	if err == nil {
		err = judge(got, a.repository, task, "")
	}
	if err != nil {
		return "", err
	}
	var made struct {
		Slug string `json:"slug"`
	}
	if err := json.Unmarshal(got.body, &made); err != nil || made.Slug == "" {
		return "", &UnavailableError{Task: task, Host: a.repository.host, Err: errNobody}
	}
	return made.Slug + "[bot]", nil
}
