package render

import "testing"

// TestNamesOfDefinitions: a file that is renamed to .YAML still counts as a definition.
func TestNamesOfDefinitions(t *testing.T) {
	for name, want := range map[string]bool{"a.yaml": true, "a.YAML": true, "a.Yml": true, "a.json": true, "a.yaml.bak": false, "README.md": false} {
		if got := isDefinition(name); got != want {
			t.Errorf("%s: %t, want %t", name, got, want)
		}
	}
}
