package kube

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/plumbline-dev/plumbline/tests/sandbox/process"
)

// ServiceCIDR is the range of Service addresses.
const ServiceCIDR = "10.100.0.0/16"

// Issuer is the issuer of service-account tokens.
const Issuer = "https://kubernetes.default.svc.cluster.local"

// component returns the Spec of one part of the multi-call binary.
func (c *ControlPlane) component(name string, args ...string) process.Spec {
	return process.Spec{
		Name: name,
		Path: c.options.Binary,
		Args: append([]string{name}, args...),
		Env:  []string{"HOME=" + c.options.Dir, "NO_PROXY=127.0.0.1,localhost", "PATH=/usr/bin:/bin"},
		Dir:  c.options.Dir,
		Log:  filepath.Join(c.options.Dir, name+".log"),
	}
}

// versioned returns the Spec of a part that can emulate an older version.
func (c *ControlPlane) versioned(name string, args ...string) process.Spec {
	if v := c.options.EmulatedVersion; v != "" {
		args = append(args, "--emulated-version="+v)
	}
	return c.component(name, args...)
}

func (c *ControlPlane) etcd(client, peer int) process.Spec {
	return c.component("etcd",
		"--data-dir="+filepath.Join(c.options.Dir, etcdDir),
		fmt.Sprintf("--client-url=http://127.0.0.1:%d", client),
		fmt.Sprintf("--peer-url=http://127.0.0.1:%d", peer),
	)
}

func (c *ControlPlane) apiServer(port, etcd int) process.Spec {
	args := append(c.auditFlags(),
		fmt.Sprintf("--etcd-servers=http://127.0.0.1:%d", etcd),
		"--bind-address=127.0.0.1",
		"--advertise-address=127.0.0.1",
		"--endpoint-reconciler-type=none", // it rejects loopback addresses
		fmt.Sprintf("--secure-port=%d", port),
		"--service-cluster-ip-range="+ServiceCIDR,
		"--authorization-mode=Node,RBAC",
		"--allow-privileged=true",
		// A responding kubelet is on this machine, which is not any node's own address.
		"--kubelet-preferred-address-types=ExternalIP",
		"--token-auth-file="+c.pki(tokensFile),
		"--client-ca-file="+c.pki(caCertFile),
		"--tls-cert-file="+c.pki(servingCertFile),
		"--tls-private-key-file="+c.pki(servingKeyFile),
		"--service-account-issuer="+Issuer,
		"--service-account-key-file="+c.pki(accountPubFile),
		"--service-account-signing-key-file="+c.pki(accountKeyFile),
		"--profiling=false",
	)
	return c.versioned("kube-apiserver", args...)
}

// controllerManager runs the usual controllers. The sandbox's nodes do what a cloud would do. The attach-detach
// controller and the volume binder run more often than once a minute, as stories are short.
func (c *ControlPlane) controllerManager() process.Spec {
	controllers := strings.Join(append([]string{"*"}, c.options.WithoutControllers...), ",-")
	if len(c.options.Controllers) > 0 {
		controllers = strings.Join(c.options.Controllers, ",")
	}
	return c.versioned("kube-controller-manager",
		"--kubeconfig="+c.kubeconfig(managerUser),
		"--leader-elect=false",
		"--secure-port=0",
		"--profiling=false",
		"--controllers="+controllers,
		"--root-ca-file="+c.pki(caCertFile),
		"--service-account-private-key-file="+c.pki(accountKeyFile),
		"--cluster-signing-cert-file="+c.pki(caCertFile),
		"--cluster-signing-key-file="+c.pki(caKeyFile),
		"--kube-api-qps=500",
		"--kube-api-burst=1000",
		"--attach-detach-reconcile-sync-period=2s",
		"--pvclaimbinder-sync-period=5s",
	)
}

func (c *ControlPlane) scheduler() process.Spec {
	return c.versioned("kube-scheduler",
		"--kubeconfig="+c.kubeconfig(schedulerUser),
		"--leader-elect=false",
		"--secure-port=0",
		"--profiling=false",
		"--kube-api-qps=500",
		"--kube-api-burst=1000",
	)
}

func (c *ControlPlane) pki(file string) string {
	return filepath.Join(c.options.Dir, pkiDir, file)
}

// kubeconfig returns the path of a user's kubeconfig.
func (c *ControlPlane) kubeconfig(user string) string {
	return filepath.Join(c.options.Dir, strings.ReplaceAll(user, ":", "-")+".kubeconfig")
}
