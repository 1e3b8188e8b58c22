package manifests

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// quoted matches code in a document.
var quoted = regexp.MustCompile("`([^`]+)`")

// TestArchitectureNamesWhatThereIs checks that each file to which ARCHITECTURE.md sends a reader exists in a folder that its
// line names.
func TestArchitectureNamesWhatThereIs(t *testing.T) {
	page, err := os.ReadFile("../ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	files := 0
	for line := range strings.Lines(string(page)) {
		folders := []string{""}
		for _, match := range quoted.FindAllStringSubmatch(line, -1) {
			for _, name := range alternatives(match[1]) {
				if info, err := os.Stat(filepath.Join("..", name)); err == nil {
					if !info.IsDir() {
						name = filepath.Dir(name)
						files++
					}
					folders = append(folders, name)
					continue
				}
				if strings.ContainsAny(name, " *<") || filepath.Ext(name) != ".go" {
					continue
				}
				files++
				if !within(folders, name) {
					t.Errorf("there is no %s in the folders of this line: %s", name, strings.TrimSpace(line))
				}
			}
		}
	}
	if files < 30 {
		t.Errorf("%d files were found in ARCHITECTURE.md, want those of all lines", files)
	}
}

func within(folders []string, name string) bool {
	for _, folder := range folders {
		if _, err := os.Stat(filepath.Join("..", folder, name)); err == nil {
			return true
		}
	}
	return false
}

// alternatives expands a/{b,c}.go.
func alternatives(name string) []string {
	before, rest, found := strings.Cut(name, "{")
	among, after, closed := strings.Cut(rest, "}")
	if !found || !closed {
		return []string{name}
	}
	var all []string
	for one := range strings.SplitSeq(among, ",") {
		all = append(all, before+one+after)
	}
	return all
}
