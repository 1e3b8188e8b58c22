package peers

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/plumbline-dev/plumbline/tests/sandbox/binaries"
	"github.com/plumbline-dev/plumbline/tests/sandbox/process"
)

// ArgoCDNamespace contains Argo CD.
const ArgoCDNamespace = "argocd"

// argoVariables raise the limits that would slow it down.
var argoVariables = []string{
	"ARGOCD_K8S_CLIENT_QPS=1000", "ARGOCD_K8S_CLIENT_BURST=2000",
	"ARGOCD_APPLICATION_CONTROLLER_KUBECTL_PARALLELISM_LIMIT=50",
}

// argoSettings is what its install.yaml contains besides CRDs and workloads and the two programs read.
//
//go:embed argocd.yaml
var argoSettings []byte

// ArgoCDSettings describes what StartArgoCD starts.
func ArgoCDSettings() string {
	return "application controller and repo server " + binaries.ArgoCDVersion + ", Redis; " + strings.Join(argoVariables, " ")
}

// StartArgoCD starts Argo CD's application controller and repo server, and their Redis. They poll Git at each interval,
// and when an Application is annotated with argocd.argoproj.io/refresh.
func StartArgoCD(ctx context.Context, o Options, interval time.Duration) (*Peer, error) {
	paths, err := o.Builder.Build(ctx, binaries.ArgoCD, binaries.Helm)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMissing, err)
	}
	if err := o.installArgoCD(ctx); err != nil {
		return nil, err
	}
	ports, err := process.FreePorts(4)
	if err != nil {
		return nil, err
	}
	p := newPeer(o, ArgoCDNamespace)
	// Git runs argocd, by that name, for the credentials of a repository, and the repo server runs helm.
	if err := errors.Join(linked(paths[binaries.ArgoCD], p.path("bin"), "argocd"), linked(paths[binaries.Helm], p.path("bin"), "helm")); err != nil {
		return nil, err
	}
	env := slices.Concat([]string{
		"PATH=" + p.path("bin") + ":" + usualPath,
		"ARGOCD_FAKE_IN_CLUSTER=true", "ARGOCD_GPG_ENABLED=false",
		"ARGOCD_ASK_PASS_SOCK=" + p.path("askpass.sock"), // otherwise all on a machine share one
		"ARGOCD_RECONCILIATION_TIMEOUT=" + interval.String(), "ARGOCD_RECONCILIATION_JITTER=0",
	}, argoVariables)
	err = p.start(ctx, argoPrograms(paths[binaries.ArgoCD], ports, env)...)
	return p, err
}

// StartArgoCDNotifications starts Argo CD's notifications controller, next to a running Argo CD. Configure it with
// argocd-notifications-cm and argocd-notifications-secret. Their templates cannot use a commit's message: the
// controller does not know the repo server's address.
func StartArgoCDNotifications(ctx context.Context, o Options) (*Peer, error) {
	paths, err := o.Builder.Build(ctx, binaries.ArgoCDNotifications)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMissing, err)
	}
	ports, err := process.FreePorts(1)
	if err != nil {
		return nil, err
	}
	p := newPeer(o, ArgoCDNamespace)
	err = p.start(ctx, program{"argocd-notifications-controller", paths[binaries.ArgoCDNotifications], []string{
		"--namespace=" + ArgoCDNamespace, "--metrics-port=" + strconv.Itoa(ports[0]),
	}, nil})
	return p, err
}

// redisProgram returns the system's Redis, or otherwise the one in Go that argocd contains.
func redisProgram(argo string, port int) program {
	if redis, err := exec.LookPath("redis-server"); err == nil {
		return program{"argocd-redis", redis, []string{"--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"}, nil}
	}
	return program{"argocd-redis", argo, []string{"redis", fmt.Sprintf("--address=127.0.0.1:%d", port)}, nil}
}

func argoPrograms(argo string, ports []int, env []string) []program {
	at := func(i int) string { return fmt.Sprintf("127.0.0.1:%d", ports[i]) }
	return []program{
		redisProgram(argo, ports[0]),
		{"argocd-repo-server", argo, []string{
			"repo-server", "--redis=" + at(0), "--address=127.0.0.1", "--port=" + strconv.Itoa(ports[1]), "--disable-tls",
			"--metrics-address=127.0.0.1", "--metrics-port=" + strconv.Itoa(ports[3]),
		}, env},
		{"argocd-application-controller", argo, []string{
			"application-controller", "--namespace=" + ArgoCDNamespace, "--application-namespaces=*",
			"--redis=" + at(0), "--repo-server=" + at(1), "--repo-server-plaintext", "--metrics-port=" + strconv.Itoa(ports[2]),
		}, env},
	}
}

// linked links a file into a folder under a name.
func linked(file, dir, name string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the folder of %s: %w", name, err)
	}
	link := filepath.Join(dir, name)
	if err := os.Symlink(file, link); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("call %s %s: %w", file, name, err)
	}
	return nil
}

func (o Options) installArgoCD(ctx context.Context) error {
	c := crds{module: "github.com/argoproj/argo-cd/v3", version: binaries.ArgoCDVersion}
	for _, kind := range []string{"application", "applicationset", "appproject"} {
		c.files = append(c.files, "manifests/crds/"+kind+"-crd.yaml")
		c.paths = append(c.paths, "/apis/argoproj.io/v1alpha1/"+kind+"s")
	}
	if err := o.makeNamespace(ctx, ArgoCDNamespace); err != nil {
		return err
	}
	if err := o.install(ctx, c); err != nil {
		return err
	}
	_, err := o.Kube.Kubectl(ctx, argoSettings, "apply", "--server-side", "--namespace="+ArgoCDNamespace, "-f", "-")
	return err
}
