package nodes

import (
	"context"
	"fmt"
	"log/slog"
	"os/exec"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim"
	"github.com/plumbline-dev/plumbline/tests/sandbox/nodes/ebs"
)

// Simulator is what this package needs of EC2; *awssim.Simulator implements it.
type Simulator interface {
	ebs.Cloud
	// Subscribe calls f for every change of an instance, sequentially and in order.
	Subscribe(f func(awssim.Event))
}

// Options specify which Nodes are created, and their timing.
type Options struct {
	// Client has an administrator's permissions, and so has Kubeconfig, which kwok reads.
	Client     kubernetes.Interface
	Kubeconfig string
	Simulator  Simulator
	// Cluster is the name that volumes are tagged with.
	Cluster string
	// Endpoint is the API server's URL. Instances with another one in their user data do not belong to this cluster. If
	// empty, all do.
	Endpoint string
	// Zones are those of the two system nodes, in turn. Default: eu-west-1a, eu-west-1b.
	Zones []string

	// KubeletPort is where the kubelet of the system nodes serves logs, on 127.0.0.1. If zero, it does not.
	KubeletPort int

	KwokBinary string
	// Dir contains kwok's configuration and log.
	Dir string
	// BootTime is how long a running instance takes to register.
	BootTime time.Duration
	// PodStart and PodDelete are how long pods take to start and to terminate.
	PodStart, PodDelete time.Duration
	// UnmountTime is how long a node takes to unmount a volume once its pod is gone.
	UnmountTime time.Duration

	// Logger logs Nodes that are created and deleted. Default: none.
	Logger *slog.Logger
	// Command creates kwok's process. Default: exec.CommandContext.
	Command func(ctx context.Context, name string, args ...string) *exec.Cmd
}

func (o Options) withDefaults() Options {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Command == nil {
		o.Command = exec.CommandContext
	}
	if len(o.Zones) == 0 {
		o.Zones = []string{"eu-west-1a", "eu-west-1b"}
	}
	return o
}

// Nodes are the machines of one cluster.
type Nodes struct {
	options Options
	fleet   *fleet
	ebs     *ebs.Driver
	stop    context.CancelFunc
	kwok    <-chan error
}

// Start returns when the system nodes are Ready. From then on every launched instance becomes a Node, until Close is
// called or ctx is done.
func Start(ctx context.Context, o Options) (*Nodes, error) {
	o = o.withDefaults()
	server, err := o.Client.Discovery().ServerVersion()
	if err != nil {
		return nil, fmt.Errorf("ask the API server for its version: %w", err)
	}
	running, stop := context.WithCancel(ctx)
	n := &Nodes{options: o, stop: stop}
	n.fleet = newFleet(running, o, server.GitVersion)
	if err := n.start(running, server.GitVersion); err != nil {
		n.Close()
		return nil, fmt.Errorf("start the sandbox's nodes: %w", err)
	}
	return n, nil
}

func (n *Nodes) start(ctx context.Context, kubeletVersion string) error {
	var err error
	if n.kwok, err = startKwok(ctx, n.options); err != nil {
		return err
	}
	n.ebs, err = ebs.Start(ctx, ebs.Options{
		Client:      n.options.Client,
		Cloud:       n.options.Simulator,
		Cluster:     n.options.Cluster,
		Gone:        n.fleet.gone,
		UnmountTime: n.options.UnmountTime,
		Logger:      n.options.Logger,
	})
	if err != nil {
		return err
	}
	n.options.Simulator.Subscribe(n.fleet.handle)
	return n.startSystem(ctx, kubeletVersion)
}

// InstallEBS installs the EBS CSI driver's objects, as its add-on would. Until then no node can mount a volume.
func (n *Nodes) InstallEBS(ctx context.Context, o ebs.Install) error {
	return ebs.Apply(ctx, n.options.Client, o)
}

// Close stops kwok and keeps all Nodes as they are. It returns when nothing of the package runs any more.
func (n *Nodes) Close() {
	n.stop()
	n.fleet.wait()
	if n.ebs != nil {
		n.ebs.Wait()
	}
	if n.kwok != nil {
		for range n.kwok { // closed when kwok has exited; it has logged why
		}
		n.kwok = nil
	}
}
