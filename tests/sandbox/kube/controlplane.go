package kube

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/plumbline-dev/plumbline/tests/sandbox/process"
)

// The folders of a control plane that Copy copies.
const (
	etcdDir = "etcd"
	pkiDir  = "pki"
)

// stopGrace is how long each part may take to exit.
const stopGrace = 5 * time.Second

// Options specify how to start a control plane.
type Options struct {
	// Binary is the multi-call binary of tests/sandbox/bin/kubernetes, or that of kubernetes-1.36.
	Binary string
	// Dir contains everything; it may contain etcd and pki of an earlier one.
	Dir string
	// Programs starts the parts.
	Programs Starter
	// EmulatedVersion is the minor version of Kubernetes, such as 1.33, that all parts emulate, and that the API server
	// reports. Optional: none.
	EmulatedVersion string
	// AuditPolicy specifies what is audited. Optional: the default is what Writes documents.
	AuditPolicy string
	// AuditUsers are users whose requests Audit returns, including reads. Not with AuditPolicy.
	AuditUsers []string
	// Controllers are those of the controller manager to run, by the names of its --controllers flag; if empty, the
	// usual ones.
	Controllers []string
	// WithoutControllers are controllers of the controller manager to omit, by the names of its --controllers flag.
	WithoutControllers []string
	// AdminGroups are groups of the administrator in addition to system:masters.
	AdminGroups []string
	// WithoutScheduler omits the scheduler.
	WithoutScheduler bool
	// Logger logs what is done. Optional.
	Logger *slog.Logger
}

// Starter starts programs; process.Group is one.
type Starter interface {
	Start(process.Spec) (*process.Process, error)
}

// ControlPlane is a running control plane.
type ControlPlane struct {
	// Endpoint is the API server's URL, https://127.0.0.1:PORT.
	Endpoint string
	// CertificateAuthority is the PEM of the authority that signed the API server's certificate.
	CertificateAuthority []byte
	// Kubeconfig is the path of the administrator's kubeconfig.
	Kubeconfig string
	// Config is the administrator's client configuration; Client is a client
	// made from it.
	Config *rest.Config
	Client kubernetes.Interface

	options Options
	parts   []*process.Process // in start order
}

// Start starts a control plane and returns when it is ready. On an error, it stops what was started.
func Start(ctx context.Context, options Options) (*ControlPlane, error) {
	if options.Logger == nil {
		options.Logger = slog.New(slog.DiscardHandler)
	}
	c := &ControlPlane{options: options}
	if err := c.start(ctx); err != nil {
		c.Stop()
		return nil, fmt.Errorf("start a control plane in %s: %w", options.Dir, err)
	}
	return c, nil
}

func (c *ControlPlane) start(ctx context.Context) error {
	ports, err := process.FreePorts(3)
	if err != nil {
		return err
	}
	client, peer, secure := ports[0], ports[1], ports[2]
	if err := c.prepare(secure); err != nil {
		return err
	}
	if err := c.run(c.etcd(client, peer)); err != nil {
		return err
	}
	if err := c.awaitEtcd(ctx, client); err != nil {
		return err
	}
	if err := c.run(c.apiServer(secure, client)); err != nil {
		return err
	}
	if err := c.awaitAPIServer(ctx); err != nil {
		return err
	}
	if err := c.run(c.controllerManager()); err != nil {
		return err
	}
	if c.options.WithoutScheduler {
		return nil
	}
	return c.run(c.scheduler())
}

// prepare writes keys, tokens and kubeconfigs.
func (c *ControlPlane) prepare(port int) error {
	if err := os.MkdirAll(filepath.Join(c.options.Dir, etcdDir), 0o700); err != nil {
		return err
	}
	if err := c.writeAuditPolicy(); err != nil {
		return err
	}
	id, err := openIdentity(filepath.Join(c.options.Dir, pkiDir))
	if err != nil {
		return err
	}
	if err := id.writeServing(); err != nil {
		return fmt.Errorf("write the serving certificate: %w", err)
	}
	tokens, err := id.writeTokens(c.options.AdminGroups)
	if err != nil {
		return fmt.Errorf("write the token file: %w", err)
	}
	c.Endpoint = fmt.Sprintf("https://127.0.0.1:%d", port)
	c.CertificateAuthority = id.caPEM
	c.Kubeconfig = c.kubeconfig(adminUser)
	for user, token := range tokens {
		if err := writeKubeconfig(c.kubeconfig(user), c.Endpoint, id.caPEM, user, token); err != nil {
			return err
		}
	}
	c.Config = restConfig(c.Endpoint, id.caPEM, tokens[adminUser])
	c.Client, err = kubernetes.NewForConfig(c.Config)
	return err
}

func (c *ControlPlane) run(spec process.Spec) error {
	p, err := c.options.Programs.Start(spec)
	if err != nil {
		return err
	}
	c.options.Logger.Debug("started", "program", spec.Name, "pid", p.PID())
	c.parts = append(c.parts, p)
	return nil
}

// Stop stops the parts, the last started first, and returns when all have exited: then Dir can be copied.
func (c *ControlPlane) Stop() {
	for i := len(c.parts) - 1; i >= 0; i-- {
		c.parts[i].Stop(stopGrace)
	}
	c.parts = nil
}

// Kill kills the parts; Dir must not be copied then.
func (c *ControlPlane) Kill() {
	for i := len(c.parts) - 1; i >= 0; i-- {
		c.parts[i].Stop(0)
	}
	c.parts = nil
}
