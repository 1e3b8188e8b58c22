package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/net/netutil"
	"k8s.io/client-go/rest"
	certutil "k8s.io/client-go/util/cert"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"

	"github.com/plumbline-dev/plumbline/internal/inbound"
)

// Any pod may be able to connect, and the API server reviews each token that it sends. These limits apply before that:
// a Prometheus scrapes every few seconds, and a few of them may.
var metricsTotal, metricsSender = inbound.Rate{PerSecond: 5, Burst: 20}, inbound.Rate{PerSecond: 1, Burst: 5}

const (
	// maxScrapes is how many connections there are at a time. Each has one request, so that the API server reviews
	// no more tokens than that at a time.
	maxScrapes = 16
	// A request that comes in more slowly, or an answer that takes longer to write, is none of a Prometheus.
	scrapeReadTimeout, scrapeTimeout = 5 * time.Second, 30 * time.Second
	maxScrapeHeader                  = 16 << 10
)

// newMetricsServer serves the metrics, on each replica. They name NodeSyncs, pools and Git hosts, so that by default the
// API server decides who may read them (TokenReview and SubjectAccessReview), over HTTPS with a certificate of the
// process' own. Nil if --metrics-addr is 0.
func newMetricsServer(ctx context.Context, config *rest.Config, httpClient *http.Client, o *runOptions) (*manager.Server, error) {
	if o.metricsAddr == "0" {
		return nil, nil
	}
	handler, err := metricsHandler(config, httpClient, o.metricsAuth, time.Now)
	if err != nil {
		return nil, err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.metricsAddr)
	if err != nil {
		return nil, fmt.Errorf("listen for scrapes (--metrics-addr): %w", err)
	}
	listener = netutil.LimitListener(listener, maxScrapes)
	if o.metricsAuth {
		encrypted, err := ownCertificate()
		if err != nil {
			_ = listener.Close()
			return nil, err
		}
		listener = tls.NewListener(listener, encrypted)
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", handler)
	server := &http.Server{Handler: mux, ReadTimeout: scrapeReadTimeout, WriteTimeout: scrapeTimeout, MaxHeaderBytes: maxScrapeHeader}
	// A connection that is kept would take one of the few from others.
	server.SetKeepAlivesEnabled(false)
	return &manager.Server{Name: "metrics", Server: server, Listener: listener}, nil
}

// metricsHandler limits requests first, and has the API server review the token of the rest.
func metricsHandler(config *rest.Config, httpClient *http.Client, reviewed bool, now func() time.Time) (http.Handler, error) {
	handler := promhttp.HandlerFor(ctrlmetrics.Registry, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError})
	if reviewed {
		filter, err := filters.WithAuthenticationAndAuthorization(config, httpClient)
		if err != nil {
			return nil, fmt.Errorf("review who may read metrics: %w", err)
		}
		if handler, err = filter(ctrl.Log.WithName("metrics"), handler); err != nil {
			return nil, fmt.Errorf("review who may read metrics: %w", err)
		}
	}
	return inbound.New(now, metricsTotal, metricsSender).Handler(inbound.Peer, handler), nil
}

// ownCertificate is one that the process makes for itself. Without HTTP/2 a connection has one request at a time.
func ownCertificate() (*tls.Config, error) {
	cert, key, err := certutil.GenerateSelfSignedCertKeyWithFixtures("localhost", []net.IP{{127, 0, 0, 1}}, nil, "")
	if err != nil {
		return nil, fmt.Errorf("make the certificate of the metrics: %w", err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("make the certificate of the metrics: %w", err)
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}, Certificates: []tls.Certificate{pair}}, nil
}

// checkProfilingAddr refuses an address that others can reach: a heap profile may
// hold what Secrets hold. kubectl port-forward reaches loopback.
func checkProfilingAddr(addr string) error {
	if addr == "0" {
		return nil
	}
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("--profiling-addr %q is no address: give localhost:PORT, or 0 for none", addr)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return fmt.Errorf("--profiling-addr %s is not a loopback address: profiles may hold what Secrets hold; give localhost:PORT and use kubectl port-forward", addr)
	}
	return nil
}
