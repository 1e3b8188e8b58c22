package main

import (
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
)

// definition is a type of a package: a struct with fields, or a type with a few values.
type definition struct {
	name, text string
	fields     []field
	// of is the underlying type, string, of a type that is not a struct.
	of string
	// enum are its allowed values; if empty, any.
	enum []string
}

// field is a field of a struct, as it is written in YAML.
type field struct {
	name, text string
	of         ast.Expr
	required   bool
	// markers are those of kubebuilder, without +kubebuilder: and +.
	markers map[string]string
}

// marker matches a comment for kubebuilder, which is not for people.
var marker = regexp.MustCompile(`^\+(kubebuilder:)?([^=]+?)(=(.*))?$`)

// definitions returns the types of a package in a folder.
func definitions(folder string) (map[string]*definition, error) {
	names, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		return nil, err
	}
	files, set := []*ast.File{}, token.NewFileSet()
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") || strings.HasPrefix(filepath.Base(name), "zz_") {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		file, err := parser.ParseFile(set, name, text, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	pkg, err := doc.NewFromFiles(set, files, folder)
	if err != nil {
		return nil, fmt.Errorf("read the types in %s: %w", folder, err)
	}
	found := map[string]*definition{}
	for _, t := range pkg.Types {
		text, markers := split(t.Doc)
		d := &definition{name: t.Name, text: text, enum: list(markers["validation:Enum"])}
		switch of := t.Decl.Specs[0].(*ast.TypeSpec).Type.(type) {
		case *ast.StructType:
			d.fields = fieldsOf(of)
		case *ast.Ident:
			d.of = of.Name
			if len(d.enum) == 0 {
				d.enum = constants(t)
			}
		}
		found[t.Name] = d
	}
	return found, nil
}

// constants returns the values of a type's constants, in order.
func constants(t *doc.Type) (values []string) {
	for _, group := range t.Consts {
		for _, spec := range group.Decl.Specs {
			for _, value := range spec.(*ast.ValueSpec).Values {
				if literal, ok := value.(*ast.BasicLit); ok {
					values = append(values, strings.Trim(literal.Value, `"`))
				}
			}
		}
	}
	return values
}

// fieldsOf returns the fields that YAML has, in order.
func fieldsOf(of *ast.StructType) (fields []field) {
	for _, f := range of.Fields.List {
		if f.Tag == nil || len(f.Names) == 0 && !strings.Contains(f.Tag.Value, "inline") {
			continue
		}
		name, options, _ := strings.Cut(reflect.StructTag(strings.Trim(f.Tag.Value, "`")).Get("json"), ",")
		if name == "-" {
			continue
		}
		text, markers := split(f.Doc.Text())
		_, optional := markers["optional"]
		fields = append(fields, field{name: name, text: text, of: f.Type, markers: markers, required: !optional && !strings.Contains(options, "omit")})
	}
	return fields
}

// split separates kubebuilder's markers from a comment.
func split(comment string) (text string, markers map[string]string) {
	markers = map[string]string{}
	var kept []string
	for _, line := range strings.Split(comment, "\n") {
		if m := marker.FindStringSubmatch(strings.TrimSpace(line)); m != nil {
			markers[m[2]] = m[4]
			continue
		}
		kept = append(kept, line)
	}
	return strings.TrimSpace(strings.Join(kept, "\n")), markers
}

// list splits the list of a marker: A;B;C.
func list(of string) []string {
	if of == "" {
		return nil
	}
	return strings.Split(of, ";")
}
