package sandbox

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim"
	"github.com/plumbline-dev/plumbline/tests/sandbox/binaries"
	"github.com/plumbline-dev/plumbline/tests/sandbox/charts"
	"github.com/plumbline-dev/plumbline/tests/sandbox/githost"
	"github.com/plumbline-dev/plumbline/tests/sandbox/karpenter"
	"github.com/plumbline-dev/plumbline/tests/sandbox/kube"
	"github.com/plumbline-dev/plumbline/tests/sandbox/nodes"
	"github.com/plumbline-dev/plumbline/tests/sandbox/nodes/ebs"
)

func (s *Sandbox) startKube(ctx context.Context) error {
	dir := s.path("kube")
	if s.options.FromSnapshot {
		if err := s.copySnapshot(ctx, dir); err != nil {
			return err
		}
	}
	var err error
	s.Kube, err = kube.Start(ctx, kube.Options{
		Binary: s.kubernetes(), Dir: dir, Programs: s.programs, Logger: s.options.Logger,
		EmulatedVersion: s.options.Kubernetes, AdminGroups: s.options.AdminGroups,
		AuditUsers: []string{"system:serviceaccount:" + plumblineAccount[0] + ":" + plumblineAccount[1]},
	})
	if err != nil {
		return err
	}
	s.onDown(func() error {
		s.Kube.Kill()
		return nil
	})
	return nil
}

// startAWS serves the simulator and creates the EKS cluster of the control plane.
func (s *Sandbox) startAWS(ctx context.Context) error {
	if beside := s.options.Beside; beside != nil {
		s.AWS, s.AWSEndpoint = beside.AWS, beside.AWSEndpoint
		return s.addBeside()
	}
	s.AWS = awssim.New(awssim.Options{
		Region: s.Region, Seed: s.options.Seed, ResourceTime: s.options.ResourceTime, LaunchDelay: s.options.LaunchTime, ShutdownDelay: s.options.ShutdownTime, SpotWarning: s.options.WarningTime,
		Logger: s.options.Logger.With("part", "aws"),
	})
	if err := errors.Join(s.addCluster(), s.addRoles()); err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen for AWS calls: %w", err)
	}
	s.AWSEndpoint = "http://" + listener.Addr().String()
	server := &http.Server{Handler: s.AWS.Handler(), ReadHeaderTimeout: time.Minute}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	s.onDown(func() error {
		closed := server.Close()
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			return errors.Join(closed, err)
		}
		return closed
	})
	return nil
}

// addRoles creates the roles of plumbline and of its commands, and associates Karpenter's.
func (s *Sandbox) addRoles() error {
	if s.options.Bare {
		return nil
	}
	return errors.Join(s.addPlumblineRole(),
		s.AWS.Associate(s.Cluster, "kube-system", "karpenter", "KarpenterControllerRole-"+s.Cluster),
		s.addRole("doctor-"+s.Cluster, doctorAccessKey, "iam-policy-doctor.json"),
		s.addRole("migrator-"+s.Cluster, migratorAccessKey, "iam-policy-migrate.json"),
		s.addRole("auditor-"+s.Cluster, auditorAccessKey, "iam-policy-audit.json", "iam-policy-cloudtrail.json"),
		s.addRole("verifier-"+s.Cluster, verifierAccessKey, "iam-policy-verify.json"),
		s.addRole("ender-"+s.Cluster, enderAccessKey, "iam-policy-verify.json", "iam-policy-teardown.json"))
}

// addCluster creates the EKS cluster of the control plane, and an access key of its Karpenter's role.
func (s *Sandbox) addCluster() error {
	tokenKey, err := s.Kube.TokenKey()
	if err != nil {
		return err
	}
	err = s.AWS.AddCluster(awssim.Cluster{
		Name: s.Cluster, Endpoint: s.Kube.Endpoint,
		CertificateAuthority: base64.StdEncoding.EncodeToString(s.Kube.CertificateAuthority),
		Version:              s.options.Kubernetes,
		ServiceIPv4CIDR:      kube.ServiceCIDR,
		Issuer:               kube.Issuer, TokenKey: tokenKey,
		Bare: s.options.Bare,
	})
	if err != nil {
		return fmt.Errorf("make the EKS cluster %s: %w", s.Cluster, err)
	}
	if !s.options.Bare {
		s.AWS.RegisterCredentials(s.ownKey(karpenterAccessKey), "KarpenterControllerRole-"+s.Cluster)
	}
	return nil
}

// eksctlPolicy is a policy of Karpenter's controller without any condition on the cluster, as eksctl writes it.
const eksctlPolicy = `{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":["ec2:*","iam:*","eks:DescribeCluster","ssm:GetParameter","pricing:GetProducts","sqs:*"],"Resource":"*"}}`

// addBeside creates the EKS cluster in the account of another sandbox. Without plumbline, its Karpenter may use any
// cluster's name.
func (s *Sandbox) addBeside() error {
	if err := s.addCluster(); err != nil || s.options.Bare {
		return err
	}
	role := "KarpenterControllerRole-" + s.Cluster
	err := s.AWS.Associate(s.Cluster, "kube-system", "karpenter", role)
	if s.options.WithPlumbline {
		return errors.Join(err, s.addPlumblineRole())
	}
	return errors.Join(err, s.AWS.PutRolePolicy(role, "eksctl", eksctlPolicy))
}

// plumblineAccount is the namespace and the name of plumbline's ServiceAccount.
var plumblineAccount = [2]string{"plumbline-system", "plumbline"}

// addPlumblineRole creates plumbline's role according to manifests/README.md: with manifests/iam-policy.json and
// nothing else, for its ServiceAccount by EKS Pod Identity. The access key belongs to it, too.
func (s *Sandbox) addPlumblineRole() error {
	name := "plumbline-" + s.Cluster
	if err := s.addRole(name, s.ownKey(plumblineAccessKey), "iam-policy.json"); err != nil {
		return err
	}
	return s.AWS.Associate(s.Cluster, plumblineAccount[0], plumblineAccount[1], name)
}

// addRole creates a role with policies of manifests/ and nothing else, and its access key.
func (s *Sandbox) addRole(name, key string, policies ...string) error {
	documents := map[string]string{}
	for _, policy := range policies {
		text, err := os.ReadFile(filepath.Join(s.options.Source, "..", "..", "..", "manifests", policy))
		if err != nil {
			return fmt.Errorf("read a policy: %w", err)
		}
		documents[name+"-"+strings.TrimSuffix(policy, ".json")] = strings.NewReplacer("${PARTITION}", "aws", "${REGION}", s.Region, "${ACCOUNT}", awssim.DefaultAccount, "${CLUSTER_NAME}", s.Cluster).Replace(string(text))
	}
	err := s.AWS.AddRole(awssim.Role{Name: name, Trust: awssim.Trusted(awssim.PodIdentityAudience), Policies: documents})
	if err == nil {
		s.AWS.RegisterCredentials(key, name)
	}
	return err
}

func (s *Sandbox) startCharts(ctx context.Context) error {
	if s.options.Beside != nil {
		s.Charts = s.options.Beside.Charts
		return nil
	}
	var err error
	if s.Charts, err = s.serveCharts(ctx); err != nil {
		return err
	}
	s.onDown(s.Charts.Close)
	return nil
}

func (s *Sandbox) serveCharts(ctx context.Context) (*charts.Registry, error) {
	return charts.Serve(ctx, charts.Options{
		Source: s.options.Source, Logger: s.options.Logger.With("part", "charts"),
	})
}

// startLogs serves the logs of Karpenter's pods before there are any, because the nodes must contain the address.
func (s *Sandbox) startLogs() error {
	var err error
	if s.logs, err = karpenter.ServeLogs(s.controllers()); err != nil {
		return err
	}
	s.onDown(func() error {
		s.logs.Close()
		return nil
	})
	return nil
}

// controllers returns the folder that contains a folder for each pod of Karpenter's.
func (s *Sandbox) controllers() string { return s.path("karpenter") }

func (s *Sandbox) startNodes(ctx context.Context) error {
	var err error
	s.Nodes, err = nodes.Start(ctx, nodes.Options{
		Client: s.Kube.Client, Kubeconfig: s.Kube.Kubeconfig,
		Simulator: s.AWS, Cluster: s.Cluster, Endpoint: s.Kube.Endpoint,
		Zones:       []string{s.Region + "a", s.Region + "b"},
		KubeletPort: s.logs.Port,
		KwokBinary:  s.paths[binaries.Kwok], Dir: s.path("nodes"),
		// Longer than Karpenter takes between the last pod of a workload and those of DaemonSets.
		UnmountTime: 4 * time.Second,
		BootTime:    s.options.BootTime, PodStart: s.options.PodStartTime, PodDelete: s.options.DrainTime,
		Logger: s.options.Logger.With("part", "nodes"), Command: s.programs.Command,
	})
	if err != nil {
		return err
	}
	s.onDown(func() error {
		s.Nodes.Close()
		return nil
	})
	if !s.options.WithVolumes {
		return nil
	}
	return s.Nodes.InstallEBS(ctx, ebs.Install{})
}

func (s *Sandbox) startKarpenter(ctx context.Context) error {
	options := karpenter.Options{
		Client: s.Kube.Client, Programs: s.programs, Credentials: s.Kube,
		Pull: s.pull,
		Env:  s.awsEnvironment(s.ownKey(karpenterAccessKey)),
		Dir:  s.controllers(), Logger: s.options.Logger.With("part", "karpenter"),
	}
	if s.options.Bare {
		options.Env, options.Identity = s.awsPlace(), s.podIdentity
	}
	var err error
	s.Karpenter, err = karpenter.Start(ctx, options)
	if err != nil {
		return err
	}
	s.onDown(func() error {
		s.Karpenter.Stop()
		return nil
	})
	return nil
}

// ownKey returns the access key of this cluster for a role of which each cluster of the account has one.
func (s *Sandbox) ownKey(key string) string {
	if s.options.Beside != nil {
		return key + "-" + s.Cluster
	}
	return key
}

func (s *Sandbox) startGit(ctx context.Context) (*githost.Host, error) {
	return githost.Start(ctx, githost.Options{
		Binary: s.paths[binaries.Gitea], ModuleDir: s.module(binaries.Gitea), Dir: s.path("git"),
		Logger: s.options.Logger.With("part", "git"), Command: s.programs.Command,
	})
}

// kubernetes returns the path of the program with the parts of the control plane and kubectl.
func (s *Sandbox) kubernetes() string {
	return s.paths[binaries.KubernetesOf(s.options.Kubernetes)]
}

// module returns the folder of the Go module that a program is built from.
func (s *Sandbox) module(name binaries.Name) string {
	return filepath.Join(s.options.Source, string(name))
}
