package webhook

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/net/netutil"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/plumbline-dev/plumbline/internal/inbound"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// Path is where requests are received.
const Path = "/hook"

const (
	// maxBody is larger than any push of hosts that truncate their lists of commits, and limits what an unauthenticated
	// client can make us read.
	maxBody = 1 << 20
	// requestTimeout limits how long one request waits for the API server: hosts wait for 5 s (Gitea) to 10 s (GitHub,
	// GitLab).
	requestTimeout = 4 * time.Second
)

// Waker requests a fetch of the sources of NodeSyncs now.
type Waker interface {
	Wake(ctx context.Context, syncs []v1alpha1.NodeSync) error
}

// Pulls requests that the pull requests of NodeSyncs are listed soon. It never blocks.
type Pulls interface {
	Look(names []types.NamespacedName)
}

// Options are the dependencies of a Receiver.
type Options struct {
	// NodeSyncs lists them from a cache.
	NodeSyncs client.Reader
	// Secrets reads the token without a cache.
	Secrets client.Reader
	// Namespace is that of the NodeSyncs and of the Secret; Secret is its name.
	Namespace, Secret string
	// TrustedProxies are trusted to report the client of a request.
	TrustedProxies []net.IPNet
	Waker          Waker
	// Pulls, if set, is notified of NodeSyncs whose pull requests may have changed.
	Pulls  Pulls
	Now    func() time.Time
	Logger logr.Logger
	// Answered, if set, is called for each response with the kind of host ("" if unknown) and the HTTP status.
	Answered func(host string, status int)
}

// The rate limits of requests: a busy host sends a few per second, and one for each reference of a push.
var allRequests, requestsOfOne = inbound.Rate{PerSecond: 20, Burst: 100}, inbound.Rate{PerSecond: 5, Burst: 50}

// Receiver handles the requests of hosts to Path.
type Receiver struct {
	options Options
	origins origins
	token   *token
	missing once
}

// New returns the handler for all paths.
func New(o Options) http.Handler {
	from := origins{o.TrustedProxies}
	r := &Receiver{
		options: o, origins: from, token: &token{reader: o.Secrets, key: client.ObjectKey{Namespace: o.Namespace, Name: o.Secret}, now: o.Now},
	}
	mux := http.NewServeMux()
	mux.Handle("POST "+Path, r)
	return inbound.New(o.Now, allRequests, requestsOfOne).Handler(from.of, mux)
}

// answer is the result of a request.
type answer struct {
	status int
	// Woken is how many NodeSyncs were enqueued.
	Woken int `json:"woken"`
	// Message is the reason if there are none.
	Message string `json:"message,omitempty"`
}

// ServeHTTP responds immediately; the fetches that it requests run later.
func (r *Receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	ctx, cancel := context.WithTimeout(req.Context(), requestTimeout)
	defer cancel()
	from, known := senderOf(req.Header)
	a := answer{status: http.StatusBadRequest, Message: "no header names the event: GitHub, GitLab, Gitea, Forgejo, Bitbucket, and Azure DevOps by a user and a password, are understood"}
	if known {
		a = r.receive(ctx, from, w, req)
	}
	if r.options.Answered != nil {
		r.options.Answered(from.name, a.status)
	}
	if a.status >= http.StatusBadRequest {
		r.options.Logger.Info("webhook refused", "host", from.name, "remote", r.origins.of(req), "status", a.status, "why", a.Message)
	}
	if a.status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "10")
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(a.status)
	// If the sender has disconnected, there is nobody to report this to.
	_ = json.NewEncoder(w).Encode(a)
}

// receive checks, in this order: the body's type and size, the authentication, the event. It parses none of the body
// before the authentication succeeds.
func (r *Receiver) receive(ctx context.Context, from sender, w http.ResponseWriter, req *http.Request) answer {
	if kind, _, err := mime.ParseMediaType(req.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return answer{status: http.StatusUnsupportedMediaType, Message: "set the webhook's content type to application/json"}
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, maxBody))
	if err != nil {
		if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
			return answer{status: http.StatusRequestEntityTooLarge, Message: fmt.Sprintf("more than %d bytes", maxBody)}
		}
		return answer{status: http.StatusBadRequest, Message: "the body could not be read"}
	}
	if refused, ok := r.authenticate(ctx, from, req.Header, body); !ok {
		return refused
	}
	event := from.eventOf(req.Header, body)
	switch {
	case slices.Contains(from.pings, event):
		return answer{status: http.StatusOK, Message: "plumbline listens"}
	case !slices.Contains(from.pushes, event) && !slices.Contains(from.pulls, event):
		return answer{status: http.StatusAccepted, Message: "only pushes and pull requests wake a NodeSync"}
	}
	isPull, read := slices.Contains(from.pulls, event), from.readPush
	if isPull {
		read = from.read
	}
	told, err := read(body)
	if err != nil {
		return answer{status: http.StatusBadRequest, Message: err.Error()}
	}
	return r.wake(ctx, from, told, isPull)
}

// authenticate verifies that the sender has the token.
func (r *Receiver) authenticate(ctx context.Context, from sender, header http.Header, body []byte) (answer, bool) {
	token, err := r.token.read(ctx)
	switch {
	case errors.Is(err, errNoToken):
		if r.missing.begins() {
			r.options.Logger.Info("webhooks are refused until there is a token to check them with: kubectl create secret generic, with the key "+tokenKey,
				"namespace", r.options.Namespace, "secret", r.options.Secret)
		}
		return answer{status: http.StatusServiceUnavailable, Message: err.Error()}, false
	case err != nil:
		r.options.Logger.Error(err, "check a webhook")
		return answer{status: http.StatusServiceUnavailable, Message: "the token cannot be read now"}, false
	}
	r.missing.ends()
	if !from.proven(header.Get(from.proof), body, token) {
		return answer{status: http.StatusUnauthorized, Message: from.proof + " does not fit the token"}, false
	}
	return answer{}, true
}

// wake enqueues the NodeSyncs that a push concerns, and those whose pull requests the event may have changed.
func (r *Receiver) wake(ctx context.Context, from sender, told push, isPull bool) answer {
	list := &v1alpha1.NodeSyncList{}
	if err := r.options.NodeSyncs.List(ctx, list, client.InNamespace(r.options.Namespace)); err != nil {
		r.options.Logger.Error(err, "list NodeSyncs for a webhook")
		return answer{status: http.StatusServiceUnavailable, Message: "the NodeSyncs cannot be listed now"}
	}
	var looked []types.NamespacedName
	for i := range list.Items {
		if r.options.Pulls != nil && told.changesPulls(&list.Items[i]) {
			looked = append(looked, client.ObjectKeyFromObject(&list.Items[i]))
		}
	}
	if len(looked) > 0 {
		r.options.Pulls.Look(looked)
	}
	if isPull {
		r.options.Logger.Info("webhook received", "host", from.name, "repository", told.name(), "pulls", len(looked))
		if len(looked) == 0 {
			return answer{status: http.StatusAccepted, Message: fmt.Sprintf("no NodeSync follows pull requests of %s", told.name())}
		}
		return answer{status: http.StatusAccepted, Woken: len(looked)}
	}
	concerned := slices.DeleteFunc(list.Items, func(sync v1alpha1.NodeSync) bool {
		return !told.concerns(sync.Spec.Source.Git)
	})
	if err := r.options.Waker.Wake(ctx, concerned); err != nil {
		r.options.Logger.Error(err, "wake NodeSyncs for a webhook")
		return answer{status: http.StatusServiceUnavailable, Message: "the NodeSyncs cannot be woken now"}
	}
	r.options.Logger.Info("webhook received", "host", from.name, "repository", told.name(), "ref", told.moved(), "woken", len(concerned))
	if len(concerned) == 0 {
		return answer{status: http.StatusAccepted, Message: fmt.Sprintf("no NodeSync follows %s of %s", told.moved(), told.name())}
	}
	return answer{status: http.StatusAccepted, Woken: len(concerned)}
}

// sender is a kind of Git host: how it names its events and authenticates itself.
type sender struct {
	name string
	// known is the header that identifies the sender; if empty, event is.
	known string
	// event is the header with the name of the event; named reads the name from the body for senders without such a
	// header.
	event string
	named func(body []byte) string
	// pushes are the events after which something new can be fetched; pings only test the webhook.
	pushes, pings []string
	// pulls are the events of pull requests.
	pulls []string
	// proof is the header that proves that the sender has the token.
	proof  string
	proven func(proof string, body, token []byte) bool
	// read parses an event; one of a pull request contains no reference.
	read func(body []byte) (push, error)
}

// senders returns all supported senders. Forgejo also sends Gitea's headers, and both send GitHub's; both kinds of
// Bitbucket use the same header for the event: the first match counts.
//
//   - https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries
//   - https://docs.gitlab.com/user/project/integrations/webhook_events/
//   - https://docs.gitea.com/usage/webhooks
//   - https://forgejo.org/docs/latest/user/webhooks/
//   - https://support.atlassian.com/bitbucket-cloud/docs/event-payloads/
//   - https://confluence.atlassian.com/bitbucketserver/event-payload-938025882.html
//   - https://learn.microsoft.com/azure/devops/service-hooks/services/webhooks
func senders() []sender {
	return []sender{
		{
			name: "forgejo", event: "X-Forgejo-Event", pushes: []string{"push"}, pulls: githubPulls(), proof: "X-Forgejo-Signature",
			proven: signed(""), read: readEvent,
		},
		{
			name: "gitea", event: "X-Gitea-Event", pushes: []string{"push"}, pulls: githubPulls(), proof: "X-Gitea-Signature", proven: signed(""),
			read: readEvent,
		},
		{
			name: "gitlab", event: "X-Gitlab-Event", pushes: []string{"Push Hook", "Tag Push Hook"}, pulls: []string{"Merge Request Hook"},
			proof: "X-Gitlab-Token", proven: isToken, read: readEvent,
		},
		{
			name: "github", event: "X-GitHub-Event", pushes: []string{"push"}, pulls: githubPulls(), pings: []string{"ping"},
			proof: "X-Hub-Signature-256", proven: signed("sha256="), read: readEvent,
		},
		bitbucket(), bitbucketServer(), azureDevOps(),
	}
}

// githubPulls are those of GitHub; Gitea and Forgejo have a separate event for a new head.
func githubPulls() []string { return []string{"pull_request", "pull_request_sync"} }

// senderOf returns the sender of a request; false if unknown.
func senderOf(header http.Header) (sender, bool) {
	all := senders()
	i := slices.IndexFunc(all, func(s sender) bool { return header.Get(cmp.Or(s.known, s.event)) != "" })
	if i < 0 {
		return sender{}, false
	}
	return all[i], true
}

// eventOf returns the name of an event.
func (s sender) eventOf(header http.Header, body []byte) string {
	if s.named != nil {
		return s.named(body)
	}
	return header.Get(s.event)
}

const (
	// maxConnections limits the memory for bodies, each up to maxBody.
	maxConnections = 32
	// A request that arrives more slowly than this is not from a Git host.
	readTimeout = 5 * time.Second
	// A response takes requestTimeout, plus the time to write it.
	writeTimeout  = readTimeout + requestTimeout + time.Second
	maxHeaderSize = 16 << 10
)

// Server serves a handler at an address. It listens immediately and responds once the manager starts it, on each
// replica, because a Service does not know which of them is the leader.
func Server(ctx context.Context, address string, handler http.Handler) (manager.Runnable, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen for webhooks (--webhook-addr): %w", err)
	}
	return serving(listener, handler), nil
}

// serving limits the number of connections, and how long each lasts.
func serving(listener net.Listener, handler http.Handler) *manager.Server {
	server := &http.Server{
		Handler:        handler,
		ReadTimeout:    readTimeout,
		WriteTimeout:   writeTimeout,
		MaxHeaderBytes: maxHeaderSize,
	}
	// A host sends requests rarely: an idle connection would only occupy one of the few.
	server.SetKeepAlivesEnabled(false)
	shutdown := writeTimeout
	return &manager.Server{
		Name:            "webhook",
		Server:          server,
		Listener:        netutil.LimitListener(listener, maxConnections),
		ShutdownTimeout: &shutdown,
	}
}

// once detects the start of a lasting state, so that it is logged once.
type once struct{ going atomic.Bool }

// begins reports whether the state has just started.
func (o *once) begins() bool { return !o.going.Swap(true) }

// ends resets it, so that the next start is reported again.
func (o *once) ends() { o.going.Store(false) }

// tokenKey is the key of the token in the Secret.
const tokenKey = "token"

// errNoToken reports that there is no token to verify a request with.
var errNoToken = errors.New("no token is set for webhooks")

// token reads the Secret that requests are verified with, so that it can be created and changed while the daemon runs.
// The result is cached briefly, also if there is no token, so that a flood of requests does not reach the API server.
type token struct {
	reader client.Reader
	key    client.ObjectKey
	now    func() time.Time

	mu    sync.Mutex
	value []byte
	asked time.Time
}

const (
	// tokenValidFor is how long a token is cached.
	tokenValidFor = 5 * time.Second
	// missingValidFor is how long a missing token is cached: the user who creates the Secret tries it immediately.
	missingValidFor = time.Second
)

// read returns the token, or errNoToken.
func (t *token) read(ctx context.Context) ([]byte, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now := t.now(); !t.fresh(now) {
		value, err := t.readSecret(ctx)
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

// fresh reports whether the cached result is still valid. A clock that was set back does not extend it.
func (t *token) fresh(now time.Time) bool {
	lasts := missingValidFor
	if len(t.value) > 0 {
		lasts = tokenValidFor
	}
	return !t.asked.IsZero() && !now.Before(t.asked) && now.Before(t.asked.Add(lasts))
}

// readSecret reads the Secret without a cache; a missing Secret and an empty key mean no token. It removes a trailing
// newline, which `kubectl create --from-file` keeps.
func (t *token) readSecret(ctx context.Context) ([]byte, error) {
	secret := &corev1.Secret{}
	if err := t.reader.Get(ctx, t.key, secret); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("read secret %s for the token of webhooks: %w", t.key.Name, err)
	}
	return bytes.TrimRight(secret.Data[tokenKey], "\r\n"), nil
}

// signed reports whether a proof is the HMAC-SHA256 of the body with the token, in hexadecimal after a prefix. It
// compares in constant time.
func signed(prefix string) func(proof string, body, token []byte) bool {
	return func(proof string, body, token []byte) bool {
		digits, ok := strings.CutPrefix(proof, prefix)
		if !ok {
			return false
		}
		got, err := hex.DecodeString(digits)
		if err != nil {
			return false
		}
		mac := hmac.New(sha256.New, token)
		mac.Write(body)
		return hmac.Equal(got, mac.Sum(nil))
	}
}

// isToken reports whether a proof is the token itself. Both are hashed before the comparison, so that the time does not
// reveal the length of the token.
func isToken(proof string, _, token []byte) bool {
	got, want := sha256.Sum256([]byte(proof)), sha256.Sum256(token)
	return subtle.ConstantTimeCompare(got[:], want[:]) == 1
}
