package render_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/plumbline-dev/plumbline/render"
)

// upstream returns the folder of the AWS provider's module, with the examples that users start from.
func upstream(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/aws/karpenter-provider-aws").Output()
	if err != nil {
		t.Fatalf("find the module of the AWS provider: %v", err)
	}
	return strings.TrimSpace(string(out))
}

// wrongUpstream are upstream's examples that an API server refuses as well, with the correction: the group of
// nodeClassRef must not contain a version.
var wrongUpstream = map[string]struct{ refusal, wrong, right string }{
	"windows-custom-userdata.yaml": {
		`example.yaml:32: NodePool/windows2022: spec.template.spec.nodeClassRef.group: Invalid value: "karpenter.k8s.aws/v1": should match '^[^/]*$'`,
		"group: karpenter.k8s.aws/v1", "group: karpenter.k8s.aws",
	},
}

func TestUpstreamExamples(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(upstream(t), "examples", "v1", "*.yaml"))
	if err != nil || len(files) != 22 {
		t.Fatalf("found %d examples (%v), want 22", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if wrong, ok := wrongUpstream[filepath.Base(file)]; ok {
				_, err := renderExample(t, string(text))
				expectErrors(t, err, []string{wrong.refusal})
				text = []byte(strings.ReplaceAll(string(text), wrong.wrong, wrong.right))
			}
			set, err := renderExample(t, string(text))
			if err != nil {
				t.Fatal(err)
			}
			compareWithText(t, set, string(text))
		})
	}
}

func renderExample(t *testing.T, text string) (*render.Set, error) {
	t.Helper()
	return renderAll(t, folder(map[string]string{"plumbline.yaml": plumblineYAML, "example.yaml": text}), ".", embedded(t))
}

// compareWithText parses the example with another library, and replaces the cluster's name in the text.
func compareWithText(t *testing.T, set *render.Set, text string) {
	t.Helper()
	want := map[string]any{}
	for _, part := range strings.Split(strings.ReplaceAll(text, "${CLUSTER_NAME}", "demo"), "\n---\n") {
		object := map[string]any{}
		if err := yaml.Unmarshal([]byte(part), &object); err != nil {
			t.Fatal(err)
		}
		if kind, ok := object["kind"].(string); ok {
			want[kind+"/"+object["metadata"].(map[string]any)["name"].(string)] = object
		}
	}
	got := map[string]any{}
	for _, object := range set.Objects {
		plain := map[string]any{}
		if err := yaml.Unmarshal(marshal(t, object.Desired.Object), &plain); err != nil {
			t.Fatal(err)
		}
		got[object.Ref.String()] = plain
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
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
				if one.File != "apps/workload.yaml" || one.Line == 0 || !strings.Contains(one.Message, "is refused: plumbline is for CapacityBuffer, NodePool, NodeOverlay and EC2NodeClass") {
					t.Errorf("unexpected: %v", one)
				}
			}
		})
	}
}
