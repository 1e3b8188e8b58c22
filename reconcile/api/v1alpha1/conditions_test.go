package v1alpha1_test

import (
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestReasonsOfEventsAreConstants shows that this package declares the reason of each event, for those who filter by
// it.
func TestReasonsOfEventsAreConstants(t *testing.T) {
	literal := regexp.MustCompile(`\.(Event|Warn)\("|\.Wrote\([^,"]+, "`)
	files := 0
	err := fs.WalkDir(os.DirFS("../.."), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		files++
		text, err := os.ReadFile("../../" + path)
		for line := range strings.Lines(string(text)) {
			if literal.MatchString(line) {
				t.Errorf("reconcile/%s: %s", path, strings.TrimSpace(line))
			}
		}
		return err
	})
	if err != nil || files < 100 {
		t.Errorf("read %d files: %v", files, err)
	}
}
