package main

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"strings"
)

// writeSchema returns the JSON Schema of a page's root and of each type below it.
func writeSchema(p page) (string, error) {
	known, err := definitions(p.folder)
	if err != nil {
		return "", err
	}
	if known[p.root] == nil {
		return "", fmt.Errorf("%s has no type %s", p.folder, p.root)
	}
	whole := map[string]any{"$schema": "https://json-schema.org/draft/2020-12/schema", "title": p.title, "$ref": "#/$defs/" + p.root}
	types := map[string]any{}
	for name, d := range known {
		if len(d.fields) > 0 {
			types[name] = objectSchema(d)
		}
	}
	whole["$defs"] = types
	text, err := json.MarshalIndent(whole, "", "  ")
	return string(text) + "\n", err
}

func objectSchema(d *definition) map[string]any {
	properties, required := map[string]any{}, []string{}
	for _, f := range d.fields {
		property := schemaOf(f.of)
		if text := strings.Join(strings.Fields(f.text), " "); text != "" {
			property["description"] = text
		}
		properties[f.name] = property
		if f.required {
			required = append(required, f.name)
		}
	}
	return map[string]any{
		"type": "object", "description": strings.Join(strings.Fields(d.text), " "), "properties": properties, "required": required,
	}
}

// schemaOf returns that of a field's type.
func schemaOf(of ast.Expr) map[string]any {
	switch of := of.(type) {
	case *ast.StarExpr:
		return schemaOf(of.X)
	case *ast.ArrayType:
		return map[string]any{"type": "array", "items": schemaOf(of.Elt)}
	case *ast.MapType:
		return map[string]any{"type": "object", "additionalProperties": schemaOf(of.Value)}
	case *ast.Ident:
		switch of.Name {
		case "any":
			return map[string]any{}
		case "string":
			return map[string]any{"type": "string"}
		case "bool":
			return map[string]any{"type": "boolean"}
		case "int":
			return map[string]any{"type": "integer"}
		default:
			return map[string]any{"$ref": "#/$defs/" + of.Name}
		}
	}
	return map[string]any{}
}
