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

// eachGoFile reads all Go files of the repository.
func eachGoFile(t *testing.T, read func(path string, text []byte)) {
	t.Helper()
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
		if err == nil {
			looked++
			read(path, text)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if looked < 1000 {
		t.Errorf("%d files were looked at", looked)
	}
}

// cited matches a document of the repository in a comment: those in capitals are at the root or in manifests.
var (
	comment = regexp.MustCompile(`(?m)^\s*//.*$`)
	cited   = regexp.MustCompile(`[ "(]((?:manifests/)?[A-Z]{4,}\.md)\b`)
)

// TestCommentsCiteDocumentsThatAreThere: documents that comments cite exist.
func TestCommentsCiteDocumentsThatAreThere(t *testing.T) {
	cites := 0
	eachGoFile(t, func(path string, text []byte) {
		for _, found := range cited.FindAllSubmatch(bytes.Join(comment.FindAll(text, -1), []byte("\n")), -1) {
			cites++
			_, atRoot := os.Stat("../" + string(found[1]))
			if _, here := os.Stat(string(found[1])); atRoot != nil && here != nil {
				t.Errorf("%s cites %s, which is not there", path, found[1])
			}
		}
	})
	if cites < 10 {
		t.Errorf("%d documents are cited", cites)
	}
}
