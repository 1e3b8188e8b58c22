package page

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/go-logr/logr"
)

// Options say what pages are made with.
type Options struct {
	Cluster Cluster
	// Elected is closed once this replica leads: no other one watches nodes. Leader names the one
	// that does, as far as it is known.
	Elected <-chan struct{}
	Leader  func() string
	// Host is where users find the page, beside loopback; empty where there is no such place.
	Host string
	// Port is the one that it is served at.
	Port    string
	Version string
	Logger  logr.Logger
}

// handler answers requests.
type handler struct {
	Options
	writer *writer
	shelf  *shelf
}

// New makes the handler of all paths.
func New(o Options) (http.Handler, error) {
	w, err := newWriter(o.Cluster.Namespace, o.Version)
	if err != nil {
		return nil, err
	}
	h := &handler{Options: o, writer: w}
	h.shelf = newShelf(o.Cluster.Now, o.Cluster.Read, w.page)
	return h.routes(), nil
}

func (h *handler) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", h.serve)
	mux.HandleFunc("GET /nodesyncs/{name}", h.serve)
	return h.guarded(mux)
}

// guarded sets what every answer has, and lets no request in by a name that is not the page's: a
// site that has its name resolve to loopback would read it with the user's browser.
func (h *handler) guarded(next http.Handler) http.Handler {
	policy := "default-src 'none'; style-src '" + h.writer.styleHash() + "'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for key, value := range map[string]string{
			"Content-Security-Policy":      policy,
			"Cross-Origin-Opener-Policy":   "same-origin",
			"Cross-Origin-Resource-Policy": "same-origin",
			"X-Content-Type-Options":       "nosniff",
			"X-Frame-Options":              "DENY",
			"Referrer-Policy":              "no-referrer",
			"Cache-Control":                "no-store",
		} {
			w.Header().Set(key, value)
		}
		if !h.isOurs(r.Host) {
			http.Error(w, "this page is served at localhost, and at the host of --page-url", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// isOurs says whether a request's host is loopback, or where users find the page.
func (h *handler) isOurs(host string) bool {
	if h.Host != "" && strings.EqualFold(host, h.Host) {
		return true
	}
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return isLoopback(strings.Trim(host, "[]"))
}

// isLoopback says whether a host is this machine for nobody but itself.
func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

func (h *handler) serve(w http.ResponseWriter, r *http.Request) {
	select {
	case <-h.Elected:
	default:
		h.answer(w)(h.writer.notice(http.StatusServiceUnavailable, h.elsewhere()))
		return
	}
	found, err := h.shelf.get(r.Context(), queryOf(r.PathValue("name"), r.URL.Query()))
	switch {
	case errors.Is(err, errBusy):
		w.Header().Set("Retry-After", "1")
		http.Error(w, err.Error(), http.StatusTooManyRequests)
	case r.Context().Err() != nil: // nobody reads the answer
	case errors.Is(err, context.DeadlineExceeded):
		h.answer(w)(h.writer.notice(http.StatusServiceUnavailable, notice{Heading: "Not ready yet", Text: "The watch caches are filling."}))
	case err != nil:
		h.Logger.Error(err, "make a page")
		h.answer(w)(h.writer.notice(http.StatusServiceUnavailable, notice{Heading: "Not available", Text: "What the page shows cannot be read now; the daemon's log says why."}))
	default:
		h.answer(w)(found, nil)
	}
}

// elsewhere says which replica has the page.
func (h *handler) elsewhere() notice {
	n := notice{Heading: "Another replica leads", Text: "This one has no view of the nodes, and does not know yet which one has."}
	// A holder of the lease is known by the name of its host, which is its Pod's, and a number.
	if pod, _, _ := strings.Cut(h.Leader(), "_"); pod != "" {
		n.Text = fmt.Sprintf("This one has no view of the nodes. The page is on %s:", pod)
		n.Command = fmt.Sprintf("kubectl port-forward -n %s pod/%s %s", h.Cluster.Namespace, pod, h.Port)
	}
	return n
}

// answer sends a page.
func (h *handler) answer(w http.ResponseWriter) func(written, error) {
	return func(page written, err error) {
		if err != nil {
			h.Logger.Error(err, "make a page")
			http.Error(w, "the page cannot be made", http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		if page.status == http.StatusServiceUnavailable {
			w.Header().Set("Retry-After", fmt.Sprint(refreshes))
		}
		w.WriteHeader(page.status)
		_, _ = w.Write(page.html) // the user may have gone; there is nobody else to tell
	}
}

// patience bounds what a page waits for the watch cache.
const patience = 3 * time.Second
