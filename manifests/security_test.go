package manifests

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// threats returns the sections of the threat model, and for each the tests and stories that it names.
func threats(t *testing.T) (sections []string, tests map[string][]string) {
	t.Helper()
	text, err := os.ReadFile("../docs/explanation/threat-model.md")
	if err != nil {
		t.Fatal(err)
	}
	claims, table, found := strings.Cut(string(text), "\n## Tests of these claims\n")
	if !found {
		t.Fatal("the threat model names no tests")
	}
	for _, heading := range regexp.MustCompile(`(?m)^### (.+)$`).FindAllStringSubmatch(claims, -1) {
		sections = append(sections, heading[1])
	}
	tests = map[string][]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| ([^|]+?) \\| (`.+`) \\|$").FindAllStringSubmatch(table, -1) {
		for _, name := range quoted.FindAllStringSubmatch(row[2], -1) {
			tests[row[1]] = append(tests[row[1]], name[1])
		}
	}
	return sections, tests
}

// testsAndStories returns the names of all test functions and stories.
func testsAndStories(t *testing.T) map[string]bool {
	t.Helper()
	known := map[string]bool{}
	function := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case strings.HasSuffix(path, ".txtar"):
			known[strings.TrimSuffix(filepath.Base(path), ".txtar")] = true
		case strings.HasSuffix(path, "_test.go"):
			source, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for _, match := range function.FindAllStringSubmatch(string(source), -1) {
				known[match[1]] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return known
}

// TestSecurityIsTested checks that each section of the threat model names tests or stories, and that these exist.
func TestSecurityIsTested(t *testing.T) {
	sections, tests := threats(t)
	if len(sections) < 30 {
		t.Errorf("found %d sections, want those of all claims", len(sections))
	}
	known := testsAndStories(t)
	for _, section := range sections {
		if len(tests[section]) == 0 {
			t.Errorf("no test checks %q", section)
		}
	}
	for section, names := range tests {
		if !slices.Contains(sections, section) {
			t.Errorf("the threat model has tests of %q and no such section", section)
		}
		for _, name := range names {
			if !known[name] {
				t.Errorf("%s: there is no test or story %s", section, name)
			}
		}
	}
}

// TestEachAttackerHasASection checks that SECURITY.md's table and the threat model have the same attackers.
func TestEachAttackerHasASection(t *testing.T) {
	text, err := os.ReadFile("../SECURITY.md")
	if err != nil {
		t.Fatal(err)
	}
	model, err := os.ReadFile("../docs/explanation/threat-model.md")
	if err != nil {
		t.Fatal(err)
	}
	_, part, _ := strings.Cut(string(model), "\n## Who can reach what\n")
	part, _, _ = strings.Cut(part, "\n## ")
	var want, got []string
	for _, heading := range regexp.MustCompile(`(?m)^### (.+)$`).FindAllStringSubmatch(part, -1) {
		want = append(want, strings.ToLower(heading[1]))
	}
	for _, row := range regexp.MustCompile(`(?m)^\| \[\*\*(.+?)\*\*\]\(docs/explanation/threat-model\.md#`).FindAllStringSubmatch(string(text), -1) {
		got = append(got, strings.ToLower(row[1]))
	}
	if diff := cmp.Diff(want, got); diff != "" || len(got) == 0 {
		t.Errorf("attackers of the threat model and of SECURITY.md (-want +got):\n%s", diff)
	}
}
