package charts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"
)

// DefaultVersion is the release that the sandbox's controller is built from.
const DefaultVersion = "1.14.1"

// namespace is the path below the registry's address, as in public.ecr.aws/karpenter.
const namespace = "karpenter"

// Options say what a registry serves at its start.
type Options struct {
	// ModuleDir is the folder of the Go module that pins Karpenter (tests/sandbox/bin/karpenter).
	ModuleDir string
	// Versions are served from the start, without the leading v. Default: DefaultVersion alone.
	Versions []string
	// Logger hears of every request at level debug. Default: none.
	Logger *slog.Logger
}

// Registry is an OCI registry on a loopback address, in plain HTTP.
type Registry struct {
	// Address is host:port.
	Address string
	// Repository is where the charts are, as plumbline.yaml wants it: oci://host:port/karpenter.
	Repository string

	moduleDir string
	store     http.Handler
	server    *http.Server
	stopped   chan error

	mu       sync.Mutex
	logger   *slog.Logger
	faults   []*Fault
	requests []Request
}

// Serve packages the charts and answers for them on a free loopback port until Close is called or ctx ends.
func Serve(ctx context.Context, o Options) (*Registry, error) {
	if len(o.Versions) == 0 {
		o.Versions = []string{DefaultVersion}
	}

	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}

	r := &Registry{
		moduleDir: o.ModuleDir,
		store:     registry.New(registry.Logger(log.New(io.Discard, "", 0))),
		stopped:   make(chan error, 1),
		logger:    o.Logger,
	}
	for _, version := range o.Versions {
		if err := r.Add(ctx, version); err != nil {
			return nil, err
		}
	}

	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for chart pulls: %w", err)
	}

	r.Address = listener.Addr().String()
	r.Repository = "oci://" + r.Address + "/" + namespace
	r.server = &http.Server{Handler: r, ReadHeaderTimeout: time.Minute}

	go func() { r.stopped <- r.server.Serve(listener) }()

	context.AfterFunc(ctx, func() { _ = r.server.Close() })

	return r, nil
}

// Add packages both charts at another version and serves them too.
func (r *Registry) Add(ctx context.Context, version string) error {
	module, err := openModule(ctx, r.moduleDir, version)
	if err != nil {
		return err
	}

	for _, name := range []string{CRDChart, MainChart} {
		c, err := readChart(module, name, version)
		if err != nil {
			return err
		}

		a, err := newArtifact(c)
		if err != nil {
			return err
		}

		if err := push(ctx, r.store, namespace+"/"+name, version, a); err != nil {
			return fmt.Errorf("serve chart %s %s: %w", name, version, err)
		}
	}

	return nil
}

// Close ends the registry and frees its port.
func (r *Registry) Close() error {
	if err := r.server.Close(); err != nil {
		return fmt.Errorf("close the chart registry at %s: %w", r.Address, err)
	}

	if err := <-r.stopped; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve charts at %s: %w", r.Address, err)
	}

	return nil
}
