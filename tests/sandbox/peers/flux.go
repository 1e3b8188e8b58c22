package peers

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/plumbline-dev/plumbline/tests/sandbox/binaries"
	"github.com/plumbline-dev/plumbline/tests/sandbox/process"
)

// FluxNamespace contains Flux.
const FluxNamespace = "flux-system"

// These raise the limits that would slow Flux down, for both controllers and the applier.
var (
	fluxFlags      = []string{"--kube-api-qps=1000", "--kube-api-burst=2000", "--requeue-dependency=2s"}
	kustomizeFlags = []string{"--concurrent-ssa=8", "--no-remote-bases"}
)

// FluxSettings describes what StartFlux starts.
func FluxSettings() string {
	return "source-controller " + binaries.SourceControllerVersion + " and kustomize-controller " + binaries.KustomizeControllerVersion +
		" with " + strings.Join(slices.Concat(fluxFlags, kustomizeFlags), " ")
}

// StartFlux starts Flux's source-controller and kustomize-controller.
func StartFlux(ctx context.Context, o Options) (*Peer, error) {
	paths, err := o.Builder.Build(ctx, binaries.KustomizeController, binaries.SourceController)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMissing, err)
	}
	if err := o.makeNamespace(ctx, FluxNamespace); err != nil {
		return nil, err
	}
	if err := o.install(ctx, fluxSources(), fluxKustomizations()); err != nil {
		return nil, err
	}
	at, err := freeAddresses(3)
	if err != nil {
		return nil, err
	}
	p := newPeer(o, FluxNamespace)
	artifacts := p.path("artifacts") // the source-controller exits if it does not exist
	if err := os.MkdirAll(artifacts, 0o700); err != nil {
		return nil, fmt.Errorf("make the folder of the source-controller's artifacts: %w", err)
	}
	err = p.start(
		ctx,
		program{"source-controller", paths[binaries.SourceController], fluxArgs(at[0],
			append(o.sendEvents(), "--storage-path="+artifacts, "--storage-addr="+at[1], "--storage-adv-addr="+at[1])...), fluxEnvironment},
		program{"kustomize-controller", paths[binaries.KustomizeController], fluxArgs(at[2], append(o.sendEvents(), kustomizeFlags...)...), fluxEnvironment},
	)
	return p, err
}

// StartHelmController starts Flux's helm-controller, next to a running Flux.
func StartHelmController(ctx context.Context, o Options) (*Peer, error) {
	paths, err := o.Builder.Build(ctx, binaries.HelmController)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMissing, err)
	}
	if err := o.install(ctx, fluxReleases()); err != nil {
		return nil, err
	}
	at, err := freeAddresses(1)
	if err != nil {
		return nil, err
	}
	p := newPeer(o, FluxNamespace)
	err = p.start(ctx, program{"helm-controller", paths[binaries.HelmController], fluxArgs(at[0]), fluxEnvironment})
	return p, err
}

// StartNotificationController starts Flux's notification-controller, and returns the address for events. A Flux started
// with that address in its Options, and a daemon with it in --events-addr, send it theirs.
func StartNotificationController(ctx context.Context, o Options) (*Peer, string, error) {
	paths, err := o.Builder.Build(ctx, binaries.NotificationController)
	if err != nil {
		return nil, "", fmt.Errorf("%w: %w", ErrMissing, err)
	}
	if err := o.makeNamespace(ctx, FluxNamespace); err != nil {
		return nil, "", err
	}
	if err := o.install(ctx, fluxNotifications()); err != nil {
		return nil, "", err
	}
	at, err := freeAddresses(3)
	if err != nil {
		return nil, "", err
	}
	p := newPeer(o, FluxNamespace)
	err = p.start(ctx, program{"notification-controller", paths[binaries.NotificationController], []string{
		"--metrics-addr=0", "--health-addr=" + at[0], "--events-addr=" + at[1], "--receiverAddr=" + at[2], "--log-level=info",
	}, fluxEnvironment})
	return p, "http://" + at[1] + "/", err
}

// fluxEnvironment is the environment of each of its controllers.
var fluxEnvironment = []string{"RUNTIME_NAMESPACE=" + FluxNamespace}

// fluxArgs returns the arguments of a controller that serves its health at an address.
func fluxArgs(health string, more ...string) []string {
	return slices.Concat([]string{"--metrics-addr=0", "--health-addr=" + health, "--log-level=info"}, fluxFlags, more)
}

// sendEvents makes a controller send its events to a running notification-controller. Without one it would retry for
// half a minute in each reconcile.
func (o Options) sendEvents() []string {
	if o.Events == "" {
		return nil
	}
	return []string{"--events-addr=" + o.Events}
}

// freeAddresses returns n free loopback addresses.
func freeAddresses(n int) ([]string, error) {
	ports, err := process.FreePorts(n)
	if err != nil {
		return nil, err
	}
	all := make([]string, n)
	for i, port := range ports {
		all[i] = fmt.Sprintf("127.0.0.1:%d", port)
	}
	return all, nil
}

func fluxSources() crds {
	c := crds{module: "github.com/fluxcd/source-controller", version: binaries.SourceControllerVersion}
	for _, kind := range []string{"buckets", "externalartifacts", "gitrepositories", "helmcharts", "helmrepositories", "ocirepositories"} {
		c.files = append(c.files, "config/crd/bases/source.toolkit.fluxcd.io_"+kind+".yaml")
		c.paths = append(c.paths, "/apis/source.toolkit.fluxcd.io/v1/"+kind)
	}
	return c
}

func fluxKustomizations() crds {
	return crds{
		"github.com/fluxcd/kustomize-controller", binaries.KustomizeControllerVersion,
		[]string{"config/crd/bases/kustomize.toolkit.fluxcd.io_kustomizations.yaml"},
		[]string{"/apis/kustomize.toolkit.fluxcd.io/v1/kustomizations"},
	}
}

func fluxNotifications() crds {
	c := crds{module: "github.com/fluxcd/notification-controller", version: binaries.NotificationControllerVersion}
	for kind, version := range map[string]string{"alerts": "v1beta3", "providers": "v1beta3", "receivers": "v1"} {
		c.files = append(c.files, "config/crd/bases/notification.toolkit.fluxcd.io_"+kind+".yaml")
		c.paths = append(c.paths, "/apis/notification.toolkit.fluxcd.io/"+version+"/"+kind)
	}
	return c
}

func fluxReleases() crds {
	return crds{
		"github.com/fluxcd/helm-controller", binaries.HelmControllerVersion,
		[]string{"config/crd/bases/helm.toolkit.fluxcd.io_helmreleases.yaml"},
		[]string{"/apis/helm.toolkit.fluxcd.io/v2/helmreleases"},
	}
}
