package webhook

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"golang.org/x/net/netutil"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

const (
	// maxConnections bounds the memory that bodies take, each up to maxBody.
	maxConnections = 32
	// A request that comes in more slowly than this is none of a Git host.
	readTimeout = 5 * time.Second
	// An answer takes patience, and a moment to be written.
	writeTimeout  = readTimeout + patience + time.Second
	maxHeaderSize = 16 << 10
)

// Server serves a handler at an address. It begins to listen at once and to
// answer when the manager starts it, on each replica: a Service does not know
// which of them leads.
func Server(ctx context.Context, address string, handler http.Handler) (manager.Runnable, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen for webhooks (--webhook-addr): %w", err)
	}
	return serving(listener, handler), nil
}

// serving bounds how many connections there are, and how long each lasts.
func serving(listener net.Listener, handler http.Handler) *manager.Server {
	server := &http.Server{
		Handler:        handler,
		ReadTimeout:    readTimeout,
		WriteTimeout:   writeTimeout,
		MaxHeaderBytes: maxHeaderSize,
	}
	// A host sends one request now and then: a connection that is kept would only
	// take one of the few.
	server.SetKeepAlivesEnabled(false)
	shutdown := writeTimeout
	return &manager.Server{
		Name:            "webhook",
		Server:          server,
		Listener:        netutil.LimitListener(listener, maxConnections),
		ShutdownTimeout: &shutdown,
	}
}
