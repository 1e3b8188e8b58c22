package conversion

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/plumbline-dev/plumbline/render/document"
	"github.com/plumbline-dev/plumbline/render/legacy"
)

// File is a file to convert.
type File struct {
	// Name is its path with slashes.
	Name string
	Data []byte
}

// The kinds of documents that concern a conversion.
const (
	provisioner  = "karpenter.sh/v1alpha5 Provisioner"
	nodeTemplate = "karpenter.k8s.aws/v1alpha1 AWSNodeTemplate"
	betaPool     = "karpenter.sh/v1beta1 NodePool"
	betaClass    = "karpenter.k8s.aws/v1beta1 EC2NodeClass"
	pool         = "karpenter.sh/v1 NodePool"
	class        = "karpenter.k8s.aws/v1 EC2NodeClass"
)

// earlier matches the API versions of Karpenter before v1.
var earlier = regexp.MustCompile(`karpenter\.sh/v1alpha5|karpenter\.sh/v1beta1|karpenter\.k8s\.aws/v1alpha1|karpenter\.k8s\.aws/v1beta1`)

// Concerns reports whether a text mentions an API version of Karpenter before v1. It stops reading at the first one.
func Concerns(text io.RuneReader) bool { return earlier.MatchReader(text) }

// mark is the byte order mark with which some editors start a file.
var mark = []byte("\ufeff")

// chunk is one document of a file.
type chunk struct {
	// separator is the text before it, and raw its own, as in the file.
	separator, raw []byte
	// lines are its text without line breaks; first is the index of the first one in the file.
	lines []string
	first int
	crlf  bool
	// rewritten means that lines are not those of the file.
	rewritten bool

	file  *source
	value map[string]any
	// kind is one of the constants; empty for all other documents.
	kind, apiVersion, name string

	// outline is set for a document that changes; more are documents that are added behind it.
	outline *outline
	more    []*outline
	object  *Object
	// kubelet, ref and provider are fields that are taken out of a pool: its kubelet settings, the name of its class, and
	// the class that is written into it.
	kubelet, ref *field
	provider     *outline
}

// source is a file with its documents.
type source struct {
	File
	mark   bool
	chunks []*chunk
}

func (s *source) isJSON() bool { return path.Ext(s.Name) == ".json" }

// boundary matches the line between two documents.
var boundary = regexp.MustCompile(`^(---|\.\.\.)(\s|$)`)

// read splits a file into documents. Errors: *document.Error, document.Repeated.
func read(file File) (*source, error) {
	s := &source{File: file}
	data, marked := bytes.CutPrefix(file.Data, mark)
	s.mark = marked
	if s.isJSON() {
		if _, err := document.ParseJSON(data); err != nil {
			return nil, err
		}
		data = bytes.ReplaceAll(data, []byte("\t"), []byte(" "))
	} else if _, err := document.Parse(data); err != nil {
		return nil, err
	}
	at := &chunk{file: s}
	first := 0
	for line := range bytes.Lines(data) {
		first++
		if !boundary.Match(line) {
			at.raw = append(at.raw, line...)
			continue
		}
		s.chunks = append(s.chunks, at)
		rest := bytes.TrimSpace(line[3:])
		at = &chunk{file: s, separator: bytes.Clone(line), first: first}
		if len(rest) > 0 && rest[0] != '#' { // the document begins on this line
			at.raw, at.first = bytes.TrimLeft(line[3:], " \t"), first-1
			at.separator = line[:len(line)-len(at.raw)]
		}
	}
	s.chunks = append(s.chunks, at)
	return s, s.identify()
}

// identify reads what the documents are. Lists of objects become one document for each.
func (s *source) identify() error {
	var all []*chunk
	for _, c := range s.chunks {
		items, err := c.load()
		if err != nil {
			return err
		}
		all = append(all, items...)
	}
	s.chunks = all
	return nil
}

// load parses a document, and splits a list.
func (c *chunk) load() ([]*chunk, error) {
	c.crlf = bytes.Contains(c.raw, []byte("\r\n"))
	c.lines = strings.Split(strings.TrimSuffix(strings.ReplaceAll(string(c.raw), "\r\n", "\n"), "\n"), "\n")
	documents, _ := document.Parse(c.raw) // the whole file has been parsed without an error
	if len(documents) != 1 {
		return []*chunk{c}, nil // directives, or an empty document
	}
	value, _ := documents[0].Value.(map[string]any)
	items, isList := value["items"].([]any)
	kind, _ := value["kind"].(string)
	if isList && strings.HasSuffix(kind, "List") && earlier.Match(c.raw) {
		return c.split(len(items))
	}
	c.value = value
	c.identify()
	if c.object != nil && (hasAlias(c.lines) || c.file.isJSON()) {
		return []*chunk{c}, c.reencode()
	}
	return []*chunk{c}, nil
}

// identify sets the kind of a document.
func (c *chunk) identify() {
	c.apiVersion, _ = c.value["apiVersion"].(string)
	kind, _ := c.value["kind"].(string)
	metadata, _ := c.value["metadata"].(map[string]any)
	c.name, _ = metadata["name"].(string)
	switch named := c.apiVersion + " " + kind; named {
	case provisioner, nodeTemplate, betaPool, betaClass:
		c.kind = named
		c.object = &Object{APIVersion: c.apiVersion, Kind: kind, Name: c.name, Line: c.lineOf(0)}
	case pool, class:
		c.kind = named
	}
}

// lineOf returns the line in the file of a line of the document, from 1. 0 is its first line with content.
func (c *chunk) lineOf(line int) int {
	if line > 0 && !c.rewritten {
		return c.first + line
	}
	for i, text := range c.lines {
		if trimmed := strings.TrimSpace(text); trimmed != "" && trimmed[0] != '#' {
			return c.first + i + 1
		}
	}
	return c.first + 1
}

// split returns the items of a list as documents of their own.
func (c *chunk) split(count int) ([]*chunk, error) {
	root, err := c.root()
	if err != nil {
		return nil, err
	}
	var list *yaml.Node
	for i := 0; i+1 < len(root.Content); i += 2 {
		if root.Content[i].Value == "items" {
			list = root.Content[i+1]
		}
	}
	if list == nil || len(list.Content) != count {
		return nil, &document.Error{Line: c.lineOf(0), Message: "the items of this list are not written as a list"}
	}
	all := make([]*chunk, 0, count)
	for i, item := range list.Content {
		one := &chunk{file: c.file, separator: []byte("---\n"), first: c.first + item.Line - 1, crlf: c.crlf, rewritten: true}
		if i == 0 {
			one.separator = c.separator
		}
		one.lines = encode(block(item))
		one.raw = []byte(strings.Join(one.lines, "\n") + "\n")
		if one.value, err = valueOf(item); err != nil {
			return nil, err
		}
		one.identify()
		all = append(all, one)
	}
	return all, nil
}

func valueOf(node *yaml.Node) (map[string]any, error) {
	value, err := document.Value(node)
	fields, _ := value.(map[string]any)
	return fields, err
}

// root returns the node of the document, with aliases written out.
func (c *chunk) root() (*yaml.Node, error) {
	var root yaml.Node
	if err := yaml.Unmarshal([]byte(strings.Join(c.lines, "\n")), &root); err != nil || len(root.Content) != 1 {
		return nil, &document.Error{Line: c.lineOf(0), Message: "the form of this document is not supported: write it as a plain map"}
	}
	return expand(root.Content[0]), nil
}

// reencode writes the document again, without aliases and braces: its fields are then on lines of their own.
func (c *chunk) reencode() error {
	root, err := c.root()
	if err != nil {
		return err
	}
	c.lines, c.rewritten = encode(block(root)), true
	return nil
}

// hasAlias reports whether a text may contain an anchor, an alias or a merge key.
func hasAlias(lines []string) bool {
	var root yaml.Node
	if err := yaml.Unmarshal([]byte(strings.Join(lines, "\n")), &root); err != nil {
		return true
	}
	var has func(*yaml.Node) bool
	has = func(node *yaml.Node) bool {
		found := node.Anchor != "" || node.Kind == yaml.AliasNode
		for _, one := range node.Content {
			found = found || has(one)
		}
		return found
	}
	return has(&root)
}

// expand returns a copy of a node in which aliases and merge keys are written out. The document was parsed before by
// package document, which limits how large that may become.
func expand(node *yaml.Node) *yaml.Node {
	if node.Kind == yaml.AliasNode {
		return expand(node.Alias)
	}
	made := *node
	made.Anchor, made.Content = "", nil
	if node.Kind != yaml.MappingNode {
		for _, item := range node.Content {
			made.Content = append(made.Content, expand(item))
		}
		return &made
	}
	has := map[string]bool{}
	add := func(key, value *yaml.Node) {
		if !has[key.Value] {
			has[key.Value] = true
			made.Content = append(made.Content, key, value)
		}
	}
	var merged []*yaml.Node
	for i := 0; i+1 < len(node.Content); i += 2 {
		if node.Content[i].ShortTag() == "!!merge" {
			merged = append(merged, expand(node.Content[i+1]))
			continue
		}
		add(node.Content[i], expand(node.Content[i+1]))
	}
	for len(merged) > 0 {
		from := merged[0]
		merged = merged[1:]
		if from.Kind == yaml.SequenceNode {
			merged = append(from.Content, merged...)
			continue
		}
		for i := 0; i+1 < len(from.Content); i += 2 {
			add(from.Content[i], from.Content[i+1])
		}
	}
	return &made
}

// block returns a map without braces around it and around the maps in it; lists keep their style.
func block(node *yaml.Node) *yaml.Node {
	if node.Kind != yaml.MappingNode {
		return node
	}
	made := *node
	made.Style &^= yaml.FlowStyle
	made.Content = nil
	for i := 0; i+1 < len(node.Content); i += 2 {
		key := *node.Content[i]
		key.Style = 0
		made.Content = append(made.Content, &key, block(node.Content[i+1]))
	}
	return &made
}

// text returns the new text of a file.
func (s *source) text() ([]byte, error) {
	out := &bytes.Buffer{}
	if s.mark {
		out.Write(mark)
	}
	for _, c := range s.chunks {
		if c.outline == nil {
			out.Write(c.separator)
			out.Write(c.raw)
			continue
		}
		if len(c.separator) > 0 && !bytes.HasSuffix(c.separator, []byte("\n")) {
			c.separator = []byte("---" + c.newline())
		}
		out.Write(c.separator)
		for i, o := range append([]*outline{c.outline}, c.more...) {
			text, err := c.print(o)
			if err != nil {
				return nil, err
			}
			if i > 0 {
				out.WriteString("---" + c.newline())
			}
			out.Write(text)
		}
	}
	return out.Bytes(), nil
}

func (c *chunk) newline() string {
	if c.crlf {
		return "\r\n"
	}
	return "\n"
}

// print returns the text of an outline, after it has been read again with the same values.
func (c *chunk) print(o *outline) ([]byte, error) {
	value, err := o.value()
	if err != nil {
		return nil, err
	}
	if c.file.isJSON() {
		out := &bytes.Buffer{}
		encoder := json.NewEncoder(out)
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", "  ")
		err := encoder.Encode(value)
		return out.Bytes(), err
	}
	text := []byte(strings.Join(o.print(nil, 0), "\n") + "\n")
	documents, err := document.Parse(text)
	if err != nil || len(documents) != 1 || !same(documents[0].Value, value) {
		return nil, errForm
	}
	if c.crlf {
		text = bytes.ReplaceAll(text, []byte("\n"), []byte("\r\n"))
	}
	return text, nil
}

// unreadable describes the error of a file that cannot be parsed.
func unreadable(file File, err error) Left {
	if isTemplate(file.Data) {
		return template(file)
	}
	left := Left{File: file.Name, What: "file", Why: err.Error(), Blocks: true}
	var at *document.Error
	if errors.As(err, &at) {
		left.Line, left.Why = at.Line, at.Message
	}
	return left
}

// template describes a Helm template.
func template(file File) Left {
	return Left{
		File: file.Name, What: "Helm template",
		Why: "convert what `helm template` prints, or change the template by hand: " + hints(file.Data),
	}
}

// hints names what replaced the kinds in a text.
func hints(data []byte) string {
	var all []string
	for _, gvk := range legacy.Kinds() {
		version := regexp.QuoteMeta(gvk.GroupVersion().String())
		if regexp.MustCompile(`apiVersion:\s*["']?` + version + `\b[^#]*?kind:\s*["']?` + gvk.Kind + `\b`).Match(data) {
			now, _ := legacy.SuccessorOf(gvk)
			all = append(all, fmt.Sprintf("%s became %s %s (%s)", gvk.Kind, now.APIVersion, now.Kind, now.Hint))
		}
	}
	if len(all) == 0 {
		all = []string{"its apiVersion is one of before v1"}
	}
	return strings.Join(all, "; ")
}

// isTemplate reports whether a text that is not YAML looks like a Helm template.
func isTemplate(data []byte) bool { return bytes.Contains(data, []byte("{{")) }

// gvkOf returns the kind of an object.
func gvkOf(object map[string]any) schema.GroupVersionKind {
	apiVersion, _ := object["apiVersion"].(string)
	kind, _ := object["kind"].(string)
	return schema.FromAPIVersionAndKind(apiVersion, kind)
}
