package page

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"errors"
	"fmt"
	"html/template"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/net/netutil"
	"golang.org/x/sync/singleflight"
	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/plumbline-dev/plumbline/redact"
)

// Options are the dependencies of the pages.
type Options struct {
	Cluster Cluster
	// Elected is closed once this replica is the leader: only the leader watches nodes. Leader returns the name of the
	// leader, if known.
	Elected <-chan struct{}
	Leader  func() string
	// Host is where users open the page, in addition to loopback; empty if there is none.
	Host string
	// Port is the port of the page.
	Port    string
	Version string
	Logger  logr.Logger
}

// handler answers requests.
type handler struct {
	Options
	writer *writer
	cache  *cache
}

// New returns the handler for all paths.
func New(o Options) (http.Handler, error) {
	w, err := newWriter(o.Cluster.Namespace, o.Version)
	if err != nil {
		return nil, err
	}
	h := &handler{Options: o, writer: w}
	h.cache = newCache(o.Cluster.Now, o.Cluster.Read, w.page)
	return h.routes(), nil
}

func (h *handler) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", h.serve)
	mux.HandleFunc("GET /nodesyncs/{name}", h.serve)
	return h.guarded(mux)
}

// guarded sets the headers of every response, and refuses requests for any other host name: otherwise a site whose name
// resolves to loopback could read the page with the user's browser.
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

// isOurs reports whether a request's host is loopback, or the host where users open the page.
func (h *handler) isOurs(host string) bool {
	if h.Host != "" && strings.EqualFold(host, h.Host) {
		return true
	}
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return isLoopback(strings.Trim(host, "[]"))
}

// isLoopback reports whether a host is reachable from this machine only.
func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

func (h *handler) serve(w http.ResponseWriter, r *http.Request) {
	select {
	case <-h.Elected:
	default:
		h.answer(w)(h.writer.notice(http.StatusServiceUnavailable, h.leaderNotice()))
		return
	}
	found, err := h.cache.get(r.Context(), queryOf(r.PathValue("name"), r.URL.Query()))
	switch {
	case errors.Is(err, errBusy):
		w.Header().Set("Retry-After", "1")
		http.Error(w, err.Error(), http.StatusTooManyRequests)
	case r.Context().Err() != nil: // nobody reads the response
	case errors.Is(err, context.DeadlineExceeded):
		h.answer(w)(h.writer.notice(http.StatusServiceUnavailable, notice{Heading: "Not ready yet", Text: "The watch caches are filling."}))
	case err != nil:
		h.Logger.Error(err, "make a page")
		h.answer(w)(h.writer.notice(http.StatusServiceUnavailable, notice{Heading: "Not available", Text: "The data of this page cannot be read now: see the daemon's log."}))
	default:
		h.answer(w)(found, nil)
	}
}

// leaderNotice returns a page that names the replica that leads.
func (h *handler) leaderNotice() notice {
	n := notice{Heading: "Another replica leads", Text: "This replica does not watch nodes, and does not know yet which one does."}
	// The holder of the lease is the host name, which is that of its Pod, and a number.
	if pod, _, _ := strings.Cut(h.Leader(), "_"); pod != "" {
		n.Text = fmt.Sprintf("This replica does not watch nodes. The page is on %s:", pod)
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
			w.Header().Set("Retry-After", fmt.Sprint(refreshSeconds))
		}
		w.WriteHeader(page.status)
		_, _ = w.Write(page.html) // if the client has disconnected, there is nobody to report this to
	}
}

// cacheTimeout limits how long a page waits for the watch cache.
const cacheTimeout = 3 * time.Second

const (
	maxConnections = 32
	readTimeout    = 5 * time.Second
	writeTimeout   = cacheTimeout + 7*time.Second
	maxHeaderSize  = 16 << 10
)

// CheckAddress returns an error for an address that others can reach: access to the page requires the permission to
// create pods/portforward, or a proxy in the Pod.
func CheckAddress(address string) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil || port == "" {
		return fmt.Errorf("--page-addr %q is not an address: use localhost:PORT, or 0 to disable it", address)
	}
	if !isLoopback(host) {
		return fmt.Errorf("--page-addr %s is not a loopback address, and the page asks nobody who they are: give localhost:PORT and use kubectl port-forward, or a proxy with a login in the same Pod", address)
	}
	return nil
}

// CheckURL returns the host at which users open the page; empty if there is none.
func CheckURL(text string) (host string, err error) {
	if text == "" {
		return "", nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", fmt.Errorf("--page-url %q is not the URL of a page: use https://HOST, without credentials or a query", text)
	}
	return u.Host, nil
}

// Server serves a handler at an address. It listens immediately and responds once the manager starts it, on each
// replica: one that is not the leader names the leader.
func Server(ctx context.Context, address string, h http.Handler) (manager.Runnable, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen for the page (--page-addr): %w", err)
	}
	return serving(listener, h), nil
}

// serving limits the number of connections, and how long each lasts.
func serving(listener net.Listener, h http.Handler) *manager.Server {
	shutdown := time.Second // nothing is lost if a response is aborted
	server := &http.Server{
		Handler:        http.MaxBytesHandler(h, 0),
		ReadTimeout:    readTimeout,
		WriteTimeout:   writeTimeout,
		MaxHeaderBytes: maxHeaderSize,
	}
	// A page is one request, repeated every 10 s: browsers with idle connections would lock others out.
	server.SetKeepAlivesEnabled(false)
	return &manager.Server{
		Name: "page", Server: server,
		Listener:        netutil.LimitListener(listener, maxConnections),
		ShutdownTimeout: &shutdown,
	}
}

// query is what a request asks for.
type query struct {
	// nodeSync is the name of a NodeSync; empty for the overview.
	nodeSync string
	// pool limits terminated nodes to that pool; all shows everything; still stops the page from reloading.
	pool       string
	all, still bool
}

// queryOf reads the query of a request. It ignores unknown parameters, so that there are few different pages.
func queryOf(nodeSync string, values url.Values) query {
	q := query{nodeSync: nodeSync, all: values.Get("all") == "1", still: values.Get("refresh") == "off"}
	if pool := values.Get("pool"); nodeSync != "" && len(validation.IsDNS1123Subdomain(pool)) == 0 {
		q.pool = pool
	}
	return q
}

// address returns the URL of a query's page.
func (q query) address() string {
	u := url.URL{Path: "/"}
	if q.nodeSync != "" {
		u.Path = "/nodesyncs/" + q.nodeSync
	}
	values := url.Values{}
	if q.pool != "" {
		values.Set("pool", q.pool)
	}
	if q.all {
		values.Set("all", "1")
	}
	if q.still {
		values.Set("refresh", "off")
	}
	u.RawQuery = values.Encode()
	return u.String()
}

// one returns the page of a NodeSync, and home the overview; both keep the setting of still.
func (q query) one(name string) string { return query{nodeSync: name, still: q.still}.address() }
func (q query) home() string           { return query{still: q.still}.address() }

// changed returns the same page with a changed query.
func (q query) changed(change func(*query)) string {
	change(&q)
	return q.address()
}

//go:embed templates
var files embed.FS

// writer renders views as HTML.
type writer struct {
	style     template.CSS
	namespace string
	version   string
	pages     map[string]*template.Template
}

// written is a response.
type written struct {
	status int
	html   []byte
}

// notice is a page with a single message.
type notice struct{ Heading, Text, Command string }

func newWriter(namespace, version string) (*writer, error) {
	style, err := files.ReadFile("templates/style.css")
	if err != nil {
		return nil, fmt.Errorf("read the style of pages: %w", err)
	}
	w := &writer{style: template.CSS(style), namespace: namespace, version: version, pages: map[string]*template.Template{}}
	for _, name := range []string{"overview", "nodesync", "notice"} {
		if w.pages[name], err = template.ParseFS(files, "templates/layout.html", "templates/"+name+".html"); err != nil {
			return nil, fmt.Errorf("read the template of pages: %w", err)
		}
	}
	return w, nil
}

// styleHash returns the hash by which the browser recognizes the only allowed style.
func (w *writer) styleHash() string {
	sum := sha256.Sum256([]byte(w.style))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// page renders the requested page.
func (w *writer) page(world *World, q query) (written, error) {
	v := view{
		Title: "plumbline", Home: q.home(), Here: q.nodeSync,
		At: when{Words: world.Now.UTC().Format("15:04:05") + " UTC", Exact: world.Now.UTC().Format("2006-01-02T15:04:05Z")},
	}
	v.Toggle = q.changed(func(q *query) { q.still = !q.still })
	if !q.still {
		v.Refresh = refreshSeconds
	}
	if q.nodeSync == "" {
		v.Body = overviewOf(world, q)
		return w.write("overview", http.StatusOK, v)
	}
	sync := world.nodeSync(q.nodeSync)
	if sync == nil {
		v.Toggle, v.Title = "", "No NodeSync "+q.nodeSync
		v.Body = notice{
			Heading: "No NodeSync " + q.nodeSync,
			Text:    "There is none of this name in namespace " + w.namespace + ". The others are on the first page.",
		}
		return w.write("notice", http.StatusNotFound, v)
	}
	shown := nodeSyncOf(world, q, sync)
	v.Title, v.Body = sync.Name+": "+shown.State.Words, shown
	return w.write("nodesync", http.StatusOK, v)
}

// notice renders a page with a single message, which reloads if the message may change.
func (w *writer) notice(status int, n notice) (written, error) {
	v := view{Title: n.Heading, Home: query{}.home(), Here: n.Heading, Body: n}
	if status == http.StatusServiceUnavailable {
		v.Refresh = refreshSeconds
	}
	return w.write("notice", status, v)
}

func (w *writer) write(name string, status int, v view) (written, error) {
	v.Style, v.Namespace, v.Version = w.style, w.namespace, w.version
	var out bytes.Buffer
	if err := w.pages[name].ExecuteTemplate(&out, "layout", v); err != nil {
		return written{}, fmt.Errorf("write the page %s: %w", name, err)
	}
	// Text that others wrote must not be mistaken for the page's own here either.
	return written{status, []byte(redact.Visible(out.String()))}, nil
}

const (
	// cacheFor is how long a response is cached.
	cacheFor = time.Second
	// Pages that are not cached are rendered one at a time, with this rate limit: a page of 500 pools takes a few
	// milliseconds.
	rendersRate, rendersBurst = rate.Limit(10), 20
)

// errBusy reports requests for too many different pages.
var errBusy = errors.New("too many different pages are asked for")

// cache caches responses for a second, and lets concurrent requests for the same page share a render.
type cache struct {
	now    func() time.Time
	read   func(context.Context) (*World, error)
	render func(*World, query) (written, error)

	making  singleflight.Group
	one     chan struct{} // held while reading and rendering
	limiter *rate.Limiter

	mu      sync.Mutex
	answers map[query]kept
	world   *World
}

type kept struct {
	page written
	at   time.Time
}

func newCache(now func() time.Time, read func(context.Context) (*World, error), render func(*World, query) (written, error)) *cache {
	return &cache{
		now: now, read: read, render: render, one: make(chan struct{}, 1), limiter: rate.NewLimiter(rendersRate, rendersBurst),
		answers: map[query]kept{},
	}
}

// get returns the page for a query.
func (s *cache) get(ctx context.Context, q query) (written, error) {
	if page, found := s.kept(q); found {
		return page, nil
	}
	answers := s.making.DoChan(q.address(), func() (any, error) {
		// Others may wait for it if the first client disconnects.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cacheTimeout)
		defer cancel()
		return s.make(ctx, q)
	})
	select {
	case answer := <-answers:
		if answer.Err != nil {
			return written{}, answer.Err
		}
		return answer.Val.(written), nil
	case <-ctx.Done():
		return written{}, ctx.Err()
	}
}

// make reads and renders a page.
func (s *cache) make(ctx context.Context, q query) (written, error) {
	select {
	case s.one <- struct{}{}:
		defer func() { <-s.one }()
	case <-ctx.Done():
		return written{}, ctx.Err()
	}
	if page, found := s.kept(q); found {
		return page, nil
	}
	if !s.limiter.AllowN(s.now(), 1) {
		return written{}, errBusy
	}
	if s.world == nil || s.now().Sub(s.world.Now) >= cacheFor {
		world, err := s.read(ctx)
		if err != nil {
			return written{}, err
		}
		s.world = world
	}
	page, err := s.render(s.world, q)
	if err != nil {
		return written{}, err
	}
	s.keep(q, page)
	return page, nil
}

func (s *cache) kept(q query) (written, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found, has := s.answers[q]
	return found.page, has && s.now().Sub(found.at) < cacheFor
}

// keep caches a response and drops older ones; the rate limit bounds their number.
func (s *cache) keep(q query, page written) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for other, old := range s.answers {
		if s.now().Sub(old.at) >= cacheFor {
			delete(s.answers, other)
		}
	}
	s.answers[q] = kept{page, s.world.Now}
}
