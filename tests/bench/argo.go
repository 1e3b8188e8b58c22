package bench

import (
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/tests/sandbox/binaries"
	"github.com/plumbline-dev/plumbline/tests/sandbox/process"
)

var (
	applications    = schema.GroupVersionResource{Group: "argoproj.io", Version: "v1alpha1", Resource: "applications"}
	applicationSets = schema.GroupVersionResource{Group: "argoproj.io", Version: "v1alpha1", Resource: "applicationsets"}
	appProjects     = schema.GroupVersionResource{Group: "argoproj.io", Version: "v1alpha1", Resource: "appprojects"}
)

// argoVariables raise what would slow it down, and leave looking to requests.
var argoVariables = []string{
	"ARGOCD_K8S_CLIENT_QPS=1000", "ARGOCD_K8S_CLIENT_BURST=2000", "ARGOCD_RECONCILIATION_TIMEOUT=10h",
	"ARGOCD_APPLICATION_CONTROLLER_KUBECTL_PARALLELISM_LIMIT=50",
}

// argo is Argo CD's application controller, repo server and Redis.
type argo struct {
	*ground
	programsOf
}

func (a *argo) users() []string { return []string{peersUser} }

func (a *argo) settings() string {
	return "application controller and repo server " + binaries.ArgoCDVersion + ", Redis, automated sync with server-side apply; " + strings.Join(argoVariables, " ")
}

func (a *argo) start(ctx context.Context) error {
	redis, err := exec.LookPath("redis-server")
	if err != nil {
		return fmt.Errorf("%w: redis-server is not installed", errMissing)
	}
	paths, err := a.builder.Build(ctx, binaries.ArgoCD)
	if err != nil {
		return fmt.Errorf("%w: %w", errMissing, err)
	}
	if err := a.installArgo(ctx); err != nil {
		return err
	}
	ports, err := process.FreePorts(4)
	if err != nil {
		return err
	}
	at := func(i int) string { return fmt.Sprintf("127.0.0.1:%d", ports[i]) }
	controller := []string{
		"application-controller", "--namespace=" + peersNamespace, "--redis=" + at(0), "--repo-server=" + at(1), "--repo-server-plaintext",
		"--metrics-port=" + strconv.Itoa(ports[2]),
	}
	server := []string{
		"repo-server", "--redis=" + at(0), "--address=127.0.0.1", "--port=" + strconv.Itoa(ports[1]), "--disable-tls",
		"--metrics-address=127.0.0.1", "--metrics-port=" + strconv.Itoa(ports[3]),
	}
	env := append([]string{
		"ARGOCD_FAKE_IN_CLUSTER=true", "ARGOCD_GPG_ENABLED=false",
		"ARGOCD_ASK_PASS_SOCK=" + a.path("askpass.sock"), // else all runs on a machine share one
	}, argoVariables...)
	for _, program := range []struct {
		name, path string
		args       []string
	}{
		{"redis", redis, []string{"--port", strconv.Itoa(ports[0]), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"}},
		{"argocd-repo-server", paths[binaries.ArgoCD], server},
		{"argocd-application-controller", paths[binaries.ArgoCD], controller},
	} {
		p, err := a.run(ctx, program.name, program.path, program.args, env)
		if err != nil {
			return err
		}
		a.programsOf = append(a.programsOf, p)
	}
	return nil
}

// installArgo applies the CRDs, and what its install.yaml has beside them that
// the two programs read.
func (a *argo) installArgo(ctx context.Context) error {
	crds, err := moduleFile(ctx, "github.com/argoproj/argo-cd/v3@v"+binaries.ArgoCDVersion,
		"manifests/crds/application-crd.yaml", "manifests/crds/applicationset-crd.yaml", "manifests/crds/appproject-crd.yaml")
	if err != nil {
		return err
	}
	if _, err := a.kube.Kubectl(ctx, crds, "apply", "--server-side", "-f", "-"); err != nil {
		return err
	}
	if err := a.awaitServed(ctx, applications, appProjects, applicationSets); err != nil {
		return err
	}
	_, err = a.apply(ctx, fmt.Appendf(nil, argoYAML, peersNamespace))
	return err
}

func (a *argo) follow(ctx context.Context, _ string) error {
	_, err := a.apply(ctx, fmt.Appendf(nil, applicationYAML, peersNamespace, a.host.url, branch, folder))
	return err
}

// notify asks for a refresh, as its webhook does.
func (a *argo) notify(ctx context.Context, _ string) error {
	patch := []byte(`{"metadata":{"annotations":{"argocd.argoproj.io/refresh":"normal"}}}`)
	_, err := a.objects.Resource(applications).Namespace(peersNamespace).Patch(ctx, "bench", types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("ask Argo CD for a refresh: %w", err)
	}
	return nil
}

func (a *argo) settled(ctx context.Context, commit string) error {
	return a.until(ctx, applications, peersNamespace, []string{"bench"}, "be Synced at "+commit, func(o *unstructured.Unstructured) (bool, error) {
		synced, _, _ := unstructured.NestedString(o.Object, "status", "sync", "status")
		revision, _, _ := unstructured.NestedString(o.Object, "status", "sync", "revision")
		phase, _, _ := unstructured.NestedString(o.Object, "status", "operationState", "phase")
		applied, _, err := unstructured.NestedString(o.Object, "status", "operationState", "syncResult", "revision")
		return synced == "Synced" && phase == "Succeeded" && revision == commit && applied == commit, err
	})
}

const argoYAML = `apiVersion: v1
kind: ConfigMap
metadata: {name: argocd-cm, namespace: %[1]s, labels: {app.kubernetes.io/part-of: argocd}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: argocd-rbac-cm, namespace: %[1]s, labels: {app.kubernetes.io/part-of: argocd}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: argocd-tls-certs-cm, namespace: %[1]s, labels: {app.kubernetes.io/part-of: argocd}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: argocd-ssh-known-hosts-cm, namespace: %[1]s, labels: {app.kubernetes.io/part-of: argocd}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: argocd-gpg-keys-cm, namespace: %[1]s, labels: {app.kubernetes.io/part-of: argocd}}
---
apiVersion: v1
kind: Secret
metadata: {name: argocd-secret, namespace: %[1]s, labels: {app.kubernetes.io/part-of: argocd}}
stringData: {server.secretkey: bench}
---
apiVersion: argoproj.io/v1alpha1
kind: AppProject
metadata: {name: default, namespace: %[1]s}
spec:
  sourceRepos: ["*"]
  destinations: [{namespace: "*", server: "*"}]
  clusterResourceWhitelist: [{group: "*", kind: "*"}]
`

const applicationYAML = `apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: bench, namespace: %[1]s}
spec:
  project: default
  source: {repoURL: %[2]q, targetRevision: %[3]s, path: %[4]s/nodes}
  destination: {server: "https://kubernetes.default.svc", namespace: default}
  syncPolicy:
    automated: {prune: true}
    syncOptions: [ServerSideApply=true]
`
