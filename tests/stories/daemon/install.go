package daemon

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/yaml"

	"github.com/plumbline-dev/plumbline/tests/sandbox/kube"
)

// Namespace is plumbline's namespace.
const Namespace = "plumbline-system"

// ServiceAccount is the daemon's ServiceAccount in Namespace.
const ServiceAccount = "plumbline"

// BreakGlassGroup may delete what the deletion guard of the manifests protects.
const BreakGlassGroup = "plumbline:break-glass"

// optional lists the optional roles that stories need: some read Karpenter's log, some use valuesFrom.
var optional = []string{"logs.yaml", "values.yaml"}

// played are the kinds that Start replaces.
var played = []string{"Deployment", "PodDisruptionBudget"}

// Install applies the manifests of the checkout at root as the administrator,
// and waits until the API server serves NodeSyncs.
func Install(ctx context.Context, c *kube.ControlPlane, root string) error {
	built, err := c.Kubectl(ctx, nil, "kustomize", filepath.Join(root, "manifests"))
	if err != nil {
		return fmt.Errorf("build the manifests: %w", err)
	}
	wanted, err := withoutPlayed(built)
	if err != nil {
		return err
	}
	if _, err := c.Kubectl(ctx, wanted, "apply", "--server-side", "-f", "-"); err != nil {
		return fmt.Errorf("apply the manifests: %w", err)
	}
	for _, file := range optional {
		if _, err := c.Kubectl(ctx, nil, "apply", "--server-side", "-f", filepath.Join(root, "manifests", "optional", file)); err != nil {
			return fmt.Errorf("apply an optional role: %w", err)
		}
	}
	if _, err := c.Kubectl(ctx, nil, "wait", "--for=condition=Established", "--timeout=60s", "crd/nodesyncs.plumbline.dev"); err != nil {
		return fmt.Errorf("wait for the API server to serve NodeSyncs: %w", err)
	}
	// Discovery lists the kind shortly after its CRD is Established.
	err = wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		kinds, err := c.Kubectl(ctx, nil, "api-resources", "--api-group=plumbline.dev", "--output=name")
		return err == nil && bytes.Contains(kinds, []byte("nodesyncs")), nil
	})
	if err != nil {
		return fmt.Errorf("wait for the API server's discovery to list NodeSyncs: %w", err)
	}
	return nil
}

// withoutPlayed removes the kinds that Start replaces from a file of several documents.
func withoutPlayed(documents []byte) ([]byte, error) {
	var kept [][]byte
	for _, document := range bytes.Split(documents, []byte("\n---\n")) {
		var object struct{ Kind string }
		if err := yaml.Unmarshal(document, &object); err != nil {
			return nil, fmt.Errorf("read the built manifests: %w", err)
		}
		if !slices.Contains(played, object.Kind) {
			kept = append(kept, document)
		}
	}
	return bytes.Join(kept, []byte("\n---\n")), nil
}
