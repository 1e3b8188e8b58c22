package webhook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// tokenKey is the key of the Secret that holds the token.
const tokenKey = "token"

// errNoToken says that there is nothing to check a request against.
var errNoToken = errors.New("no token is set for webhooks")

// token reads the Secret that requests are checked against, so that it can be
// made and changed while the daemon runs. An answer, also that there is none, is
// good for a moment: a flood of requests is no flood at the API server.
type token struct {
	reader client.Reader
	key    client.ObjectKey
	now    func() time.Time

	mu    sync.Mutex
	value []byte
	asked time.Time
}

const (
	// remembered is how long a token that was read is good for.
	remembered = 5 * time.Second
	// missed is how long it is that there is none: the user who makes the Secret tries it at once.
	missed = time.Second
)

// read returns the token, or errNoToken.
func (t *token) read(ctx context.Context) ([]byte, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now := t.now(); !t.fresh(now) {
		value, err := t.ask(ctx)
		if err != nil {
			return nil, err
		}
		t.value, t.asked = value, now
	}
	if len(t.value) == 0 {
		return nil, errNoToken
	}
	return t.value, nil
}

// fresh says whether the last answer is good still. A clock that was set back
// makes none last longer.
func (t *token) fresh(now time.Time) bool {
	lasts := missed
	if len(t.value) > 0 {
		lasts = remembered
	}
	return !t.asked.IsZero() && !now.Before(t.asked) && now.Before(t.asked.Add(lasts))
}

// ask reads the Secret past every cache; no Secret and an empty key are no token.
// A newline at the end is no part of it: `kubectl create --from-file` leaves one.
func (t *token) ask(ctx context.Context) ([]byte, error) {
	secret := &corev1.Secret{}
	if err := t.reader.Get(ctx, t.key, secret); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("read secret %s for the token of webhooks: %w", t.key.Name, err)
	}
	return bytes.TrimRight(secret.Data[tokenKey], "\r\n"), nil
}
