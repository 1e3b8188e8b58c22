package manifests

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// longestFile is how many lines a Go file may have: more are about more than one thing.
const longestFile = 300

// generated marks a file that no person writes (https://go.dev/s/generatedcode).
var generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

// TestFilesAreShort: tests included, and what is generated left out.
func TestFilesAreShort(t *testing.T) {
	looked := 0
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != ".." && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "bin"):
			return fs.SkipDir
		case entry.IsDir(), !strings.HasSuffix(path, ".go"):
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		looked++
		if lines := bytes.Count(text, []byte("\n")); lines > longestFile && !generated.Match(text) {
			t.Errorf("%s has %d lines, and %d at most are read as one: split it by subject", path, lines, longestFile)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if looked < 1000 {
		t.Errorf("%d files were looked at", looked)
	}
}
