package main

import (
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/fluxcd/pkg/runtime/client"
	"github.com/fluxcd/pkg/runtime/logger"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/deletion"
	"github.com/plumbline-dev/plumbline/reconcile/grant"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/steppoint"
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
	// karpenterNamespaces are those that Karpenter may be in; none: all.
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
		Long: `Run the daemon. It serves the NodeSyncs of one namespace, its own, and stops
cleanly on SIGTERM: what was begun is finished, nothing new is started.

It speaks to the cluster that the kubeconfig flags or, in a Pod, the
ServiceAccount name, and to AWS by the SDK's default chain of credentials.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runDaemon(cmd.Context(), kubeconfig, o)
		},
	}
	o.bind(cmd.Flags())
	return cmd
}

// guards looks for the policies of the deletion guard.
func (o *runOptions) guards() *deletion.Asker {
	return &deletion.Asker{WithoutGuard: !o.deletionGuard}
}

func (o *runOptions) bind(flags *pflag.FlagSet) {
	flags.StringVar(&o.namespace, "watch-namespace", envOr("POD_NAMESPACE", "plumbline-system"), "namespace of the NodeSyncs and of the leader's Lease; default from $POD_NAMESPACE")
	flags.StringVar(&o.podName, "pod-name", envOr("POD_NAME", ""), "name of the daemon's own Pod; default from $POD_NAME, empty outside a cluster")
	flags.StringVar(&o.nodeName, "node-name", envOr("NODE_NAME", ""), "node that the daemon runs on, whose NodePool is then not removed; default from $NODE_NAME, empty outside a cluster")
	flags.StringVar(&o.cacheDir, "cache-dir", filepath.Join(os.TempDir(), "plumbline"), "folder for Git stores, charts and what was rendered, of one daemon at a time; losing it costs time and nothing else")
	flags.StringVar(&o.metricsAddr, "metrics-addr", ":8080", "address of /metrics; 0 for none")
	flags.BoolVar(&o.metricsAuth, "metrics-auth", true, "serve /metrics over HTTPS, to those whose token may get the non-resource URL /metrics; false serves it to everyone over plain HTTP")
	flags.StringVar(&o.profilingAddr, "profiling-addr", "0", "loopback address of /debug/pprof, such as localhost:6060; 0 for none")
	flags.StringVar(&o.healthAddr, "health-addr", ":9440", "address of /healthz and /readyz; 0 for none")
	flags.StringVar(&o.eventsAddr, "events-addr", "", "URL of Flux's notification-controller, which events are forwarded to, such as http://notification-controller.flux-system.svc.cluster.local./; empty for none")
	flags.StringVar(&o.webhookAddr, "webhook-addr", "0", "address of "+webhook.Path+", where Git hosts announce pushes; 0 for none")
	flags.StringVar(&o.webhookSecret, "webhook-secret", "plumbline-webhook", "Secret of the namespace whose key token webhooks are checked with; it can be made and changed while the daemon runs")
	flags.IPNetSliceVar(&o.webhookProxies, "webhook-trusted-proxies", nil, "networks, as CIDRs, of the proxies before the webhook whose X-Forwarded-For is believed when requests are counted by address")
	flags.StringVar(&o.pageAddr, "page-addr", "0", "loopback address of a page that shows the NodeSyncs, such as localhost:8090; 0 for none")
	flags.StringVar(&o.pageURL, "page-url", "", "URL at which users find that page, through a proxy or a port that is forwarded; commit statuses link to it")
	flags.IntVar(&o.concurrent, "concurrent", 4, "number of NodeSyncs reconciled at a time")
	flags.BoolVar(&o.leaderElect, "leader-elect", false, "elect a leader, so that several replicas can run")
	flags.BoolVar(&o.anyHost, "secrets-for-any-host", false, "send what is in a Secret without the annotation "+v1alpha1.HostsAnnotation+" to whatever host a NodeSync names")
	flags.DurationVar(&o.cloudInterval, "cloud-interval", 10*time.Second, "least time between two questions to EC2 about removals")
	flags.DurationVar(&o.compareInstances, "compare-instances", 10*time.Minute, "least time between two comparisons of EC2 instances with their definitions and NodeClaims; 0 for none")
	flags.BoolVar(&o.deletionGuard, "deletion-guard", true, "report while the policies that deny the deletion of what plumbline manages are missing or altered; false where they are not installed on purpose")
	flags.StringSliceVar(&o.sourceNamespaces, "source-namespaces", nil, "namespaces, beside its own, whose sources of Flux a NodeSync may follow (spec.source.sourceRef), such as flux-system")
	flags.StringSliceVar(&o.karpenterNamespaces, "karpenter-namespaces", []string{"kube-system"}, "namespaces that Karpenter may be in: only there are Deployments and what the charts make watched; empty for all, which needs a ClusterRole")
	flags.Int64Var(&o.storeLimit, "git-store-limit", 1<<30, "largest size of all Git stores and artifacts of Flux together, in bytes; while one is replaced there may be twice as much on disk")
	o.log.BindFlags(flags)
	o.client.BindFlags(flags)
	o.steps.BindFlags(flags)
	// The API server's priority and fairness is what limits us.
	o.client.QPS = -1
	flags.Lookup("kube-api-qps").DefValue = "-1"
}

func envOr(name, otherwise string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return otherwise
}

// host is the daemon's own pod; zero outside a cluster.
func (o *runOptions) host() plan.Host {
	if o.nodeName == "" {
		return plan.Host{}
	}
	return plan.Host{Workload: "plumbline", Pod: o.namespace + "/" + o.podName, Node: o.nodeName}
}

// grants is what the daemon lets Secrets be sent to.
func (o *runOptions) grants() grant.Policy { return grant.Policy{Unannotated: o.anyHost} }
