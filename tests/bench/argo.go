package bench

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/tests/sandbox/peers"
)

var applications = schema.GroupVersionResource{Group: "argoproj.io", Version: "v1alpha1", Resource: "applications"}

// argo is Argo CD's application controller, repo server and Redis.
type argo struct {
	*ground
	programsOf
}

func (a *argo) settings() string {
	return peers.ArgoCDSettings() + ", automated sync with server-side apply"
}

// start makes it look at Git only on request.
func (a *argo) start(ctx context.Context) error {
	var err error
	a.programsOf, err = a.ends(peers.StartArgoCD(ctx, a.peerOptions(), 10*time.Hour))
	return err
}

func (a *argo) follow(ctx context.Context, _ string) error {
	_, err := a.apply(ctx, fmt.Appendf(nil, applicationYAML, peers.ArgoCDNamespace, a.host.url, branch, folder))
	return err
}

// notify requests a refresh, like its webhook.
func (a *argo) notify(ctx context.Context, _ string) error {
	patch := []byte(`{"metadata":{"annotations":{"argocd.argoproj.io/refresh":"normal"}}}`)
	_, err := a.objects.Resource(applications).Namespace(peers.ArgoCDNamespace).Patch(ctx, "bench", types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("ask Argo CD for a refresh: %w", err)
	}
	return nil
}

func (a *argo) settled(ctx context.Context, commit string) error {
	return a.until(ctx, applications, peers.ArgoCDNamespace, []string{"bench"}, "be Synced at "+commit, func(o *unstructured.Unstructured) (bool, error) {
		synced, _, _ := unstructured.NestedString(o.Object, "status", "sync", "status")
		revision, _, _ := unstructured.NestedString(o.Object, "status", "sync", "revision")
		phase, _, _ := unstructured.NestedString(o.Object, "status", "operationState", "phase")
		applied, _, err := unstructured.NestedString(o.Object, "status", "operationState", "syncResult", "revision")
		return synced == "Synced" && phase == "Succeeded" && revision == commit && applied == commit, err
	})
}

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
