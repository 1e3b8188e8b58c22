package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/internal/inbound"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// Path is where requests are received.
const Path = "/hook"

const (
	// maxBody is more than a push of any size takes on the hosts that cut their
	// lists of commits, and bounds what a stranger can have us read.
	maxBody = 1 << 20
	// patience bounds what one request waits for the API server: hosts wait for
	// 5 s (Gitea) to 10 s (GitHub, GitLab).
	patience = 4 * time.Second
)

// Waker has the sources of NodeSyncs fetched now.
type Waker interface {
	Wake(ctx context.Context, syncs []v1alpha1.NodeSync) error
}

// Pulls has the pull requests of NodeSyncs looked at soon. It never blocks.
type Pulls interface {
	Look(names []types.NamespacedName)
}

// Options say what a Receiver works with.
type Options struct {
	// NodeSyncs lists them, out of a cache.
	NodeSyncs client.Reader
	// Secrets reads the token, past every cache.
	Secrets client.Reader
	// Namespace is that of the NodeSyncs and of the Secret, Secret its name.
	Namespace, Secret string
	// TrustedProxies are believed about whom a request comes from.
	TrustedProxies []net.IPNet
	Waker          Waker
	// Pulls, if set, hears of NodeSyncs whose pull requests may have changed.
	Pulls  Pulls
	Now    func() time.Time
	Logger logr.Logger
	// Answered, if set, hears of each answer: the kind of host ("" where it is not
	// known) and the HTTP status.
	Answered func(host string, status int)
}

// How many requests are looked at: a busy host sends a few in a second, and one for each reference of a push.
var allRequests, requestsOfOne = inbound.Rate{PerSecond: 20, Burst: 100}, inbound.Rate{PerSecond: 5, Burst: 50}

// Receiver is the handler of what hosts send to Path.
type Receiver struct {
	options Options
	origins origins
	token   *token
	missing once
}

// New makes the handler of all paths.
func New(o Options) http.Handler {
	from := origins{o.TrustedProxies}
	r := &Receiver{options: o, origins: from, token: &token{reader: o.Secrets, key: client.ObjectKey{Namespace: o.Namespace, Name: o.Secret}, now: o.Now}}
	mux := http.NewServeMux()
	mux.Handle("POST "+Path, r)
	return inbound.New(o.Now, allRequests, requestsOfOne).Handler(from.of, mux)
}

// answer is what a request comes to.
type answer struct {
	status int
	// Woken is how many NodeSyncs are fetched now.
	Woken int `json:"woken"`
	// Message says why, where none is.
	Message string `json:"message,omitempty"`
}

// ServeHTTP answers at once: what it wakes goes on by itself.
func (r *Receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	ctx, cancel := context.WithTimeout(req.Context(), patience)
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
	// The sender may have gone; there is nobody else to tell.
	_ = json.NewEncoder(w).Encode(a)
}

// receive checks, in this order: the body's kind and size, the proof, the event.
// Nothing of the body is parsed before the proof holds.
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

// authenticate checks that the sender has the token.
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

// wake wakes the NodeSyncs that a push concerns, and those whose pull requests it or another
// event may have changed.
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
