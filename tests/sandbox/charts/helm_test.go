package charts

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/plumbline-dev/plumbline/tests/sandbox/binaries"
)

// TestHelmPulls uses Helm itself as the client.
func TestHelmPulls(t *testing.T) {
	cache, err := binaries.DefaultCache()
	if err != nil {
		t.Fatal(err)
	}
	builder := &binaries.Builder{Source: "../bin", Cache: cache, Progress: &binaries.Progress{Out: os.Stderr}}
	built, err := builder.Build(t.Context(), binaries.Helm)
	if err != nil {
		t.Fatal(err)
	}
	r := serve(t)
	for name, want := range map[string]string{
		CRDChart:  "name: nodepools.karpenter.sh",
		MainChart: "image: public.ecr.aws/karpenter/controller:1.14.1@" + imageDigest("1.14.1"),
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), built[binaries.Helm], "template", name, r.Repository+"/"+name,
				"--version", "1.14.1", "--plain-http", "--set", "settings.clusterName=demo")
			cmd.Env = append(cmd.Environ(), "HOME="+t.TempDir(), "NO_PROXY=127.0.0.1")
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if !strings.Contains(string(out), want) {
				t.Errorf("the rendered chart lacks %q", want)
			}
		})
	}
}
