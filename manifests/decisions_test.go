package manifests

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestDecisionsAreIndexed: each entry of DECISIONS.md has its line in the index, at a
// folder that there is: its day, and how its title begins.
func TestDecisionsAreIndexed(t *testing.T) {
	text, err := os.ReadFile("../DECISIONS.md")
	if err != nil {
		t.Fatal(err)
	}
	index, entries, found := strings.Cut(string(text), "\n## The decisions\n")
	if !found {
		t.Fatal("DECISIONS.md has no section of decisions")
	}
	var titles []string
	for _, match := range regexp.MustCompile(`(?ms)^\*\*20\d\d-(\d\d-\d\d) · (.*?)\*\*`).FindAllStringSubmatch(entries, -1) {
		titles = append(titles, match[1]+" "+strings.Join(strings.Fields(match[2]), " "))
	}
	lines := map[string]int{}
	for _, match := range regexp.MustCompile("(?m)^- `([^`]+)`$").FindAllStringSubmatch(index, -1) {
		if _, err := os.Stat("../" + match[1]); err != nil {
			t.Errorf("the index has a folder that is not there: %v", err)
		}
	}
	for _, match := range regexp.MustCompile(`(?m)^  - (\d\d-\d\d .+)$`).FindAllStringSubmatch(index, -1) {
		lines[match[1]] = 0
	}
	for _, title := range titles {
		indexed := false
		for line := range lines {
			if strings.HasPrefix(title, line) {
				lines[line]++
				indexed = true
			}
		}
		if !indexed {
			t.Errorf("not in the index of DECISIONS.md: add a line `  - %s` to its package", title)
		}
	}
	for line, entries := range lines {
		if entries != 1 {
			t.Errorf("the index's line %q begins the titles of %d entries, want 1", line, entries)
		}
	}
	if len(titles) < 100 {
		t.Errorf("%d decisions", len(titles))
	}
}

// TestOvertakenDecisionsNameWhatCameLater: an entry that another has overtaken names one that comes after it.
func TestOvertakenDecisionsNameWhatCameLater(t *testing.T) {
	text, err := os.ReadFile("../DECISIONS.md")
	if err != nil {
		t.Fatal(err)
	}
	_, entries, _ := strings.Cut(string(text), "\n## The decisions\n")
	marks := regexp.MustCompile(`Overtaken(?: in part)? by "([^"]+)"`).FindAllStringSubmatchIndex(entries, -1)
	for _, mark := range marks {
		if title := entries[mark[2]:mark[3]]; !strings.Contains(entries[mark[1]:], " · "+title+".**") {
			t.Errorf("no later entry has the title %q", title)
		}
	}
	if len(marks) < 3 {
		t.Errorf("%d entries are marked as overtaken", len(marks))
	}
}
