package sandbox_test

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/plumbline-dev/plumbline/tests/sandbox"
	"github.com/plumbline-dev/plumbline/tests/sandbox/binaries"
)

// olderKubernetes is a version that each of the controllers supports.
const olderKubernetes = "1.33"

// TestOlderControllers makes the controller of each older release launch and terminate nodes: each is upgraded to the
// next, as with their charts by hand. It needs controllers that no other test builds.
func TestOlderControllers(t *testing.T) {
	t.Parallel()
	if full, _ := os.LookupEnv("PLUMBLINE_FULL"); full != "1" {
		t.Skip("builds controllers: told with PLUMBLINE_FULL=1")
	}
	c := up(t, sandbox.Options{Kubernetes: olderKubernetes})
	for _, version := range binaries.KarpenterControllers() {
		t.Run(version, func(t *testing.T) { c.oneLife(t, version) })
	}
}

// oneLife launches and terminates nodes.
func (c cluster) oneLife(t *testing.T, version string) {
	ctx := t.Context()
	if err := c.PullControllers(ctx, version); err != nil {
		t.Fatal(err)
	}
	if err := c.InstallCRDs(ctx, version); err != nil {
		t.Fatal(err)
	}
	if err := c.InstallController(ctx, version); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a pod of this version leads", func(ctx context.Context) bool { return c.Leads(ctx, version) == nil })
	c.AWS.ForgetCalls()
	c.must(t, "kubectl", "apply", "-f", "testdata/workload.yaml")
	c.must(t, "kubectl", "scale", "deployment", "web", "--replicas=2")
	eventually(t, "the workload has two pods", func(ctx context.Context) bool { return len(c.words(ctx, "pods", names)) == 2 })
	c.must(t, "kubectl", "apply", "-f", "testdata/pool.yaml") // not earlier, or nodes are launched for other pods
	eventually(t, "two pods run on two nodes", func(ctx context.Context) bool {
		return slices.Equal(c.words(ctx, "deployment/web", `{.status.availableReplicas}`), []string{"2"})
	})
	if got := c.running(); got != 2 {
		t.Errorf("instances running: got %d, want 2", got)
	}
	if got := c.words(ctx, "nodes", `{.items[*].status.nodeInfo.kubeletVersion}`); !slices.Contains(got, "v"+olderKubernetes+".0") {
		t.Errorf("versions of kubelets: got %q, want v%s.0", got, olderKubernetes)
	}
	for _, what := range []string{"deployment/web", "nodepool/general", "ec2nodeclass/general"} {
		c.must(t, "kubectl", "delete", what, "--wait=false")
	}
	c.empty(t)
	c.understood(t)
}

// understood checks that the simulator knew all requests.
func (c cluster) understood(t *testing.T) {
	t.Helper()
	calls := c.AWS.Calls("", "")
	if len(calls) == 0 {
		t.Error("nothing was asked of AWS")
	}
	for _, call := range calls {
		if strings.Contains(call.Message, "simulator") || len(call.Unknown) > 0 {
			t.Errorf("%s:%s: %s %s; not understood: %q", call.Service, call.Action, call.Code, call.Message, call.Unknown)
		}
	}
}
