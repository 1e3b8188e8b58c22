package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAFolderAboveTheClusters: commands on a folder name the folders that it could have been.
func TestAFolderAboveTheClusters(t *testing.T) {
	root := t.TempDir()
	place := func(names ...string) {
		for _, name := range names {
			dir := filepath.Join(root, name)
			if err := os.MkdirAll(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "plumbline.yaml"), []byte(karpenterYAML), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	place("clusters/prod-eu", "clusters/stage", ".git/prod", "a/b/c/d/e/f/g/h")
	want := fmt.Sprintf("plumbline: %[1]s has no plumbline.yaml: it is in %[1]s/clusters/prod-eu, %[1]s/clusters/stage; name the folder of one cluster\n", root)
	for _, args := range [][]string{{"render"}, {"plan"}, {"diff"}, {"plan", "--against", "prod"}, {"upgrade"}, {"vendor"}} {
		if got := plumbline(t, append(args, root)...); got.code != exitFailed || got.err != want {
			t.Errorf("%v: code %d, says %q", args, got.code, got.err)
		}
	}
	place("1", "2", "3", "4", "5", "6", "7")
	if got := plumbline(t, "plan", root); strings.Count(got.err, root+"/") != 5 || !strings.Contains(got.err, "/5, …; name") {
		t.Errorf("of many folders it says %q", got.err)
	}
}
