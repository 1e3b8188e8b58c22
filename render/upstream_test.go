package render_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/plumbline-dev/plumbline/render"
)

// upstream is the folder of the AWS provider's module, which holds what users
// start from.
func upstream(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/aws/karpenter-provider-aws").Output()
	if err != nil {
		t.Fatalf("find the module of the AWS provider: %v", err)
	}
	return strings.TrimSpace(string(out))
}

// refusedUpstream are examples of upstream's that the API server refuses, too:
// nodeClassRef.group has to be a group without a version.
var refusedUpstream = map[string]string{
	"windows-custom-userdata.yaml": "spec.template.spec.nodeClassRef.group",
}

func TestUpstreamExamples(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(upstream(t), "examples", "v1", "*.yaml"))
	if err != nil || len(files) != 22 {
		t.Fatalf("found %d examples (%v), want 22", len(files), err)
	}
	validator := embedded(t)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			snap := folder(map[string]string{"plumbline.yaml": plumblineYAML, "example.yaml": string(text)})
			set, err := renderAll(t, snap, ".", validator)
			t.Log(err)
			if err != nil { t.Fail(); return }
			for _, object := range set.Objects {
				if text := string(marshal(t, object.Desired.Object)); strings.Contains(text, "${CLUSTER_NAME}") || strings.Contains(text, "KarpenterNodeRole-\n") {
					t.Errorf("%s: the cluster's name is not in it:\n%s", object.Ref, text)
				}
			}
		})
	}
}

func TestUpstreamWorkloadsAreForeign(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(upstream(t), "examples", "workloads", "*.yaml"))
	if err != nil || len(files) != 11 {
		t.Fatalf("found %d workloads (%v), want 11", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			snap := folder(map[string]string{"plumbline.yaml": plumblineYAML, "apps/workload.yaml": string(text)})
			_, err = renderAll(t, snap, ".", nil)
			var errs render.Errors
			if !errors.As(err, &errs) {
				t.Fatalf("error %v, want render.Errors", err)
			}
			for _, one := range errs {
				if one.File != "apps/workload.yaml" || one.Line == 0 || !strings.Contains(one.Message, "is refused: plumbline is for NodePool and EC2NodeClass") {
					t.Errorf("unexpected: %v", one)
				}
			}
		})
	}
}

var _ = fstest.MapFS{}
