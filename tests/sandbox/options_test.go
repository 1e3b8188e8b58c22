package sandbox_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/tests/sandbox"
	"github.com/plumbline-dev/plumbline/tests/sandbox/binaries"
)

// TestPrograms: the version of Kubernetes decides which control plane is built.
func TestPrograms(t *testing.T) {
	others := []binaries.Name{binaries.Kwok, binaries.Karpenter, binaries.Helm}
	for name, c := range map[string]struct {
		options sandbox.Options
		want    []binaries.Name
	}{
		"default":    {sandbox.Options{}, append([]binaries.Name{binaries.Kubernetes}, others...)},
		"emulated":   {sandbox.Options{Kubernetes: "1.36"}, append([]binaries.Name{binaries.Kubernetes}, others...)},
		"older":      {sandbox.Options{Kubernetes: "1.33"}, append([]binaries.Name{binaries.OlderKubernetes}, others...)},
		"a Git host": {sandbox.Options{WithGit: true}, append(append([]binaries.Name{binaries.Kubernetes}, others...), binaries.Gitea)},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, c.options.Programs()); diff != "" {
				t.Errorf("programs (-want +got):\n%s", diff)
			}
		})
	}
}
