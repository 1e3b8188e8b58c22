package manifests

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// words are those that no user of Flux or kubectl would expect in a message, with alternatives.
var words = []struct {
	not, but string
}{
	{`(un)?foretold|foretell(s|ing)?`, "expected, unexpected, forecast"},
	{`tak(e|es|en|ing) over|took over`, "adopt, adopted, existing; compromised, of a host"},
	{`anew|made again`, "recreated, reinstalled, again"},
	{`brought`, "installed, added"},
	{`puts? right|putting right`, "corrected, reverted"},
	{`(is|are|was|were) told`, "reported, logged, redacted"},
	{`(is|are|be|was|were|been) (said|heard)`, "reported, printed, in the message; handled"},
	{`heed(s|ed|ing)?`, "used, handled"},
	{`(not|nowhere|cannot|can) (to )?be had`, "unavailable"},
	{`alone`, "only"},
	{`whoever|somebody|someone`, "the user, another controller, another tool, another client: name it"},
	{`lets? go|letting go`, "released, orphaned"},
	{`says? (whether|that)`, "reports whether, reports that; is true if"},
	{`(empty|nil|zero) where`, "empty if, nil if, zero if"},
	{`under way`, "in progress"},
}

// exceptions are the few places in which a word is right, with the reason.
var exceptions = []struct {
	file, text, reason string
}{
	{"manifests/SPEC.md", "`status.karpenter.nodeDrift.foretold`", "the table of what was renamed"},
	{"manifests/SPEC.md", "`status.karpenter.target.foretold`", "the table of what was renamed"},
}

// odd finds the words of the table in a text: each with its offset, and the alternatives.
func odd(text string) map[int]string {
	found := map[int]string{}
	for _, w := range words {
		pattern := regexp.MustCompile(`(?i)\b(` + strings.ReplaceAll(w.not, " ", `\s+`) + `)\b`)
		for _, at := range pattern.FindAllStringIndex(text, -1) {
			found[at[0]] = fmt.Sprintf("%q: say %s", text[at[0]:at[1]], w.but)
		}
	}
	return found
}

// excepted masks the exceptions of a file in a text, and records which were found.
func excepted(file, text string, used map[string]bool) string {
	for _, e := range exceptions {
		if e.file == file && strings.Contains(text, e.text) {
			used[e.file+e.text] = true
			text = strings.ReplaceAll(text, e.text, strings.Repeat("-", len(e.text)))
		}
	}
	return text
}

// TestPlainWords: neither the text that a user reads (strings of the program and the benchmark, and documents) nor the
// comments contain any of the words above.
func TestPlainWords(t *testing.T) {
	used := map[string]bool{}
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		if entry.IsDir() {
			ofTests := filepath.Base(filepath.Dir(path)) == "tests" && name != "bench"
			if path != ".." && (strings.HasPrefix(name, ".") || ofTests || name == "testdata" || name == "bin") {
				return fs.SkipDir
			}
			return nil
		}
		file := filepath.ToSlash(strings.TrimPrefix(path, ".."+string(filepath.Separator)))
		switch {
		case strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go"):
			return texts(path, func(text string, line int) {
				for _, say := range odd(excepted(file, text, used)) {
					t.Errorf("%s:%d: %s", file, line, say)
				}
			})
		case strings.HasSuffix(name, ".md"), strings.HasPrefix(file, "manifests/crd/"):
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for at, say := range odd(excepted(file, string(text), used)) {
				t.Errorf("%s:%d: %s", file, 1+strings.Count(string(text[:at]), "\n"), say)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range exceptions {
		if !used[e.file+e.text] {
			t.Errorf("%s has %q no longer (%s): take the exception out", e.file, e.text, e.reason)
		}
	}
}

// texts calls each with every string and every comment of a Go file, and its line.
func texts(path string, each func(text string, line int)) error {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution|parser.ParseComments)
	if err != nil {
		return err
	}
	for _, comment := range file.Comments {
		each(comment.Text(), files.Position(comment.Pos()).Line)
	}
	ast.Inspect(file, func(node ast.Node) bool {
		if literal, ok := node.(*ast.BasicLit); ok && literal.Kind == token.STRING {
			each(literal.Value, files.Position(literal.Pos()).Line)
		}
		return true
	})
	return nil
}

// TestOddWordsAreFound: they are found across lines as well, and not within other words.
func TestOddWordsAreFound(t *testing.T) {
	for text, want := range map[string]map[int]string{
		"adopted existing Helm release karpenter (revision 3)": {},
		"standalone":          {},
		"It is taken\nover.":  {6: "\"taken\\nover\": say adopt, adopted, existing; compromised, of a host"},
		"Somebody":            {0: `"Somebody": say the user, another controller, another tool, another client: name it`},
		"was not foretold":    {8: `"foretold": say expected, unexpected, forecast`},
		"the error\n is said": {11: "\"is said\": say reported, printed, in the message; handled"},
		"CRDs cannot be had":  {5: `"cannot be had": say unavailable`},
	} {
		if diff := cmp.Diff(want, odd(text)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
}
