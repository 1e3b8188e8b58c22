package render

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/plumbline-dev/plumbline/redact"
	"github.com/plumbline-dev/plumbline/render/document"
	"github.com/plumbline-dev/plumbline/render/kustomize"
)

// placeholder matches what other tools replace in a template, and plumbline does not: <<NAME>>, <NAME>, {{ name }},
// $NAME, $(NAME), <%= name %>, #{NAME}# and the %{ directive } of Terraform.
var placeholder = regexp.MustCompile(`<<\s*([A-Za-z_][A-Za-z0-9_]*)\s*>>|<([A-Z][A-Z0-9_]*)>|\{\{\s*\.?([A-Za-z_][A-Za-z0-9_.]*)\s*\}\}` +
	`|\$([A-Za-z_][A-Za-z0-9_]*)|\$\(([A-Za-z_][A-Za-z0-9_]*)\)|<%[=-]?\s*([^%>]*?)\s*-?%>|#\{\s*([^{}]*?)\s*\}#|%\{\s*([^{}]*?)\s*\}`)

// warnOfPlaceholders names the first placeholder of a definition that nothing replaces, and the first escape in a
// script that reaches the node unchanged. Scripts are not searched for placeholders, because the same text is valid
// shell.
func warnOfPlaceholders(kind Kind, object Object) string {
	if object.Desired.GetAnnotations()[SubstituteAnnotation] == "disabled" {
		return "" // the author disabled substitution
	}
	return sentences(warnOfPlaceholder(kind, object), warnOfEscapes(kind, object))
}

func warnOfPlaceholder(kind Kind, object Object) string {
	if !anyText(object.Desired.Object, mayHavePlaceholder) {
		return ""
	}
	at, found := findPlaceholder(kind, nil, object.Desired.Object)
	if found == nil {
		return ""
	}
	name := ""
	for _, one := range found[1:] {
		name += one
	}
	if !variableName.MatchString(name) {
		name = "NAME"
	}
	return fmt.Sprintf("%s: %s contains the placeholder %s, which is not replaced: write ${%s}; unless it is CLUSTER_NAME or REGION, add its value under substitute in %s", object.Ref, at, found[0], name, FileName)
}

// escape matches how Flux and Terraform preserve a ${NAME}.
var escape = regexp.MustCompile(`\$\$\{([A-Za-z_][A-Za-z0-9_]*)[^}]*\}`)

// warnOfEscapes names the first escape of an unknown name in a script. Substitution does not change it, and bash reads
// $$ as its process ID.
func warnOfEscapes(kind Kind, object Object) string {
	for _, path := range kind.Scripts {
		text, _, _ := unstructured.NestedString(object.Desired.Object, strings.Split(path, ".")...)
		if at := escape.FindStringIndex(text); at != nil {
			found := text[at[0]:at[1]]
			return fmt.Sprintf("%s: line %d of %s has %s, where bash reads $$ as its process ID: write %s; unknown names stay as they are in %[3]s, without the escape of Flux and Terraform",
				object.Ref, 1+strings.Count(text[:at[0]], "\n"), path, found, found[1:])
		}
	}
	return ""
}

func mayHavePlaceholder(text string) bool { return strings.ContainsAny(text, "<{$") }

func findPlaceholder(kind Kind, at *field.Path, value any) (*field.Path, []string) {
	switch v := value.(type) {
	case string:
		if mayHavePlaceholder(v) && !slices.Contains(kind.Scripts, at.String()) {
			return at, placeholder.FindStringSubmatch(v)
		}
	case []any:
		for i, item := range v {
			if place, found := findPlaceholder(kind, at.Index(i), item); found != nil {
				return place, found
			}
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			place := field.NewPath(key)
			if at != nil {
				place = at.Child(key)
			}
			for _, one := range []any{key, v[key]} {
				if place, found := findPlaceholder(kind, place, one); found != nil {
					return place, found
				}
			}
		}
	}
	return nil, nil
}

const (
	// maxUnread limits how many skipped files a walk opens, and unreadBytes how much it reads of each.
	maxUnread   = 100
	unreadBytes = 256 << 10
	// hiddenDepth is how many levels below a hidden folder are searched.
	hiddenDepth = 3
)

// definitionIn matches a node definition in a text.
var definitionIn = regexp.MustCompile(`(?m)^(?:- )? *apiVersion:\s*["']?karpenter\.(?:sh|k8s\.aws)/`)

// unread warns of a definition in a skipped file: one whose name has another extension, such as class.yaml.tpl, or in
// hidden files and folders. What it reads is not an input, because it does not change the Set.
func (w *walk) unread(name string, entry fs.DirEntry, depth int) {
	switch hidden := strings.HasPrefix(path.Base(name), "."); {
	case !hidden && !entry.IsDir() && !isDefinition(name) && hasOtherExtension(name):
		w.checkSkipped(name, "its name does not end in .yaml, .yml or .json")
	case hidden && entry.IsDir():
		w.hidden(name, depth)
	case hidden && isDefinition(name):
		w.checkSkipped(name, "its name begins with a dot")
	}
}

// hidden searches a folder whose name starts with a dot, and those below it.
func (w *walk) hidden(folder string, depth int) {
	if depth >= hiddenDepth || w.looked >= maxUnread {
		return
	}
	entries, err := fs.ReadDir(w.snap.FS, folder)
	if err != nil {
		return // a folder that cannot be read is no error here
	}
	for _, entry := range entries {
		name := path.Join(folder, entry.Name())
		switch {
		case entry.IsDir():
			w.hidden(name, depth+1)
		case isDefinition(name):
			w.checkSkipped(name, "it is in a folder whose name begins with a dot")
		}
	}
}

// hasOtherExtension reports whether a name has the extension of a definition before another one.
func hasOtherExtension(name string) bool {
	return isDefinition(strings.TrimSuffix(name, path.Ext(name)))
}

// checkSkipped warns of a skipped file that contains a definition.
func (w *walk) checkSkipped(name, why string) {
	if w.looked++; w.looked > maxUnread {
		return
	}
	file, err := w.snap.FS.Open(name)
	if err != nil {
		return // a file that cannot be read is no error here
	}
	defer func() { _ = file.Close() }() // only read
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return
	}
	text, err := io.ReadAll(io.LimitReader(file, unreadBytes))
	if err != nil || !definitionIn.Match(text) {
		return
	}
	w.warnings = append(w.warnings, fmt.Sprintf("%s has definitions of nodes and is not read: %s", redact.VisibleName(name), why))
}

// A definition that is missing from Git counts as a removal, and a removal terminates nodes. A file that lost its text
// by accident must not look like one that a person has removed.

// isEmptied reports whether a file has no text at all, as after a bad merge or on a full disk.
func isEmptied(data []byte) bool {
	return len(bytes.TrimSpace(bytes.TrimPrefix(data, []byte("\ufeff")))) == 0
}

func emptied(name string) Error {
	return Error{
		File:    name,
		Message: "the file is empty, and its definitions would be removed with their nodes: restore its text, or delete the file to remove them",
	}
}

// refuseEmpty refuses documents that are null, and lists without items: a failed template or export leaves these.
func refuseEmpty(name string, documents []document.Document) Errors {
	var errs Errors
	for _, doc := range documents {
		object, _ := doc.Value.(map[string]any)
		kind, _ := object["kind"].(string)
		items, isList := doc.Items()
		what := ""
		switch {
		case doc.Value == nil:
			what = "the document is null"
		case strings.HasSuffix(kind, "List") && isList && len(items) == 0:
			what = "the " + kind + " has no items"
		default:
			continue
		}
		errs = append(errs, Error{File: name, Line: doc.Line, Message: what + ", and what it defined would be removed with its nodes: restore its text, or delete the document or the file to remove it"})
	}
	return errs
}

// isNull reports whether a file contains only null.
func isNull(name string, data []byte) bool {
	documents, err := parse(name, data)
	return err == nil && len(documents) > 0 && !slices.ContainsFunc(documents, func(d document.Document) bool { return d.Value != nil })
}

// withoutDefinition warns of a file that contains only comments.
func withoutDefinition(name string) string {
	return redact.VisibleName(name) + ": the file has no definition, only comments or empty documents: what was defined there counts as removed; delete the file if that is meant"
}

// withoutObject warns of a kustomization that builds no object.
func withoutObject(name string) string {
	return redact.VisibleName(name) + ": the kustomization renders no object: what it had counts as removed; remove its folder if that is intended"
}

// isLocal reports whether kustomize would leave an object out.
func isLocal(d draft) bool {
	object, _ := d.value.(map[string]any)
	value, found, err := unstructured.NestedFieldNoCopy(object, "metadata", "annotations", kustomize.LocalAnnotation)
	return err == nil && found && value != "false"
}

// refuseLocal refuses the definitions that kustomize would leave out. Objects of other kinds serve a build (for example
// as the source of a replacement), and are not plumbline's.
func refuseLocal(drafts []draft) Errors {
	var errs Errors
	for _, d := range drafts {
		if !isLocal(d) {
			continue
		}
		object, _ := d.value.(map[string]any)
		apiVersion, _ := object["apiVersion"].(string)
		kind, _ := object["kind"].(string)
		if _, refusal := classify(apiVersion, kind); refusal != "" {
			continue
		}
		name, _, _ := unstructured.NestedString(object, "metadata", "name")
		errs = append(errs, Error{
			File: d.origin.File, Line: d.lineOf("metadata.annotations"),
			Message: fmt.Sprintf("%s/%s has the annotation %s, by which kustomize leaves it out, and its nodes would be drained: remove the annotation to keep it, or delete the definition from Git to remove it", kind, name, kustomize.LocalAnnotation),
		})
	}
	return errs
}

// onlyComments reports whether a YAML file contains only comments and separators.
func onlyComments(data []byte) bool {
	for line := range bytes.Lines(data) {
		line = bytes.TrimSpace(line)
		if len(line) > 0 && line[0] != '#' && !bytes.Equal(line, []byte("---")) {
			return false
		}
	}
	return true
}
