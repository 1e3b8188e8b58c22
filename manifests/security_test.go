package manifests

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestSecurityIsTested: the tests and stories that SECURITY.md names exist.
func TestSecurityIsTested(t *testing.T) {
	text, err := os.ReadFile("../SECURITY.md")
	if err != nil {
		t.Fatal(err)
	}
	promises, table, found := strings.Cut(string(text), "## What checks that")
	if !found {
		t.Fatal("SECURITY.md does not say what holds its claims")
	}
	known := map[string]bool{}
	function := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	err = filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
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
	rows, claims := 0, ""
	for _, line := range strings.Split(table, "\n") {
		columns := strings.Split(line, "|")
		if len(columns) < 4 || strings.HasPrefix(strings.TrimSpace(columns[1]), "-") || strings.TrimSpace(columns[1]) == "claim" {
			continue
		}
		rows++
		claims += "\n" + strings.TrimSpace(columns[1]) + "\n"
		names := regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(columns[2], -1)
		if len(names) == 0 {
			t.Errorf("nothing checks that %s", columns[1])
		}
		for _, name := range names {
			if !known[name[1]] {
				t.Errorf("%s: there is no test or story %s", strings.TrimSpace(columns[1]), name[1])
			}
		}
	}
	if rows < 10 {
		t.Errorf("%d claims", rows)
	}
	reach := regexp.MustCompile(`(?m)^\| \*\*(.+?)\*\*`).FindAllStringSubmatch(promises, -1)
	if len(reach) == 0 {
		t.Error("SECURITY.md does not say who reaches what")
	}
	for _, who := range reach {
		if !strings.Contains(claims, "\nWho reaches what: "+who[1]+"\n") {
			t.Errorf("nothing checks what is said of %s", who[1])
		}
	}
	for _, paragraph := range regexp.MustCompile(`(?m)^- \*\*(.+?)\.?\*\*`).FindAllStringSubmatch(promises, -1) {
		if !strings.Contains(claims, "\n"+paragraph[1]+"\n") && !strings.Contains(claims, "\n"+paragraph[1]+": ") {
			t.Errorf("nothing checks what is said of %q", paragraph[1])
		}
	}
}
