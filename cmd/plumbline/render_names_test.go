package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// TestNamesOfFilesAreNoOutput: in a pull request, a file's name may look like another object, or contain terminal
// escapes.
func TestNamesOfFilesAreNoOutput(t *testing.T) {
	basic := examples(t)["basic"]
	name := filepath.Join(basic, "nodes", "a\n---\napiVersion: rbac.authorization.k8s.io", "v1\nkind: ClusterRoleBinding\n#\x1b[2K\u202e.yaml")
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	general, err := os.ReadFile(filepath.Join(basic, "nodes", "general.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(strings.Replace(string(general), "name: general", "name: second", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, output := range []string{"yaml", "table"} {
		got := plumbline(t, "render", basic, "-o", output)
		if got.code != exitDone || strings.Contains(got.out, "\nkind: ClusterRoleBinding") || strings.ContainsAny(got.out, "\x1b\u202e") || !strings.Contains(got.out, `\nkind: ClusterRoleBinding\n#\x1b[2K\u202e.yaml`) {
			t.Errorf("%s: code %d, %s\n%s", output, got.code, got.err, got.out)
		}
	}
}

// TestValuesAreVisible: values are printed so that people see what they are, and programs decode the same value.
func TestValuesAreVisible(t *testing.T) {
	const team = "safe\u202e\u2066txt\u2069\u200b"
	basic := examples(t)["basic"]
	file := filepath.Join(basic, "nodes", "general.yaml")
	general, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(string(general), "  name: general", "  name: general\n  annotations: {example.com/team: \""+team+"\"}", 1)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, output := range []string{"yaml", "json"} {
		got := plumbline(t, "render", basic, "-o", output)
		if got.code != exitDone || strings.ContainsAny(got.out, "\u202e\u2066\u2069\u200b") {
			t.Errorf("%s: code %d, %s\n%q", output, got.code, got.err, got.out)
		}
		if !readsAs(t, got.out, team) {
			t.Errorf("%s: it reads as another value:\n%s", output, got.out)
		}
	}
	got := plumbline(t, "plan", basic, "-o", "json")
	if strings.ContainsAny(got.out+got.err, "\u202e\u2066\u2069\u200b") {
		t.Errorf("plan: %q %q", got.out, got.err)
	}
}

// readsAs reports whether a document of a text has the annotation with a value.
func readsAs(t *testing.T, text, team string) bool {
	t.Helper()
	for _, part := range strings.Split(text, "---\n") {
		var read any
		if err := yaml.Unmarshal([]byte(part), &read); err != nil {
			t.Fatalf("%v:\n%s", err, part)
		}
		list, ok := read.([]any)
		if !ok {
			list = []any{read}
		}
		for _, one := range list {
			object, _ := one.(map[string]any)
			if is, _, _ := unstructured.NestedString(object, "metadata", "annotations", "example.com/team"); is == team {
				return true
			}
		}
	}
	return false
}
