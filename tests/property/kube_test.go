package property

import (
	"os"
	"testing"

	"github.com/plumbline-dev/plumbline/tests/sandbox/binaries"
	"github.com/plumbline-dev/plumbline/tests/sandbox/kube"
	"github.com/plumbline-dev/plumbline/tests/sandbox/process"
)

// startKube starts an API server that lasts as long as the test.
func startKube(t *testing.T) *kube.ControlPlane {
	t.Helper()
	builder, err := binaries.Here(os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	paths, err := builder.Build(t.Context(), binaries.Kubernetes)
	if err != nil {
		t.Fatal(err)
	}
	group := process.NewGroup()
	t.Cleanup(group.Close)
	c, err := kube.Start(t.Context(), kube.Options{
		Binary: paths[binaries.Kubernetes], Dir: t.TempDir(), Programs: group, WithoutScheduler: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Kill)
	return c
}
