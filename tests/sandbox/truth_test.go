package sandbox_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/tests/sandbox"
	"github.com/plumbline-dev/plumbline/tests/sandbox/binaries"
)

// nodes is how many nodes the workload of testdata needs.
const nodes = 5

// What to query, and which fields.
const (
	deletionTimes = `{.items[*].metadata.deletionTimestamp}`
	names         = `{.items[*].metadata.name}`
)

// hanging is what does not change while something hangs.
type hanging struct {
	Finalizers []string
	Deleted    int // EC2NodeClasses with a deletion timestamp
	Claims     int
	Nodes      int // that are Ready
	Instances  int // that are pending or running
}

// TestTruth shows, with only kubectl and helm, that the sandbox fails like a real cluster. Plumbline's guarantees prove
// nothing in a sandbox where these failures cannot happen.
func TestTruth(t *testing.T) {
	t.Parallel()
	c := up(t, sandbox.Options{FromSnapshot: true}) // with Karpenter installed
	t.Run("a deleted NodePool drains all of its nodes at once", c.poolDeleted)
	t.Run("an EC2NodeClass deleted in use hangs", c.classDeletedInUse)
	t.Run("without the controller everything hangs and instances run on", c.controllerFirst)
}

// readyNodes counts the Ready nodes of the pool.
func (c cluster) readyNodes(ctx context.Context) int {
	out, err := c.run(ctx, "kubectl", "get", "nodes", "-l", "karpenter.sh/nodepool=general",
		"-o", `jsonpath={.items[*].status.conditions[?(@.type=="Ready")].status}`)
	if err != nil {
		return 0
	}
	return strings.Count(out, "True")
}

// grow makes Karpenter launch the workload's nodes.
func (c cluster) grow(t *testing.T) {
	t.Helper()
	c.must(t, "kubectl", "apply", "-f", "testdata/pool.yaml", "-f", "testdata/workload.yaml")
	eventually(t, "five pods run on five nodes", func(ctx context.Context) bool {
		return slices.Equal(c.words(ctx, "deployment/web", `{.status.availableReplicas}`), []string{"5"})
	})
	if got := len(c.words(t.Context(), "nodeclaims", names)); got != nodes {
		t.Fatalf("NodeClaims: got %d, want %d", got, nodes)
	}
	if got := c.running(); got != nodes {
		t.Fatalf("instances running: got %d, want %d", got, nodes)
	}
}

// empty waits until nothing is left of what grow has created.
func (c cluster) empty(t *testing.T) {
	t.Helper()
	c.must(t, "kubectl", "delete", "deployment", "web", "--ignore-not-found")
	eventually(t, "all objects are gone", func(ctx context.Context) bool {
		out, err := c.run(ctx, "kubectl", "get", "nodepools,nodeclaims,ec2nodeclasses", "-o", "name")
		return err == nil && out == ""
	})
	c.nothingLeft(t)
}

// The pool's budget allows one node at a time.
func (c cluster) poolDeleted(t *testing.T) {
	c.grow(t)
	c.must(t, "kubectl", "delete", "nodepool", "general", "--wait=false")
	eventually(t, "all NodeClaims are being deleted, before one is gone", func(ctx context.Context) bool {
		return len(c.words(ctx, "nodeclaims", deletionTimes)) == nodes
	})
	if got := c.must(t, "kubectl", "get", "nodepools", "-o", "name"); got != "" {
		t.Errorf("the NodePool waits for its NodeClaims: %s", got)
	}
	eventually(t, "no pod of the workload is available", func(ctx context.Context) bool {
		out, err := c.run(ctx, "kubectl", "get", "deployment", "web", "-o", "jsonpath={.status.availableReplicas}")
		return err == nil && (out == "" || out == "0")
	})
	eventually(t, "all instances are ended", func(context.Context) bool { return c.running() == 0 })
	c.must(t, "kubectl", "delete", "ec2nodeclass", "general", "--wait=false")
	c.empty(t)
}

func (c cluster) classDeletedInUse(t *testing.T) {
	c.grow(t)
	c.must(t, "kubectl", "delete", "ec2nodeclass", "general", "--wait=false")
	eventually(t, "an event says what the class waits for", func(ctx context.Context) bool {
		reasons := c.words(ctx, "events", `{.items[?(@.involvedObject.kind=="EC2NodeClass")].reason}`)
		return slices.Contains(reasons, "WaitingOnNodeClaimTermination")
	})
	stays(t, "the class is terminating and nothing else happens", func(ctx context.Context) string {
		return cmp.Diff(hanging{Finalizers: []string{"karpenter.k8s.aws/termination"}, Deleted: 1, Instances: nodes}, hanging{
			Finalizers: c.words(ctx, "ec2nodeclass/general", `{.metadata.finalizers[*]}`),
			Deleted:    len(c.words(ctx, "ec2nodeclass/general", `{.metadata.deletionTimestamp}`)),
			Instances:  c.running(),
		})
	})
	c.must(t, "kubectl", "delete", "nodepool", "general", "--wait=false")
	c.empty(t)
}

func (c cluster) controllerFirst(t *testing.T) {
	c.grow(t)
	c.must(t, "helm", "uninstall", "karpenter", "--namespace", sandbox.ChartNamespace)
	eventually(t, "no controller runs", func(context.Context) bool { return len(c.Karpenter.Instances()) == 0 })
	c.must(t, "kubectl", "delete", "nodepool", "general", "--wait=false")
	c.must(t, "kubectl", "delete", "ec2nodeclass", "general", "--wait=false")
	eventually(t, "all NodeClaims are being deleted", func(ctx context.Context) bool {
		return len(c.words(ctx, "nodeclaims", deletionTimes)) == nodes
	})
	stays(t, "they hang, the nodes are Ready, the instances run", func(ctx context.Context) string {
		return cmp.Diff(hanging{Deleted: 1, Claims: nodes, Nodes: nodes, Instances: nodes}, hanging{
			Deleted:   len(c.words(ctx, "ec2nodeclass/general", `{.metadata.deletionTimestamp}`)),
			Claims:    len(c.words(ctx, "nodeclaims", names)),
			Nodes:     c.readyNodes(ctx),
			Instances: c.running(),
		})
	})
	c.must(t, "helm", "install", "karpenter", c.Charts.Repository+"/karpenter", "--version", binaries.KarpenterVersion,
		"--namespace", sandbox.ChartNamespace, "--plain-http", "--skip-crds", "--set", "settings.clusterName="+c.Cluster, "--set", "replicas=1")
	c.empty(t)
}
