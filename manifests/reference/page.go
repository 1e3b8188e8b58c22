package main

import (
	"fmt"
	"go/ast"
	"strings"
)

// elsewhere describes types of other packages.
var elsewhere = map[string]string{
	"metav1.Duration": "duration, such as `1m30s`", "metav1.Time": "time", "intstr.IntOrString": "integer or percentage",
	"metav1.Condition": "[Condition](https://pkg.go.dev/k8s.io/apimachinery/pkg/apis/meta/v1#Condition)",
	"types.UID":        "string", "string": "string", "bool": "boolean", "int": "integer", "int32": "integer", "int64": "integer",
	"any": "any value",
}

// write returns the text of a page: its root and each type that is used below it, in the order of use.
func write(p page) (string, error) {
	known, err := definitions(p.folder)
	if err != nil {
		return "", err
	}
	if known[p.root] == nil {
		return "", fmt.Errorf("%s has no type %s", p.folder, p.root)
	}
	var text strings.Builder
	fmt.Fprintf(&text, "<!-- Generated from the doc comments of %s: make generate. -->\n\n# %s\n\n%s\n",
		strings.TrimLeft(p.folder, "./"), p.title, p.text)
	for queue, done := []string{p.root}, map[string]bool{p.root: true}; len(queue) > 0; queue = queue[1:] {
		d := known[queue[0]]
		fmt.Fprintf(&text, "\n## %s\n\n%s\n", d.name, strings.ReplaceAll(d.text, "<", "&lt;"))
		if len(d.fields) > 0 {
			text.WriteString("\n| field | type | meaning |\n|---|---|---|\n")
		}
		var more strings.Builder
		for _, f := range d.fields {
			if f.name == "" || f.name == "metadata" {
				continue // Kubernetes' own
			}
			of, name := typeOf(f.of, known)
			cell, rest := meaning(f, known[name])
			fmt.Fprintf(&text, "| `%s` | %s | %s |\n", f.name, of, cell)
			for _, paragraph := range rest {
				fmt.Fprintf(&more, "\n`%s`: %s\n", f.name, paragraph)
			}
			if next := known[name]; next != nil && len(next.fields) > 0 && !done[name] {
				done[name] = true
				queue = append(queue, name)
			}
		}
		text.WriteString(more.String())
	}
	return text.String(), nil
}

// typeOf describes a type, and returns the name of the type that it is made of.
func typeOf(of ast.Expr, known map[string]*definition) (words, name string) {
	switch of := of.(type) {
	case *ast.StarExpr:
		return typeOf(of.X, known)
	case *ast.ArrayType:
		words, name = typeOf(of.Elt, known)
		return "list of " + words, name
	case *ast.MapType:
		words, name = typeOf(of.Value, known)
		return "map to " + words, name
	case *ast.SelectorExpr:
		name = fmt.Sprintf("%s.%s", of.X, of.Sel)
	case *ast.Ident:
		name = of.Name
	}
	if d := known[name]; d != nil {
		if len(d.fields) > 0 {
			return fmt.Sprintf("[%s](#%s)", name, strings.ToLower(name)), name
		}
		return elsewhere[d.of], name
	}
	if elsewhere[name] == "" {
		return "`" + name + "`", name
	}
	return elsewhere[name], name
}

// meaning returns the first paragraph of a field's text for its cell, with the rules for its value, and the other
// paragraphs, which follow the table.
func meaning(f field, of *definition) (cell string, rest []string) {
	enum := list(f.markers["validation:Enum"])
	if of != nil && len(enum) == 0 {
		enum = of.enum
	}
	text := f.text
	if strings.TrimSpace(text) == "" && of != nil {
		text = of.text
	}
	escape := strings.NewReplacer("|", `\|`, "<", "&lt;")
	for i, paragraph := range strings.Split(strings.TrimSpace(text), "\n\n") {
		paragraph = escape.Replace(strings.Join(strings.Fields(paragraph), " "))
		if i == 0 {
			cell = paragraph
		} else {
			rest = append(rest, paragraph)
		}
	}
	if len(enum) > 0 {
		cell += " One of `" + strings.Join(enum, "`, `") + "`."
	}
	if value := f.markers["default"]; value != "" && value != "{}" && !strings.HasPrefix(value, `{"observed`) {
		cell += " Default: `" + strings.Trim(value, `"{}`) + "`."
	}
	if f.required {
		cell = "**Required.** " + cell
	}
	return strings.TrimSpace(cell), rest
}
