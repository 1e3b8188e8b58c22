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

	"github.com/plumbline-dev/plumbline/tests/sandbox/binaries"
)

// namespace is the path below the registry's address, as in public.ecr.aws/karpenter.
const namespace = "karpenter"

// Options specify where a registry gets its charts from.
type Options struct {
	// Source is the folder tests/sandbox/bin of a checkout, which pins each release of Karpenter.
	Source string
	// Logger logs every request at level debug. Default: none.
	Logger *slog.Logger
}

// Registry is an OCI registry on a loopback address, in plain HTTP.
type Registry struct {
	// Address is host:port.
	Address string
	// Repository is the charts' repository as in plumbline.yaml: oci://host:port/karpenter.
	Repository string

	source  string
	store   http.Handler
	server  *http.Server
	stopped chan error

	packing sync.Mutex      // held while a release is packaged
	packed  map[string]bool // releases that are in the store

	mu       sync.Mutex
	logger   *slog.Logger
	faults   []*Fault
	requests []Request
}

// Serve serves the charts on a free loopback port until Close is called or ctx is done. Those of the sandbox's own
// controller are available from the start, those of other releases on demand.
func Serve(ctx context.Context, o Options) (*Registry, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}

	r := &Registry{
		source:  o.Source,
		store:   registry.New(registry.Logger(log.New(io.Discard, "", 0))),
		stopped: make(chan error, 1),
		packed:  map[string]bool{},
		logger:  o.Logger,
	}
	if err := r.Add(ctx, binaries.KarpenterVersion); err != nil {
		return nil, err
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

// Add packages both charts of a release and serves them, unless it already does.
func (r *Registry) Add(ctx context.Context, version string) error {
	r.packing.Lock()
	defer r.packing.Unlock()

	if r.packed[version] {
		return nil
	}

	if err := r.pack(ctx, version); err != nil {
		return err
	}

	r.packed[version] = true

	return nil
}

func (r *Registry) pack(ctx context.Context, version string) error {
	module, err := openModule(ctx, r.source, version)
	if err != nil {
		return err
	}

	for _, name := range []string{CRDChart, MainChart} {
		c, err := readChart(module, name, version)
		if err != nil {
			return err
		}

		if err := r.serveChart(ctx, c, version); err != nil {
			return err
		}
	}

	return nil
}

func (r *Registry) serveChart(ctx context.Context, c *chart, tag string) error {
	a, err := newArtifact(c)
	if err != nil {
		return err
	}

	if err := push(ctx, r.store, namespace+"/"+c.Name, tag, a); err != nil {
		return fmt.Errorf("serve chart %s %s: %w", c.Name, tag, err)
	}

	return nil
}

// Close stops the registry and frees its port.
func (r *Registry) Close() error {
	if err := r.server.Close(); err != nil {
		return fmt.Errorf("close the chart registry at %s: %w", r.Address, err)
	}

	if err := <-r.stopped; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve charts at %s: %w", r.Address, err)
	}

	return nil
}
