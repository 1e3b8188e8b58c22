package page

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	"golang.org/x/net/netutil"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

const (
	maxConnections = 32
	readTimeout    = 5 * time.Second
	writeTimeout   = patience + 7*time.Second
	maxHeaderSize  = 16 << 10
)

// CheckAddress refuses an address that others can reach: who may see the page is who may open a
// port of the Pod (the right to create pods/portforward), or whom a proxy in the Pod lets in.
func CheckAddress(address string) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil || port == "" {
		return fmt.Errorf("--page-addr %q is no address: give localhost:PORT, or 0 for none", address)
	}
	if !isLoopback(host) {
		return fmt.Errorf("--page-addr %s is not a loopback address, and the page asks nobody who they are: give localhost:PORT and use kubectl port-forward, or a proxy with a login in the same Pod", address)
	}
	return nil
}

// CheckURL returns the host at which users find the page; empty where there is no such place.
func CheckURL(text string) (host string, err error) {
	if text == "" {
		return "", nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", fmt.Errorf("--page-url %q is not the URL of a page: give https://HOST, without credentials and query", text)
	}
	return u.Host, nil
}

// Server serves a handler at an address. It begins to listen at once and to answer when the manager
// starts it, on each replica: one that does not lead says which one does.
func Server(ctx context.Context, address string, h http.Handler) (manager.Runnable, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen for the page (--page-addr): %w", err)
	}
	return serving(listener, h), nil
}

// serving bounds how many connections there are, and how long each lasts.
func serving(listener net.Listener, h http.Handler) *manager.Server {
	shutdown := time.Second // nothing is lost by an answer that does not come
	server := &http.Server{
		Handler:        http.MaxBytesHandler(h, 0),
		ReadTimeout:    readTimeout,
		WriteTimeout:   writeTimeout,
		MaxHeaderBytes: maxHeaderSize,
	}
	// A page is one request, and comes again each 10 s: browsers that keep theirs open would keep others out.
	server.SetKeepAlivesEnabled(false)
	return &manager.Server{
		Name: "page", Server: server,
		Listener:        netutil.LimitListener(listener, maxConnections),
		ShutdownTimeout: &shutdown,
	}
}
