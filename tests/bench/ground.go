package bench

import (
	"context"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"time"

	"k8s.io/client-go/dynamic"

	"github.com/plumbline-dev/plumbline/tests/sandbox"
	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim"
	"github.com/plumbline-dev/plumbline/tests/sandbox/binaries"
	"github.com/plumbline-dev/plumbline/tests/sandbox/charts"
	"github.com/plumbline-dev/plumbline/tests/sandbox/kube"
	"github.com/plumbline-dev/plumbline/tests/sandbox/process"
	"github.com/plumbline-dev/plumbline/tests/stories/daemon"
)

// ground is the environment of a run.
type ground struct {
	options Options
	// line shows the progress.
	line     *binaries.Line
	builder  *binaries.Builder
	paths    map[binaries.Name]string
	programs *process.Group
	dir      string
	kube     *kube.ControlPlane
	// aws is the URL of the AWS simulator.
	aws     string
	objects dynamic.Interface
	host    *gitHost
	// plumbline is the daemon, which does not run yet.
	plumbline *plumbline
	closers   []func()
	// ready is when the simulated Karpenter last set an object Ready, in nanoseconds since 1970.
	ready atomic.Int64
}

// open starts the ground. On an error, it stops what was started.
func open(ctx context.Context, o Options) (*ground, error) {
	g := &ground{options: o}
	err := g.build(ctx) // which shows its own progress
	if err == nil {
		err = g.shown(ctx, "cluster", func(ctx context.Context) error {
			return g.inTurn(ctx,
				step{"folder", g.folder},
				step{"control plane", g.startKube},
				step{"AWS", g.startAWS},
				step{"CRDs", g.installCRDs},
				step{"Karpenter", g.playKarpenter},
				step{"Git host", g.startGit},
				step{"daemon", func(ctx context.Context) error { return g.installDaemon(ctx, g.awsVariables()) }},
			)
		})
	}
	if err != nil {
		g.close()
		return nil, fmt.Errorf("prepare the cluster to measure in: %w", err)
	}
	return g, nil
}

func (g *ground) onClose(f func()) { g.closers = append(g.closers, f) }

// close stops what was started, the last first.
func (g *ground) close() {
	for i := len(g.closers) - 1; i >= 0; i-- {
		g.closers[i]()
	}
	g.closers = nil
}

func (g *ground) source() string { return filepath.Join(g.options.Root, "tests", "sandbox", "bin") }

func (g *ground) build(ctx context.Context) error {
	cache, err := binaries.DefaultCache()
	if err != nil {
		return err
	}
	g.builder = &binaries.Builder{Source: g.source(), Cache: cache, Progress: g.options.Progress}
	g.paths, err = g.builder.Build(ctx, binaries.Kubernetes, binaries.Helm)
	return err
}

// folder creates the run's folder.
func (g *ground) folder(context.Context) error {
	dir, err := os.MkdirTemp("", "plumbline-bench-")
	if err != nil {
		return fmt.Errorf("make the folder of the run: %w", err)
	}
	g.onClose(func() { _ = os.RemoveAll(dir) })
	g.programs = process.NewGroup()
	g.onClose(g.programs.Close)
	g.dir = dir
	return nil
}

func (g *ground) path(name string) string { return filepath.Join(g.dir, name) }

// startKube runs only the two controllers that a deletion needs: Deployments, Nodes and their health are simulated.
func (g *ground) startKube(ctx context.Context) error {
	var err error
	g.kube, err = kube.Start(ctx, kube.Options{
		Binary: g.paths[binaries.Kubernetes], Dir: g.path("kube"), Programs: g.programs,
		EmulatedVersion: binaries.DefaultKubernetes(),
		Controllers:     []string{"garbagecollector", "namespace"}, WithoutScheduler: true, AuditPolicy: auditPolicy,
		AdminGroups: []string{daemon.BreakGlassGroup},
	})
	if err != nil {
		return err
	}
	g.onClose(g.kube.Kill)
	g.objects, err = dynamic.NewForConfig(g.kube.Config)
	return err
}

// startAWS serves an account with this cluster in it, so that CloudVerified is the same as in a healthy cluster.
func (g *ground) startAWS(ctx context.Context) error {
	account := awssim.New(awssim.Options{Region: sandbox.DefaultRegion})
	err := account.AddCluster(awssim.Cluster{
		Name: sandbox.DefaultCluster, Endpoint: g.kube.Endpoint, Version: binaries.DefaultKubernetes(), ServiceIPv4CIDR: kube.ServiceCIDR,
		CertificateAuthority: base64.StdEncoding.EncodeToString(g.kube.CertificateAuthority),
	})
	if err != nil {
		return fmt.Errorf("make the EKS cluster %s: %w", sandbox.DefaultCluster, err)
	}
	g.aws, err = g.serve(ctx, account.Handler())
	return err
}

// awsVariables returns the variables for the daemon's account.
func (g *ground) awsVariables() map[string]string {
	return map[string]string{
		"AWS_ENDPOINT_URL": g.aws, "AWS_REGION": sandbox.DefaultRegion, "AWS_EC2_METADATA_DISABLED": "true",
		"AWS_ACCESS_KEY_ID": "AKIABENCH", "AWS_SECRET_ACCESS_KEY": "bench",
	}
}

// serve serves on a free loopback port until the run ends.
func (g *ground) serve(ctx context.Context, handler http.Handler) (url string, err error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("listen on a loopback port: %w", err)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Serve(listener) // always ErrServerClosed, as only close stops it
	}()
	g.onClose(func() {
		_ = server.Close()
		<-ended
	})
	return "http://" + listener.Addr().String(), nil
}

// installCRDs installs the CRD chart, as the user who manages the charts would.
func (g *ground) installCRDs(ctx context.Context) error {
	registry, err := charts.Serve(ctx, charts.Options{Source: g.source()})
	if err != nil {
		return err
	}
	g.onClose(func() { _ = registry.Close() })
	cmd := exec.CommandContext(ctx, g.paths[binaries.Helm], "install", charts.CRDChart, registry.Repository+"/"+charts.CRDChart,
		"--version", binaries.KarpenterVersion, "--namespace", sandbox.ChartNamespace, "--plain-http")
	cmd.Env = []string{"KUBECONFIG=" + g.kube.Kubeconfig, "HOME=" + g.dir, "NO_PROXY=127.0.0.1,localhost"}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("helm install %s: %w: %s", charts.CRDChart, err, out)
	}
	return nil
}

// installDaemon installs plumbline; variables are those of the daemon's AWS account.
func (g *ground) installDaemon(ctx context.Context, variables map[string]string) error {
	if err := daemon.Install(ctx, g.kube, g.options.Root); err != nil {
		return err
	}
	if _, err := g.apply(ctx, []byte(webhookSecret)); err != nil {
		return err
	}
	g.plumbline = &plumbline{ground: g, direct: &http.Client{Transport: &http.Transport{}}, daemon: daemon.New(daemon.Options{
		Kube: g.kube, AWS: variables, Root: g.options.Root, Dir: g.path("daemon"),
	})}
	g.onClose(g.plumbline.daemon.Close)
	return nil
}
