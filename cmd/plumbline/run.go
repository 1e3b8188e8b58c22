package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/fluxcd/pkg/runtime/client"
	"github.com/fluxcd/pkg/runtime/logger"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/net/netutil"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/rest"
	certutil "k8s.io/client-go/util/cert"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/plumbline-dev/plumbline/internal/inbound"
	"github.com/plumbline-dev/plumbline/internal/steppoint"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/deletion"
	"github.com/plumbline-dev/plumbline/reconcile/grant"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/webhook"
)

// runOptions are the flags of the daemon.
type runOptions struct {
	namespace        string
	podName          string
	nodeName         string
	cacheDir         string
	metricsAddr      string
	metricsAuth      bool
	profilingAddr    string
	healthAddr       string
	eventsAddr       string
	webhookAddr      string
	webhookSecret    string
	webhookProxies   []net.IPNet
	pageAddr         string
	pageURL          string
	concurrent       int
	leaderElect      bool
	anyHost          bool
	cloudInterval    time.Duration
	compareInstances time.Duration
	deletionGuard    bool
	storeLimit       int64
	sourceNamespaces []string
	// karpenterNamespaces are those that Karpenter may run in; if empty, any.
	karpenterNamespaces []string
	log                 logger.Options
	client              client.Options
	steps               steppoint.Options
}

func newRunCommand(kubeconfig *genericclioptions.ConfigFlags) *cobra.Command {
	o := &runOptions{}
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run the daemon that reconciles the NodeSyncs of its namespace",
		Long: `Run the daemon. It serves the NodeSyncs of its own namespace. On SIGTERM it completes
the operations in progress, starts no new ones, and exits.

It connects to the cluster of the kubeconfig flags, or in a Pod with its ServiceAccount,
and to AWS with the default credential chain of the AWS SDK.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runDaemon(cmd.Context(), kubeconfig, o)
		},
	}
	o.bind(cmd.Flags())
	return cmd
}

// guards returns the reader of the deletion guard's policies.
func (o *runOptions) guards() *deletion.Checker {
	return &deletion.Checker{WithoutGuard: !o.deletionGuard}
}

func (o *runOptions) bind(flags *pflag.FlagSet) {
	flags.StringVar(&o.namespace, "watch-namespace", envOr("POD_NAMESPACE", "plumbline-system"),
		"namespace of the NodeSyncs and of the leader's Lease; default from $POD_NAMESPACE")
	flags.StringVar(&o.podName, "pod-name", envOr("POD_NAME", ""),
		"name of the daemon's own Pod; default from $POD_NAME, empty outside a cluster")
	flags.StringVar(&o.nodeName, "node-name", envOr("NODE_NAME", ""),
		"node that the daemon runs on; plumbline does not remove its NodePool; default from $NODE_NAME, empty outside a cluster")
	flags.StringVar(&o.cacheDir, "cache-dir", filepath.Join(os.TempDir(), "plumbline"),
		"folder for Git stores and charts, used by one daemon at a time; it can be deleted safely and is then downloaded again")
	flags.StringVar(&o.metricsAddr, "metrics-addr", ":8080", "address of /metrics; 0 disables it")
	flags.BoolVar(&o.metricsAuth, "metrics-auth", true,
		"serve /metrics over HTTPS to clients whose token may get the non-resource URL /metrics; false serves it to everyone over plain HTTP")
	flags.StringVar(&o.profilingAddr, "profiling-addr", "0", "loopback address of /debug/pprof, such as localhost:6060; 0 disables it")
	flags.StringVar(&o.healthAddr, "health-addr", ":9440", "address of /healthz and /readyz; 0 disables them")
	flags.StringVar(&o.eventsAddr, "events-addr", "", "URL of Flux's notification-controller to forward events to, such as http://notification-controller.flux-system.svc.cluster.local./; empty disables forwarding")
	flags.StringVar(&o.webhookAddr, "webhook-addr", "0", "address of "+webhook.Path+", to which Git hosts send push webhooks; 0 disables it")
	flags.StringVar(&o.webhookSecret, "webhook-secret", "plumbline-webhook",
		"Secret in the daemon's namespace whose key token authenticates webhooks; it can be created and changed while the daemon runs")
	flags.IPNetSliceVar(&o.webhookProxies, "webhook-trusted-proxies", nil,
		"CIDRs of the proxies in front of the webhook that are trusted for X-Forwarded-For when rate limiting")
	flags.StringVar(&o.pageAddr, "page-addr", "0",
		"loopback address of a page that shows the NodeSyncs, such as localhost:8090; 0 disables it")
	flags.StringVar(&o.pageURL, "page-url", "",
		"URL at which users open that page, through a proxy or a forwarded port; commit statuses link to it")
	flags.IntVar(&o.concurrent, "concurrent", 4, "number of NodeSyncs reconciled at a time")
	flags.BoolVar(&o.leaderElect, "leader-elect", false, "elect a leader, so that several replicas can run")
	flags.BoolVar(&o.anyHost, "secrets-for-any-host", false,
		"send the contents of a Secret without the annotation "+v1alpha1.HostsAnnotation+" to any host that a NodeSync names")
	flags.DurationVar(&o.cloudInterval, "cloud-interval", 10*time.Second, "minimum time between two EC2 queries about removals")
	flags.DurationVar(&o.compareInstances, "compare-instances", 10*time.Minute,
		"minimum time between two comparisons of EC2 instances with their definitions and NodeClaims; 0 disables them")
	flags.BoolVar(&o.deletionGuard, "deletion-guard", true, "report if the policies that deny the deletion of objects managed by plumbline are missing or altered; set to false if you deliberately do not install them")
	flags.StringSliceVar(&o.sourceNamespaces, "source-namespaces", nil,
		"namespaces, in addition to the daemon's own, whose Flux sources a NodeSync may follow (spec.source.sourceRef), such as flux-system")
	flags.StringSliceVar(&o.karpenterNamespaces, "karpenter-namespaces", []string{"kube-system"}, "namespaces that Karpenter may run in: Deployments and the charts' objects are watched only there; empty for all, which needs a ClusterRole")
	flags.Int64Var(&o.storeLimit, "git-store-limit", 1<<30, "maximum total size of all Git stores and Flux artifacts, without cached charts, in bytes; while one is replaced, disk usage can be twice as high")
	o.log.BindFlags(flags)
	o.client.BindFlags(flags)
	o.steps.BindFlags(flags)
	// The API server's priority and fairness limits the requests.
	o.client.QPS = -1
	flags.Lookup("kube-api-qps").DefValue = "-1"
}

func envOr(name, otherwise string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return otherwise
}

// host returns the daemon's own pod; zero outside a cluster.
func (o *runOptions) host() plan.Host {
	if o.nodeName == "" {
		return plan.Host{}
	}
	return plan.Host{Workload: "plumbline", Pod: o.namespace + "/" + o.podName, Node: o.nodeName}
}

// grants returns the policy on which hosts Secrets may be sent to.
func (o *runOptions) grants() grant.Policy { return grant.Policy{Unannotated: o.anyHost} }

const (
	// restInterval is how often the daemon checks whether it is idle.
	restInterval = 10 * time.Second
	// idleAllocation is the maximum that an idle daemon allocates in that time.
	idleAllocation = 16 << 20
	// minReleasable is too little to be worth releasing: a collection takes about 30 ms of CPU, and an idle daemon
	// allocates this much in a minute.
	minReleasable = 4 << 20
)

// GC percentages: how much garbage may accumulate, relative to the heap in use, before a collection. GOGC in the
// environment overrides them; GOMEMLIMIT bounds both.
const (
	// startupGCPercent applies until a leading daemon is first idle: what its first reconciles keep lies between what they
	// do not keep, and Go does not move objects later.
	startupGCPercent = 70
	// gcPercent applies afterwards: a busy daemon collects half as often as other programs, and when idle the releaser
	// keeps it small.
	gcPercent = 200
)

// collect trades memory for CPU time while the daemon is busy.
func collect(percent int) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
}

// releaser releases memory to the system after work: a large render or the first reconcile of 10,000 nodes takes
// several times what is kept of it, and a daemon that is idle afterwards would not collect or return it for minutes. It
// does not reduce what the daemon needs while busy.
type releaser struct {
	// elected is closed when this replica leads.
	elected <-chan struct{}
	before  usage
}

// usage is the process's memory, in bytes.
type usage struct {
	// allocated is the total ever allocated; garbage is what is known to be unused, or was allocated since the last
	// collection; free is what the runtime keeps for later.
	allocated, garbage, free uint64
}

// NeedLeaderElection returns false: replicas that do not lead release memory, too.
func (*releaser) NeedLeaderElection() bool { return false }

// Start checks until the context is done.
func (r *releaser) Start(ctx context.Context) error {
	ticker := time.NewTicker(restInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			if now := measure(); r.worthwhile(now) {
				debug.FreeOSMemory()
				r.settle()
			}
		}
	}
}

// settle makes collections rarer from now on, once this replica leads: one that does not lead still has its first
// reconciles ahead.
func (r *releaser) settle() {
	select {
	case <-r.elected:
		collect(gcPercent)
	default:
	}
}

// worthwhile reports whether the daemon has been idle since the last check, and holds much memory that it does not
// need.
func (r *releaser) worthwhile(now usage) bool {
	rested := now.allocated-r.before.allocated < idleAllocation
	r.before = now
	return rested && now.garbage+now.free > minReleasable
}

func measure() usage {
	samples := []metrics.Sample{
		{Name: "/gc/heap/allocs:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/gc/heap/live:bytes"},
		{Name: "/memory/classes/heap/free:bytes"},
	}
	metrics.Read(samples)
	allocated, objects, live, free := samples[0].Value.Uint64(), samples[1].Value.Uint64(), samples[2].Value.Uint64(), samples[3].Value.Uint64()
	return usage{allocated: allocated, garbage: objects - min(live, objects), free: free}
}

// Any pod may be able to connect, and the API server reviews each token that it sends. These limits apply before that.
// They suffice for a few instances of Prometheus, each of which scrapes every few seconds.
var metricsTotal, metricsSender = inbound.Rate{PerSecond: 5, Burst: 20}, inbound.Rate{PerSecond: 1, Burst: 5}

const (
	// maxScrapes is the maximum number of concurrent connections. Each has one request, so the API server reviews at
	// most that many tokens at a time.
	maxScrapes = 16
	// Prometheus does not send requests, or read answers, more slowly than this.
	scrapeReadTimeout, scrapeTimeout = 5 * time.Second, 30 * time.Second
	maxScrapeHeader                  = 16 << 10
)

// newMetricsServer returns the metrics server of each replica. Metrics name NodeSyncs, pools and Git hosts, so by
// default the API server decides who may read them (TokenReview and SubjectAccessReview), over HTTPS with a self-signed
// certificate. It returns nil if --metrics-addr is 0.
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
		return nil, fmt.Errorf("listen on --metrics-addr: %w", err)
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
	// An idle connection would block one of the few slots.
	server.SetKeepAlivesEnabled(false)
	return &manager.Server{Name: "metrics", Server: server, Listener: listener}, nil
}

// metricsHandler limits requests first, then lets the API server review the token of the rest.
func metricsHandler(config *rest.Config, httpClient *http.Client, reviewed bool, now func() time.Time) (http.Handler, error) {
	handler := promhttp.HandlerFor(ctrlmetrics.Registry, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError})
	if reviewed {
		reviews, err := newReviewer(config, httpClient)
		if err != nil {
			return nil, err
		}
		handler = reviews.handler(ctrl.Log.WithName("metrics"), handler)
	}
	return inbound.New(now, metricsTotal, metricsSender).Handler(inbound.Peer, handler), nil
}

// ownCertificate returns a configuration with a self-signed certificate. It disables HTTP/2, so that each connection
// has one request at a time.
func ownCertificate() (*tls.Config, error) {
	cert, key, err := certutil.GenerateSelfSignedCertKeyWithFixtures("localhost", []net.IP{{127, 0, 0, 1}}, nil, "")
	if err != nil {
		return nil, fmt.Errorf("create the certificate for /metrics: %w", err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("create the certificate for /metrics: %w", err)
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}, Certificates: []tls.Certificate{pair}}, nil
}

// checkProfilingAddr rejects an address that others can reach: a heap profile may contain the contents of Secrets.
// kubectl port-forward reaches loopback.
func checkProfilingAddr(addr string) error {
	if addr == "0" {
		return nil
	}
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("--profiling-addr %q is not an address: use localhost:PORT, or 0 to disable it", addr)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return fmt.Errorf("--profiling-addr %s is not a loopback address: profiles can contain the contents of Secrets; give localhost:PORT and use kubectl port-forward", addr)
	}
	return nil
}
