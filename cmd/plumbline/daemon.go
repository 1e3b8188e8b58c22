package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/fluxcd/pkg/runtime/controller"
	"github.com/fluxcd/pkg/runtime/logger"
	"github.com/fluxcd/pkg/runtime/metrics"
	"github.com/fluxcd/pkg/runtime/probes"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/dynamic"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/plumbline-dev/plumbline/confine"
	"github.com/plumbline-dev/plumbline/internal/steppoint"
	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/provision/charts/release"
	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/provision/cloud/offers"
	"github.com/plumbline-dev/plumbline/reconcile"
	"github.com/plumbline-dev/plumbline/reconcile/account"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/notify"
	"github.com/plumbline-dev/plumbline/reconcile/page"
	"github.com/plumbline-dev/plumbline/reconcile/pulls"
	"github.com/plumbline-dev/plumbline/reconcile/recorder"
	"github.com/plumbline-dev/plumbline/reconcile/report"
	"github.com/plumbline-dev/plumbline/reconcile/review"
	"github.com/plumbline-dev/plumbline/reconcile/simulate"
	"github.com/plumbline-dev/plumbline/reconcile/source"
	"github.com/plumbline-dev/plumbline/reconcile/status"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade"
	"github.com/plumbline-dev/plumbline/reconcile/webhook"
)

// controllerName identifies the daemon in events, metrics and requests.
const controllerName = "plumbline"

// runDaemon runs the daemon until the context is done.
func runDaemon(ctx context.Context, kubeconfig *genericclioptions.ConfigFlags, o *runOptions) error {
	collect(startupGCPercent)
	logger.SetLogger(logger.NewLogger(o.log))
	config, err := restConfig(kubeconfig, o)
	if err != nil {
		return err
	}
	unlock, err := lockCache(o.cacheDir)
	if err != nil {
		return err
	}
	defer unlock()
	d, err := newDaemon(ctx, config, o)
	if err != nil {
		return err
	}
	ended, err := d.addBeside()
	if err != nil {
		return err
	}
	followed := newFollower(d.mgr, d.reconciler, d.reports, d.space, o)
	if err := d.mgr.Add(followed); err != nil {
		return fmt.Errorf("add what follows pull requests: %w", err)
	}
	if err := errors.Join(addWebhook(ctx, d.mgr, d.reconciler, followed, o), addPage(ctx, d.mgr, d.reconciler, ended, d.seen, o)); err != nil {
		return err
	}
	return d.run(ctx, o.concurrent)
}

// daemon contains the reconciler and its dependencies.
type daemon struct {
	mgr        ctrl.Manager
	reconciler *reconcile.Reconciler
	git        *source.Git
	space      *source.Space
	reports    *report.Queue
	seen       *leaseSeen
}

// newDaemon creates the daemon. It only asks the cluster which APIs are served.
func newDaemon(ctx context.Context, config *rest.Config, o *runOptions) (*daemon, error) {
	points, err := steppoint.New(o.steps)
	if err != nil {
		return nil, err
	}
	points.Watch(config)
	d := &daemon{seen: &leaseSeen{}}
	lease, leading, err := election(config, d.seen, o)
	if err != nil {
		return nil, err
	}
	unfenced := config
	if o.leaderElect {
		config = withLeaseGuard(config, leading)
	}
	refusals := &cluster.Refusals{}
	objects := cacheOptions(refusals, o)
	if d.mgr, err = newManager(config, lease, objects, o); err != nil {
		return nil, err
	}
	if !o.leaderElect {
		if err := d.mgr.Add(releaseOld{lease: lease, every: leaseDuration}); err != nil {
			return nil, err
		}
	}
	if err := addMetrics(ctx, d.mgr, o); err != nil {
		return nil, err
	}
	d.reports = report.NewQueue(d.mgr.GetAPIReader(), d.mgr.GetClient())
	runner := logged(confined(ctx))
	managed, err := newCluster(d.mgr, config, leading, refusals, runner, o)
	if err != nil {
		return nil, err
	}
	if d.reconciler, err = newReconciler(d.mgr, managed, leading, d.reports, runner, o); err != nil {
		return nil, err
	}
	d.reconciler.Points = points
	d.space = &source.Space{Limit: o.storeLimit}
	d.git = source.NewGit(source.Options{
		Dir: filepath.Join(o.cacheDir, "git"), MaxBytes: o.storeLimit, Space: d.space,
		OnFetch: func(s source.FetchStats) { d.reconciler.Meter.Fetched(s.Received) },
	})
	if d.reconciler.Source, err = d.newSource(config, o); err != nil {
		return nil, err
	}
	if d.reconciler.Standby, err = client.New(unfenced, client.Options{Scheme: d.mgr.GetScheme(), Mapper: d.mgr.GetRESTMapper()}); err != nil {
		return nil, fmt.Errorf("make the client of a replica that does not lead: %w", err)
	}
	return d, nil
}

// addMetrics adds the metrics server to the manager.
func addMetrics(ctx context.Context, mgr ctrl.Manager, o *runOptions) error {
	server, err := newMetricsServer(ctx, mgr.GetConfig(), mgr.GetHTTPClient(), o)
	if err != nil || server == nil {
		return err
	}
	return mgr.Add(server)
}

// run reconciles until the context is done.
func (d *daemon) run(ctx context.Context, concurrent int) error {
	if err := d.reconciler.SetupWithManager(d.mgr, d.mgr, concurrent); err != nil {
		return err
	}
	if err := d.mgr.Start(ctx); err != nil {
		// If the API server denies access to NodeSyncs, no NodeSync can report that.
		return fault.Classify(fmt.Errorf("run the controller: %w", errors.Join(err, d.reconciler.Cluster.Refusals.Err())))
	}
	return nil
}

// election returns the lease that the manager uses for leader election, and a function that checks whether this process
// holds it.
func election(
	config *rest.Config, seen *leaseSeen, o *runOptions,
) (lease resourcelock.Interface, leading func(context.Context) error, err error) {
	identity, err := newIdentity()
	if err != nil {
		return nil, nil, err
	}
	if lease, err = newLease(config, o.namespace, identity, seen); err != nil {
		return nil, nil, err
	}
	if !o.leaderElect {
		return lease, func(context.Context) error { return nil }, nil
	}
	ctrl.Log.Info("waiting for the lease", "identity", identity)
	asked, err := newLease(config, o.namespace, identity, seen)
	if err != nil {
		return nil, nil, err
	}
	return lease, stillLeader(asked), nil
}

// restConfig returns the kubeconfig's client configuration, or in a Pod that of the ServiceAccount.
func restConfig(kubeconfig *genericclioptions.ConfigFlags, o *runOptions) (*rest.Config, error) {
	config, err := kubeconfig.ToRESTConfig()
	if err != nil {
		return nil, fmt.Errorf("find the cluster: %w", err)
	}
	config.QPS, config.Burst = o.client.QPS, o.client.Burst
	config.UserAgent = controllerName + "/" + version
	return config, nil
}

func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, v1alpha1.AddToScheme, cluster.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("register types: %w", err)
		}
	}
	return scheme, nil
}

func newManager(config *rest.Config, lease resourcelock.Interface, objects cache.Options, o *runOptions) (ctrl.Manager, error) {
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}
	if err := checkProfilingAddr(o.profilingAddr); err != nil {
		return nil, err
	}
	lasts, renews, retries, grace := leaseDuration, renewDeadline, retryPeriod, 20*time.Second
	options := ctrl.Options{
		Scheme:                              scheme,
		Logger:                              ctrl.Log,
		Metrics:                             metricsserver.Options{BindAddress: "0"}, // newMetricsServer serves them
		PprofBindAddress:                    o.profilingAddr,
		HealthProbeBindAddress:              o.healthAddr,
		LeaderElection:                      o.leaderElect,
		LeaderElectionID:                    leaseName,
		EventBroadcaster:                    newBroadcaster(), //nolint:staticcheck // it lives as long as the process
		LeaderElectionNamespace:             o.namespace,
		LeaderElectionResourceLockInterface: lease,
		LeaderElectionReleaseOnCancel:       true,
		LeaseDuration:                       &lasts,
		RenewDeadline:                       &renews,
		RetryPeriod:                         &retries,
		GracefulShutdownTimeout:             &grace,
		Cache:                               objects,
		Client: client.Options{Cache: &client.CacheOptions{
			DisableFor:   []client.Object{&corev1.Secret{}, &corev1.ConfigMap{}},
			Unstructured: true,
		}},
	}
	mgr, err := ctrl.NewManager(config, options)
	if err != nil {
		return nil, fmt.Errorf("make the controller manager: %w", err)
	}
	probes.SetupChecks(mgr, ctrl.Log)
	return mgr, nil
}

// registerMetrics registers the reconciler's metrics.
func registerMetrics(reports *report.Queue) (*metrics.Recorder, *status.Meter, error) {
	gauges, meter := metrics.NewRecorder(), status.NewMeter(time.Now, reports.Depths)
	for _, c := range append(gauges.Collectors(), meter) {
		if err := ctrlmetrics.Registry.Register(c); err != nil {
			return nil, nil, fmt.Errorf("register metrics: %w", err)
		}
	}
	return gauges, meter, nil
}

func newReconciler(
	mgr ctrl.Manager, managed reconcile.Cluster, leading func(context.Context) error, reports *report.Queue, runner *confine.Runner,
	o *runOptions,
) (*reconcile.Reconciler, error) {
	recorder, err := newEventRecorder(mgr, o.eventsAddr)
	if err != nil {
		return nil, err
	}
	gauges, meter, err := registerMetrics(reports)
	if err != nil {
		return nil, err
	}
	return &reconcile.Reconciler{
		Metrics:  controller.NewMetrics(mgr, gauges, v1alpha1.Finalizer),
		Client:   mgr.GetClient(),
		Uncached: mgr.GetAPIReader(),
		Labelled: mgr.GetCache(),
		Events:   recorder,
		Charts:   newChartStore("charts", runner, o),
		Confine:  runner,
		Reports:  reports,
		Notices:  &notify.Sender{Secrets: mgr.GetAPIReader(), Grants: o.grants()},
		Cluster:  managed,
		Meter:    meter,
		Settings: reconcile.Settings{
			Namespace:        o.namespace,
			Own:              o.host(),
			CloudInterval:    o.cloudInterval,
			CompareInstances: o.compareInstances,
			Grants:           o.grants(),
			PageURL:          o.pageURL,
			Now:              time.Now,
			StillLeader:      leading,
		},
	}, nil
}

// newCluster returns the cluster whose nodes are managed: the one that contains the NodeSyncs.
func newCluster(
	mgr ctrl.Manager, config *rest.Config, leading func(context.Context) error, refusals *cluster.Refusals, runner *confine.Runner,
	o *runOptions,
) (reconcile.Cluster, error) {
	installer, err := release.NewInstaller(release.InstallerOptions{
		Config:      config,
		StillLeader: leading,
		Now:         time.Now,
		Logger:      ctrl.Log.WithName("charts"),
		Confine:     runner,
	})
	if err != nil {
		return reconcile.Cluster{}, err
	}
	logs, err := upgrade.PodLogs(config)
	if err != nil {
		return reconcile.Cluster{}, err
	}
	authority, err := certificateAuthority(config)
	if err != nil {
		return reconcile.Cluster{}, err
	}
	clouds := &account.Clouds{Dial: func(ctx context.Context, region string) (account.Cloud, error) {
		return cloud.New(ctx, cloud.Options{Region: region, UserAgent: config.UserAgent})
	}}
	return reconcile.Cluster{
		Clients: cluster.Clients{
			Client: mgr.GetClient(), Uncached: mgr.GetAPIReader(), Refusals: refusals, Launches: &cluster.Launches{Now: time.Now},
		},
		Helm: installer, Logs: logs, Clouds: clouds, Landing: simulator(mgr.GetAPIReader(), o.karpenterNamespaces, runner, clouds),
		DeletionGuard: o.guards(), KarpenterNamespaces: o.karpenterNamespaces, CertificateAuthority: authority,
	}, nil
}

// newChartStore returns a store that keeps charts in a folder of the cache.
func newChartStore(folder string, runner *confine.Runner, o *runOptions) *charts.Store {
	return charts.NewStore(charts.StoreOptions{Dir: filepath.Join(o.cacheDir, folder), Logger: ctrl.Log.WithName(folder), Confine: runner})
}

// certificateAuthority returns the bundle that verifies the API server's certificate.
func certificateAuthority(config *rest.Config) ([]byte, error) {
	if len(config.CAData) > 0 || config.CAFile == "" {
		return config.CAData, nil
	}
	bundle, err := os.ReadFile(config.CAFile)
	if err != nil {
		return nil, fmt.Errorf("read the API server's certificate authority: %w", err)
	}
	return bundle, nil
}

// newSource returns the source of definitions: Git hosts, and the artifacts of Flux.
func (d *daemon) newSource(config *rest.Config, o *runOptions) (source.GitOrFlux, error) {
	watcher, err := dynamic.NewForConfig(config)
	if err != nil {
		return source.GitOrFlux{}, fmt.Errorf("make the client that watches sources of Flux: %w", err)
	}
	sources := &source.FluxSources{Reader: d.mgr.GetAPIReader(), Watcher: watcher, Namespaces: o.sourceNamespaces, Wake: d.reconciler.Wake}
	artifacts := source.NewFluxStore(source.FluxOptions{Dir: filepath.Join(o.cacheDir, "artifacts"), MaxBytes: o.storeLimit, Space: d.space})
	return source.GitOrFlux{Git: d.git, FluxSources: sources, Artifacts: artifacts}, nil
}

const (
	// burstOfEvents is how many events of one NodeSync are sent at once, and eventsPerSecond how many
	// after them; client-go's defaults, 25 and one in five minutes, are too few for one commit.
	burstOfEvents   = 300
	eventsPerSecond = 1
	// similarEvents is how many events of one reason are sent separately in ten minutes; further events
	// are combined into one that counts them.
	similarEvents = 100
)

// newBroadcaster returns a broadcaster that sends events to the API server.
func newBroadcaster() record.EventBroadcaster {
	return record.NewBroadcasterWithCorrelatorOptions(record.CorrelatorOptions{
		BurstSize: burstOfEvents, QPS: eventsPerSecond, MaxEvents: similarEvents,
	})
}

// addBeside adds the background tasks: they post commit statuses, record terminated nodes,
// release memory, delete expired Approvals of a namespace without NodeSyncs, and save on disk what was fetched and rendered. It returns
// the recorder of terminated nodes.
func (d *daemon) addBeside() (*recorder.Recorder, error) {
	ended := recorder.New(recorder.Options{
		Cached: d.mgr.GetClient(), Uncached: d.mgr.GetAPIReader(), Writer: d.mgr.GetClient(),
		Namespace: d.reconciler.Settings.Namespace, Now: d.reconciler.Settings.Now,
		EC2: func(ctx context.Context, region string) (recorder.EC2, error) {
			return d.reconciler.Cluster.Clouds.Within(awsTimeout)(ctx, region)
		},
		Terminated: d.reconciler.Enqueue,
	})
	d.reconciler.Cluster.ClaimEvents = ended
	d.reconciler.Cluster.Terminations = ended.TerminatedByOthers
	for what, runs := range map[string]manager.Runnable{
		"posts commit statuses": newDeliverer(d.mgr, d.reconciler, d.reports), "records terminated nodes": ended,
		"releases memory": &releaser{elected: d.mgr.Elected()},
		"keeps what a restart need not do once more": fetchedSaver{d.git},
		"deletes expired Approvals": &reconcile.ExpiredApprovals{
			Cached: d.mgr.GetClient(), Uncached: d.mgr.GetAPIReader(), Writer: d.mgr.GetClient(),
			Namespace: d.reconciler.Settings.Namespace, Now: d.reconciler.Settings.Now,
		},
	} {
		if err := d.mgr.Add(runs); err != nil {
			return nil, fmt.Errorf("add what %s: %w", what, err)
		}
	}
	return ended, nil
}

// newFollower returns a Follower that reports on pull requests what they would do, using the reconciler's dependencies.
// The charts of pull requests have a store of their own, so that they evict none that a NodeSync needs.
func newFollower(
	mgr ctrl.Manager, reconciler *reconcile.Reconciler, reports *report.Queue, space *source.Space, o *runOptions,
) *pulls.Follower {
	schemas, definitions := reconciler.Shared()
	settings, managed := reconciler.Settings, reconciler.Cluster
	// Pull requests, including those from forks, use at most half of the space, so that NodeSyncs can always fetch.
	git := source.NewGit(source.Options{
		Dir: filepath.Join(o.cacheDir, "git-of-pull-requests"), MaxBytes: o.storeLimit / 2,
		Space:   &source.Space{Limit: o.storeLimit / 2, Of: space},
		OnFetch: func(s source.FetchStats) { reconciler.Meter.Fetched(s.Received) },
	})
	return pulls.New(pulls.Options{
		Cached: mgr.GetClient(), Secrets: mgr.GetAPIReader(), Namespace: settings.Namespace,
		Hosts: &report.Hosts{Now: settings.Now}, Source: git, Queue: reports,
		Preview: review.Tools{
			Client: reconciler.Uncached, Cached: reconciler.Client, Nodes: managed.Uncached, CachedNodes: managed.Client, Refusals: managed.Refusals,
			Definitions: definitions, Schemas: schemas, Confine: reconciler.Confine, CRDs: (&planOptions{}).knownCRDs,
			Store: newChartStore("charts-of-pull-requests", reconciler.Confine, o), Helm: managed.Helm,
			CABundle: managed.CABundle(), Ask: queryWith(managed.Clouds.Within(awsTimeout), managed.CertificateAuthority, ""),
			Grant:         reconcile.GrantOf(managed.Clouds.Within(awsTimeout)),
			Decrypt:       account.DecryptWith(managed.Clouds.Within(awsTimeout)),
			Next:          nextKubernetes(managed.Clouds.Within(awsTimeout), managed.CertificateAuthority),
			InstanceTypes: managed.Landing.InstanceTypes, Own: &settings.Own, Grants: &settings.Grants,
		},
		Grants: settings.Grants, StillLeader: settings.StillLeader, Trouble: reconciler.Enqueue, Now: settings.Now,
	})
}

// newDeliverer returns a Deliverer that posts the reconciler's reports.
func newDeliverer(mgr ctrl.Manager, reconciler *reconcile.Reconciler, reports *report.Queue) *report.Deliverer {
	return &report.Deliverer{
		Queue:       reports,
		Hosts:       &report.Hosts{Now: reconciler.Settings.Now},
		Secrets:     mgr.GetAPIReader(),
		Namespace:   reconciler.Settings.Namespace,
		Grants:      reconciler.Settings.Grants,
		StillLeader: reconciler.Settings.StillLeader,
		Trouble:     reconciler.Enqueue,
		Now:         reconciler.Settings.Now,
		Jitter:      rand.Float64,
	}
}

// simulator returns the daemon's simulator of where pods can be scheduled.
func simulator(uncached client.Reader, namespaces []string, runner *confine.Runner, clouds *account.Clouds) *simulate.Simulator {
	return &simulate.Simulator{Reader: uncached, Namespaces: namespaces, Confine: runner, Now: time.Now, Catalogs: &simulate.Catalogs{
		Ask: func(ctx context.Context, region string) (*offers.Catalog, error) {
			aws, err := clouds.Within(awsTimeout)(ctx, region)
			if err != nil {
				return nil, err
			}
			return aws.Catalog(ctx)
		},
	}}
}

// addPage serves the page, on every replica: one that does not lead names the leader.
func addPage(
	ctx context.Context, mgr ctrl.Manager, reconciler *reconcile.Reconciler, ended *recorder.Recorder, seen *leaseSeen, o *runOptions,
) error {
	host, err := page.CheckURL(o.pageURL)
	if err != nil || o.pageAddr == "0" {
		return err
	}
	if err := page.CheckAddress(o.pageAddr); err != nil {
		return err
	}
	_, port, err := net.SplitHostPort(o.pageAddr)
	if err != nil {
		return err
	}
	ended.Keep()
	handler, err := page.New(page.Options{
		Cluster: page.Cluster{Cached: mgr.GetClient(), Namespace: o.namespace, Serves: reconciler.Serves, Ended: ended.Kept, Now: time.Now},
		Elected: mgr.Elected(),
		Leader:  seen.leader,
		Host:    host,
		Port:    port,
		Version: version,
		Logger:  ctrl.Log.WithName("page"),
	})
	if err != nil {
		return err
	}
	server, err := page.Server(ctx, o.pageAddr, handler)
	if err != nil {
		return err
	}
	return mgr.Add(server)
}

// addWebhook serves the receiver of webhooks from Git hosts, on every replica.
func addWebhook(ctx context.Context, mgr ctrl.Manager, reconciler *reconcile.Reconciler, followed *pulls.Follower, o *runOptions) error {
	if o.webhookAddr == "0" {
		return nil
	}
	server, err := webhook.Server(ctx, o.webhookAddr, webhook.New(webhook.Options{
		NodeSyncs:      mgr.GetClient(),
		Secrets:        mgr.GetAPIReader(),
		Namespace:      o.namespace,
		Secret:         o.webhookSecret,
		TrustedProxies: o.webhookProxies,
		Waker:          reconciler,
		Pulls:          followed,
		Now:            time.Now,
		Logger:         ctrl.Log.WithName("webhook"),
		Answered:       reconciler.Meter.Answered,
	}))
	if err != nil {
		return err
	}
	return mgr.Add(server)
}

// The fetched data is saved at these times while the daemon runs: once soon, and then so rarely that it costs nothing. The next
// process fetches again what is missing.
const (
	keepFirst = time.Minute
	keepEvery = 15 * time.Minute
)

// fetchedSaver saves the fetched data for the next process.
type fetchedSaver struct{ fetched interface{ Save() error } }

// NeedLeaderElection reports whether only the leader saves. A replica that does not lead saves as well, though it has nothing to save.
func (fetchedSaver) NeedLeaderElection() bool { return false }

// Start saves from time to time, and once more when the context is done.
func (k fetchedSaver) Start(ctx context.Context) error {
	for wait := keepFirst; ctx.Err() == nil; wait = keepEvery {
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
		if err := k.fetched.Save(); err != nil {
			ctrl.LoggerFrom(ctx).Info("what was fetched is not kept: the next start fetches it again", "why", err.Error())
		}
	}
	return nil
}
