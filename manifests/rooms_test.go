package manifests

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const (
	// rootLines is how many lines the program files of reconcile's root have at most: it is the
	// order of the steps, and each subject has a room of its own.
	rootLines = 1000
	// passFields is how many fields a pass has at most: every step can reach each of them.
	passFields = 14
)

// TestTheRootIsTheOrderOfTheSteps keeps reconcile's root, and what its steps share, small.
func TestTheRootIsTheOrderOfTheSteps(t *testing.T) {
	files, err := filepath.Glob("../reconcile/*.go")
	if err != nil {
		t.Fatal(err)
	}
	lines, fields := 0, 0
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		lines += bytes.Count(text, []byte("\n"))
		parsed, err := parser.ParseFile(token.NewFileSet(), file, text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		fields += fieldsOf(parsed, "pass")
	}
	if lines > rootLines {
		t.Errorf("reconcile/*.go has %d lines, at most %d: move a subject into its room", lines, rootLines)
	}
	if fields == 0 || fields > passFields {
		t.Errorf("reconcile.pass has %d fields, at most %d: a result that one step needs is its parameter", fields, passFields)
	}
}

// fieldsOf counts the fields of a struct that a file declares; 0 where it does not.
func fieldsOf(file *ast.File, name string) int {
	count := 0
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok || spec.Name.Name != name {
			return true
		}
		if declared, ok := spec.Type.(*ast.StructType); ok {
			for _, field := range declared.Fields.List {
				count += max(1, len(field.Names))
			}
		}
		return false
	})
	return count
}
