package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestNamesOfFilesAreNoOutput: a pull request may name a file so that its name reads as
// another object, or commands the terminal.
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
