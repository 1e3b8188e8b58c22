package manifests

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// quoted is what a document names as code.
var quoted = regexp.MustCompile("`([^`]+)`")

// onePage is how many lines ARCHITECTURE.md has at the most.
const onePage = 100

// TestArchitectureNamesWhatThereIs: a file that ARCHITECTURE.md or ROOMS.md sends a reader to exists, in
// the folder that its line has named. The first is one page.
func TestArchitectureNamesWhatThereIs(t *testing.T) {
	page, err := os.ReadFile("../ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(page), "\n"); n > onePage {
		t.Errorf("ARCHITECTURE.md has %d lines, want one page: %d", n, onePage)
	}
	rooms, err := os.ReadFile("../ROOMS.md")
	if err != nil {
		t.Fatal(err)
	}
	text, files := string(page)+string(rooms), 0
	for line := range strings.Lines(text) {
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
	if files < 100 {
		t.Errorf("%d files were looked for; want those of all lines", files)
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

// alternatives writes a/{b,c}.go out.
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
