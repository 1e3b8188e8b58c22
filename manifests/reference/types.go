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

// definition is a type of a package: a struct with fields, or a word with a few values.
type definition struct {
	name, text string
	fields     []field
	// of is what a type that is no struct is made of: string.
	of string
	// enum are the values that it may have; empty: any.
	enum []string
}

// field is one of a struct, as it is written in YAML.
type field struct {
	name, text string
	of         ast.Expr
	required   bool
	// markers are those of kubebuilder, without +kubebuilder: and +.
	markers map[string]string
}

// marker is a comment for kubebuilder and no text for people.
var marker = regexp.MustCompile(`^\+(kubebuilder:)?([^=]+?)(=(.*))?$`)

// definitions reads the types of a package in a folder.
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

// constants are the values of a type's constants, in their order.
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

// fieldsOf are the fields that YAML has, in their order.
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

// split takes kubebuilder's markers out of a comment.
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

// list is what a marker lists: A;B;C.
func list(of string) []string {
	if of == "" {
		return nil
	}
	return strings.Split(of, ";")
}
