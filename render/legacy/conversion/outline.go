package conversion

import (
	"bytes"
	"errors"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/plumbline-dev/plumbline/render/document"
)

// errForm is the error of a text whose fields cannot be told apart by their lines.
var errForm = errors.New("the form of this text is not supported")

// outline is a map of a YAML text: its fields in order, each with the lines that belong to it.
type outline struct {
	fields []*field
	// foot are comments below the last field.
	foot []string
	// step is how far its keys are indented from those of the map around it.
	step int
}

// field is one field of an outline.
type field struct {
	// head are the comments and blank lines above it.
	head []string
	key  string
	// written is the key as in the text, with its quotes.
	written string
	// node is the value.
	node *yaml.Node
	// text is what follows the key's colon: the rest of its line, and the lines below, indented from the key's column. If
	// child is set, only the first line counts.
	text []string
	// child is the value, if it is an opened map.
	child *outline
	// lines and line are the whole document's text and the index of the key's line in it; lines is nil if the field is not
	// from a text. end is the index of the line after its last one.
	lines     []string
	line, end int
	// origin is the line of the key in the document, from 1; 0 if the field is not from a text.
	origin int
}

// parseOutline returns the outline of a document, which must be a map.
func parseOutline(lines []string) (*outline, error) {
	var root yaml.Node
	if err := yaml.Unmarshal([]byte(strings.Join(lines, "\n")), &root); err != nil || len(root.Content) != 1 {
		return nil, errForm
	}
	return newOutline(lines, root.Content[0], 0, len(lines), 0)
}

// newOutline returns the outline of a map whose text is in lines[start:end].
func newOutline(lines []string, node *yaml.Node, start, end, parent int) (*outline, error) {
	if node.Kind != yaml.MappingNode || node.Anchor != "" || node.Tag != "!!map" {
		return nil, errForm
	}
	if node.Style&yaml.FlowStyle != 0 || len(node.Content) == 0 {
		return flowOutline(node)
	}
	column := node.Content[0].Column - 1
	o := &outline{step: column - parent}
	head := start
	for i := 0; i < len(node.Content); i += 2 {
		last := end
		if i+2 < len(node.Content) {
			last = node.Content[i+2].Line - 1
		}
		key := node.Content[i]
		if key.Column-1 != column || key.Line-1 < head || key.Line > last {
			return nil, errForm
		}
		f, err := readField(lines, key, node.Content[i+1], last)
		if err != nil {
			return nil, err
		}
		f.head = heads(lines[head:f.line])
		o.fields = append(o.fields, f)
		head = f.end
	}
	o.foot = heads(lines[head:end])
	return o, nil
}

// readField returns the field with a key, whose text ends before lines[last].
func readField(lines []string, key, value *yaml.Node, last int) (*field, error) {
	line, column := key.Line-1, key.Column-1
	if key.Kind != yaml.ScalarNode || key.ShortTag() != "!!str" {
		return nil, errForm
	}
	end := last
	for end > line+1 && separates(lines[end-1], column) {
		end--
	}
	written, rest, ok := cutWritten(lines[line][min(column, len(lines[line])):], key)
	if !ok {
		return nil, errForm
	}
	f := &field{
		key: key.Value, written: written, node: value, text: []string{rest}, lines: lines, line: line, end: end, origin: line + 1,
	}
	for _, below := range lines[line+1 : end] {
		f.text = append(f.text, dedent(below, column))
	}
	return f, nil
}

// flowOutline is the outline of a map in braces, or of an empty one: its fields are written on lines of their own.
func flowOutline(node *yaml.Node) (*outline, error) {
	o := &outline{step: 2}
	for i := 0; i+1 < len(node.Content); i += 2 {
		if node.Content[i].Kind != yaml.ScalarNode {
			return nil, errForm
		}
		o.fields = append(o.fields, newField(node.Content[i].Value, node.Content[i+1]))
	}
	return o, nil
}

// newField returns a field with a value that is not from a text.
func newField(key string, value *yaml.Node) *field {
	f := &field{key: key}
	f.set(value)
	return f
}

// set replaces the value of a field. The comment at the end of its line stays.
func (f *field) set(value *yaml.Node) {
	comment := f.comment()
	bare := *value
	bare.HeadComment, bare.LineComment, bare.FootComment = "", "", ""
	f.node, f.child, f.lines = &bare, nil, nil
	key := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: f.key}
	lines := encode(&yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Content: []*yaml.Node{key, &bare}})
	written, rest, ok := cutWritten(lines[0], encodedKey(lines[0], f.key))
	if !ok { // the encoder writes keys on one line
		written, rest = f.key, strings.TrimPrefix(lines[0], f.key+":")
	}
	f.written, f.text = written, append([]string{rest}, lines[1:]...)
	if comment != "" {
		f.text[0] += " " + comment
	}
}

// encodedKey returns a key in the style in which the encoder has written it.
func encodedKey(line, key string) *yaml.Node {
	node := &yaml.Node{Kind: yaml.ScalarNode, Value: key}
	switch {
	case strings.HasPrefix(line, `"`):
		node.Style = yaml.DoubleQuotedStyle
	case strings.HasPrefix(line, "'"):
		node.Style = yaml.SingleQuotedStyle
	}
	return node
}

// comment returns the comment at the end of the field's first line; empty if there is none.
func (f *field) comment() string {
	if f.node == nil || len(f.text) == 0 {
		return ""
	}
	first := strings.TrimSpace(f.text[0])
	if strings.HasPrefix(first, "#") {
		return first
	}
	if comment := f.node.LineComment; comment != "" && strings.HasSuffix(first, comment) {
		return comment
	}
	return ""
}

// encode returns a node as lines of YAML.
func encode(node *yaml.Node) []string {
	out := &bytes.Buffer{}
	encoder := yaml.NewEncoder(out)
	encoder.SetIndent(2)
	_ = encoder.Encode(node) // it fails only if the writer does
	return strings.Split(strings.TrimRight(out.String(), "\n"), "\n")
}

// cutWritten splits the line of a field into its key as it is written, and what follows the colon.
func cutWritten(line string, key *yaml.Node) (written, rest string, ok bool) {
	written = key.Value
	for _, quoted := range []struct {
		style yaml.Style
		quote string
	}{{yaml.DoubleQuotedStyle, `"`}, {yaml.SingleQuotedStyle, "'"}} {
		if key.Style&quoted.style != 0 {
			written = quoted.quote + key.Value + quoted.quote
		}
	}
	after, ok := strings.CutPrefix(line, written)
	if !ok {
		return "", "", false
	}
	rest, ok = strings.CutPrefix(strings.TrimLeft(after, " "), ":")
	return written, rest, ok
}

// separates reports whether a line below a value does not belong to it: it is blank, or a comment that is not indented
// further than the key in this column.
func separates(line string, column int) bool {
	trimmed := strings.TrimLeft(line, " ")
	return strings.TrimSpace(trimmed) == "" && len(line) <= column || strings.HasPrefix(trimmed, "#") && len(line)-len(trimmed) <= column
}

// heads returns comments and blank lines without their indentation.
func heads(lines []string) []string {
	var all []string
	for _, line := range lines {
		all = append(all, strings.TrimSpace(line))
	}
	return all
}

// dedent removes up to so many spaces.
func dedent(line string, spaces int) string {
	indentation := len(line) - len(strings.TrimLeft(line, " "))
	return line[min(indentation, spaces):]
}

// print appends the outline's lines.
func (o *outline) print(lines []string, indent int) []string {
	prefix := strings.Repeat(" ", indent)
	add := func(line string) {
		if line != "" {
			line = prefix + line
		}
		lines = append(lines, line)
	}
	for _, f := range o.fields {
		for _, line := range f.head {
			add(line)
		}
		if f.child != nil && len(f.child.fields) == 0 {
			add(f.written + ": {}" + f.text[0])
			continue
		}
		add(f.written + ":" + f.text[0])
		if f.child != nil {
			lines = f.child.print(lines, indent+f.child.step)
			continue
		}
		for _, line := range f.text[1:] {
			add(line)
		}
	}
	for _, line := range o.foot {
		add(line)
	}
	return lines
}

// value returns what the printed outline must be read as.
func (o *outline) value() (map[string]any, error) {
	values := map[string]any{}
	for _, f := range o.fields {
		value, err := f.value()
		if err != nil {
			return nil, err
		}
		if value != nil {
			values[f.key] = value
		}
	}
	return values, nil
}

func (f *field) value() (any, error) {
	if f.child != nil {
		return f.child.value()
	}
	return document.Value(f.node)
}

// get returns a field; nil if it does not exist or is null.
func (o *outline) get(key string) *field {
	if o == nil {
		return nil
	}
	i := slices.IndexFunc(o.fields, func(f *field) bool { return f.key == key })
	if i < 0 || isNull(o.fields[i].node) && o.fields[i].child == nil {
		return nil
	}
	return o.fields[i]
}

func isNull(node *yaml.Node) bool {
	return node != nil && node.Kind == yaml.ScalarNode && node.ShortTag() == "!!null"
}

// remove removes fields and returns those that existed.
func (o *outline) remove(is func(*field) bool) (removed []*field) {
	var left []*field
	for _, f := range o.fields {
		if is(f) {
			removed = append(removed, f)
		} else {
			left = append(left, f)
		}
	}
	o.fields = left
	return removed
}

// drop removes one field.
func (o *outline) drop(f *field) { o.remove(func(one *field) bool { return one == f }) }

// open returns the outline of a field that is a map.
func (f *field) open() (*outline, error) {
	if f.child != nil {
		return f.child, nil
	}
	child, err := f.outline()
	if err != nil {
		return nil, err
	}
	rest := ""
	if comment := f.comment(); comment != "" {
		rest = " " + comment
	}
	f.text, f.child = []string{rest}, child
	return child, nil
}

func (f *field) outline() (*outline, error) {
	if f.node.Kind != yaml.MappingNode {
		return nil, errForm
	}
	if f.lines == nil || f.node.Style&yaml.FlowStyle != 0 || len(f.node.Content) == 0 {
		return flowOutline(f.node)
	}
	if first := strings.TrimSpace(f.text[0]); first != "" && !strings.HasPrefix(first, "#") {
		return nil, errForm
	}
	line := f.lines[f.line]
	return newOutline(f.lines, f.node, f.line+1, f.end, len(line)-len(strings.TrimLeft(line, " ")))
}

// put appends a field below a path of maps, which are added as needed. The last name of the path is the field's new key.
func (o *outline) put(f *field, path ...string) {
	for _, key := range path[:len(path)-1] {
		if o.get(key) == nil { // blank lines go above the map that is added
			blank := 0
			for blank < len(f.head) && f.head[blank] == "" {
				blank++
			}
			added := &field{key: key, written: key, text: []string{""}, head: f.head[:blank], child: &outline{step: 2}}
			o.add(added)
			f.head = f.head[blank:]
		}
		o = o.mapAt(key)
	}
	f.rename(path[len(path)-1])
	o.fields = append(o.fields, f)
}

// add appends a map; metadata comes first.
func (o *outline) add(f *field) {
	o.remove(func(one *field) bool { return one.key == f.key })
	if f.key == "metadata" {
		f.head = nil
		o.fields = append([]*field{f}, o.fields...)
		return
	}
	o.fields = append(o.fields, f)
}

// mapAt returns the map in a field, which it adds if necessary.
func (o *outline) mapAt(key string) *outline {
	in := o.get(key)
	if in == nil {
		in = &field{key: key, written: key, text: []string{""}, child: &outline{step: 2}}
		o.add(in)
	}
	child, err := in.open()
	if err != nil { // it is no map: the result is refused when it is read again
		child = &outline{step: 2}
		in.text, in.child = []string{""}, child
	}
	return child
}

func (f *field) rename(key string) {
	if f.key != key {
		f.key, f.written = key, key
	}
}

// items changes a field that is a list: it keeps the items for which keep is true, and appends others.
func (f *field) items(keep func(*yaml.Node) bool, more []*yaml.Node) {
	var kept []*yaml.Node
	for _, item := range f.node.Content {
		if keep(item) {
			kept = append(kept, item)
		}
	}
	changed := *f.node
	changed.Content = append(slices.Clone(kept), more...)
	if len(kept) < len(f.node.Content) || len(kept) == 0 || f.lines == nil || f.node.Style&yaml.FlowStyle != 0 {
		f.set(&changed)
		return
	}
	last := kept[len(kept)-1]
	for _, item := range more {
		item.Style |= last.Style & yaml.FlowStyle
	}
	first := f.text[kept[0].Line-1-f.line]
	dash := strings.Repeat(" ", len(first)-len(strings.TrimLeft(first, " ")))
	for _, line := range encode(&yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Content: more}) {
		f.text = append(f.text, dash+line)
	}
	f.node = &changed
}
