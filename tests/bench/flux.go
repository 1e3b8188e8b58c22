package bench

import (
	"context"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/tests/sandbox/peers"
)

var (
	gitRepositories = schema.GroupVersionResource{Group: "source.toolkit.fluxcd.io", Version: "v1", Resource: "gitrepositories"}
	kustomizations  = schema.GroupVersionResource{Group: "kustomize.toolkit.fluxcd.io", Version: "v1", Resource: "kustomizations"}
)

// flux is its source-controller and its kustomize-controller.
type flux struct {
	*ground
	programsOf
}

func (f *flux) settings() string { return peers.FluxSettings() }

func (f *flux) start(ctx context.Context) error {
	var err error
	f.programsOf, err = f.ends(peers.StartFlux(ctx, f.peerOptions()))
	return err
}

func (f *flux) follow(ctx context.Context, _ string) error {
	_, err := f.apply(ctx, fmt.Appendf(nil, fluxYAML, peers.FluxNamespace, f.host.url, folder, branch))
	return err
}

// notify requests a reconcile of the source, like flux reconcile and its webhook.
func (f *flux) notify(ctx context.Context, commit string) error {
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"reconcile.fluxcd.io/requestedAt":%q}}}`, time.Now().Format(time.RFC3339Nano))
	_, err := f.objects.Resource(gitRepositories).Namespace(peers.FluxNamespace).Patch(ctx, "bench", types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("ask Flux for the commit %s: %w", commit, err)
	}
	return nil
}

func (f *flux) settled(ctx context.Context, commit string) error {
	return f.until(ctx, kustomizations, peers.FluxNamespace, []string{"bench"}, "be Ready at "+commit, func(o *unstructured.Unstructured) (bool, error) {
		revision, _, err := unstructured.NestedString(o.Object, "status", "lastAppliedRevision")
		return strings.HasSuffix(revision, commit) && isReady(o), err
	})
}

const fluxYAML = `apiVersion: source.toolkit.fluxcd.io/v1
kind: GitRepository
metadata: {name: bench, namespace: %[1]s}
spec: {interval: 10h, url: %[2]q, ref: {branch: %[4]s}}
---
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: bench, namespace: %[1]s}
spec:
  interval: 10h
  retryInterval: 10s
  path: ./%[3]s/nodes
  prune: true
  sourceRef: {kind: GitRepository, name: bench}
`
