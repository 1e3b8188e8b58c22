package manifests

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestEachFieldIsInTheSpec checks that SPEC.md explains each field of a NodeSync's spec, two levels deep. Types and
// defaults are in the generated reference.
func TestEachFieldIsInTheSpec(t *testing.T) {
	text, err := os.ReadFile("SPEC.md")
	if err != nil {
		t.Fatal(err)
	}
	missing, looked := unexplained(t, string(text))
	if looked < 50 {
		t.Errorf("looked for %d fields, want those of the CRD", looked)
	}
	for _, path := range missing {
		t.Errorf("SPEC.md does not explain %s", path)
	}
	if missing, _ := unexplained(t, strings.ReplaceAll(string(text), "stallAfter", "")); !slices.Equal(missing, []string{"spec.removal.stallAfter"}) {
		t.Errorf("without stallAfter %v is missing", missing)
	}
}

// unexplained returns the fields of a NodeSync's spec that a text does not contain as code, neither with their path nor
// by themselves, and the number of fields.
func unexplained(t *testing.T, text string) (missing []string, looked int) {
	t.Helper()
	crd := nodeSyncCRD(t)
	named := func(path, field string) {
		looked++
		if !regexp.MustCompile("`[^`]*" + regexp.QuoteMeta(path) + "\\b|`" + field + "\\b|" + field + ":").MatchString(text) {
			missing = append(missing, path)
		}
	}
	for field, of := range crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties {
		named("spec."+field, field)
		if of.Items != nil {
			of = *of.Items.Schema
		}
		for below := range of.Properties {
			named("spec."+field+"."+below, below)
		}
	}
	slices.Sort(missing)
	return missing, looked
}

// longestCell is how many characters a cell of a table may have. A longer text belongs in a section.
const longestCell = 300

// TestCellsAreShort checks the tables of the documents that people write.
func TestCellsAreShort(t *testing.T) {
	for file := range documents(t) {
		if strings.HasPrefix(file, "docs/reference/nodesync") || strings.HasPrefix(file, "docs/reference/pl") || file == "ARCHITECTURE.md" {
			continue // generated from comments, or a map of the code
		}
		text, err := os.ReadFile("../" + file)
		if err != nil {
			t.Fatal(err)
		}
		prose, _, _ := strings.Cut(string(text), "\n## Tests of these claims\n")
		for at, cell := range longCells(prose) {
			t.Errorf("%s:%d: a cell of %d characters: make it a section: %.60s…", file, at, utf8.RuneCountInString(cell), cell)
		}
	}
}

// longCells returns the cells that are too long, by line. Link targets do not count.
func longCells(text string) map[int]string {
	found := map[int]string{}
	link := regexp.MustCompile(`\]\([^)]*\)`)
	for i, line := range strings.Split(text, "\n") {
		if !strings.HasPrefix(line, "|") {
			continue
		}
		for cell := range strings.SplitSeq(link.ReplaceAllString(line, "]"), "|") {
			if utf8.RuneCountInString(cell) > longestCell {
				found[i+1] = cell
			}
		}
	}
	return found
}

func TestLongCellsAreFound(t *testing.T) {
	long := strings.Repeat("x", longestCell+1)
	found := longCells("| a | b |\n| " + strings.Repeat("y", longestCell-2) + " | [b](" + long + ") |\n| a | " + long + " |\n" + long)
	if len(found) != 1 || found[3] == "" {
		t.Errorf("found %v", found)
	}
}
