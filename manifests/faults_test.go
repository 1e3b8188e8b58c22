package manifests

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// TestErrorsAreClassifiedInOnePlace: only reconcile/fault decides class and reason of an error, with its table or with
// the function that creates the error. A literal elsewhere would decide again.
func TestErrorsAreClassifiedInOnePlace(t *testing.T) {
	const home = "../reconcile/fault"
	looked := 0
	err := filepath.WalkDir("..", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (name == filepath.FromSlash(home) || entry.Name() == "testdata" || entry.Name() == ".git"):
			return filepath.SkipDir
		case entry.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		files := token.NewFileSet()
		parsed, err := parser.ParseFile(files, name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		looked++
		for _, at := range faultLiterals(parsed) {
			t.Errorf("%s makes a fault.Error: call what it is by a function of reconcile/fault", files.Position(at))
		}
		return nil
	})
	if err != nil || looked < 100 {
		t.Fatalf("%d files looked at: %v", looked, err)
	}
}

// faultLiterals returns the places where a file creates a classified error directly.
func faultLiterals(file *ast.File) []token.Pos {
	name := ""
	for _, imported := range file.Imports {
		if imported.Path.Value == `"github.com/plumbline-dev/plumbline/reconcile/fault"` {
			if name = "fault"; imported.Name != nil {
				name = imported.Name.Name
			}
		}
	}
	if name == "" {
		return nil
	}
	var found []token.Pos
	ast.Inspect(file, func(n ast.Node) bool {
		if literal, ok := n.(*ast.CompositeLit); ok {
			found = append(found, made(literal, name)...)
		}
		if call, ok := n.(*ast.CallExpr); ok && len(call.Args) == 1 && isError(call.Args[0], name) {
			found = append(found, call.Pos()) // new(fault.Error)
		}
		return true
	})
	return found
}

// made returns the errors that a literal creates: itself, or elements without a type of their own.
func made(literal *ast.CompositeLit, pkg string) []token.Pos {
	if isError(literal.Type, pkg) {
		return []token.Pos{literal.Pos()}
	}
	list, ok := literal.Type.(*ast.ArrayType)
	if !ok {
		return nil
	}
	element := list.Elt
	if pointer, ok := element.(*ast.StarExpr); ok {
		element = pointer.X
	}
	var found []token.Pos
	for _, one := range literal.Elts {
		if inner, ok := one.(*ast.CompositeLit); ok && inner.Type == nil && isError(element, pkg) {
			found = append(found, inner.Pos())
		}
	}
	return found
}

func isError(of ast.Expr, pkg string) bool {
	selector, ok := of.(*ast.SelectorExpr)
	if !ok || selector.Sel.Name != "Error" {
		return false
	}
	from, ok := selector.X.(*ast.Ident)
	return ok && from.Name == pkg
}

// TestFaultLiteralsAreFound: each form of a literal is found.
func TestFaultLiteralsAreFound(t *testing.T) {
	const text = `package x
import f "github.com/plumbline-dev/plumbline/reconcile/fault"
var a, b, c = &f.Error{}, []*f.Error{{}}, new(f.Error)
var d = f.Held(nil)
`
	parsed, err := parser.ParseFile(token.NewFileSet(), "x.go", text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	if found := faultLiterals(parsed); len(found) != 3 {
		t.Errorf("%d places, want 3", len(found))
	}
}
