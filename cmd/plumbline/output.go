package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"
	"golang.org/x/term"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/printers"
	"sigs.k8s.io/yaml"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/redact"
)

// format is the value of -o.
type format string

// The formats of -o.
const (
	formatTable format = "table"
	formatJSON  format = "json"
	formatYAML  format = "yaml"
	// formatMarkdown is for comments on pull requests, where a command has it.
	formatMarkdown format = "markdown"
)

// formatFlag is -o, which takes one of some formats.
type formatFlag struct {
	format *format
	of     []string
}

// String, Set and Type make it a flag.
func (f formatFlag) String() string {
	if f.format == nil {
		return "" // pflag makes one to look at its default
	}
	return string(*f.format)
}

// Set takes one of the formats' names.
func (f formatFlag) Set(value string) error {
	if !slices.Contains(f.of, value) {
		return fmt.Errorf("%q is none of %s", value, strings.Join(f.of, ", "))
	}
	*f.format = format(value)
	return nil
}

// Type names the values in help texts.
func (f formatFlag) Type() string { return strings.Join(f.of, "|") }

// addOutput gives a command the flag -o, with the formats that it has beside those of all.
func addOutput(cmd *cobra.Command, more ...format) *format {
	f := formatTable
	of := []string{string(formatTable), string(formatJSON), string(formatYAML)}
	for _, one := range more {
		of = append(of, string(one))
	}
	cmd.Flags().VarP(formatFlag{&f, of}, "output", "o", "how to print")
	// The flag exists: it was added in the line before.
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(of, cobra.ShellCompDirectiveNoFileComp))
	return &f
}

// write prints a value as -o says; people prints it as a table.
func (f format) write(out io.Writer, value any, people func(io.Writer) error) error {
	switch f {
	case formatJSON:
		return writeJSON(out, value, redact.VisibleJSON)
	case formatYAML:
		return writeYAML(out, value)
	default:
	}
	return people(&visibleWriter{out})
}

// writeJSON prints a value as JSON that shows what it has, and reads as the same.
func writeJSON(out io.Writer, value any, visible func(string) string) error {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(value); err != nil {
		return err
	}
	_, err := io.WriteString(out, visible(text.String()))
	return err
}

// writeYAML prints a value as YAML; in JSON's form, which is YAML too, where characters have to
// be written out.
func writeYAML(out io.Writer, value any) error {
	raw, err := yaml.Marshal(value)
	if err != nil || !redact.IsVisible(string(raw)) { // a reader of YAML takes no control characters
		return writeJSON(out, value, redact.VisibleFlow)
	}
	_, err = out.Write(raw)
	return err
}

// visibleWriter writes out what a terminal would not show.
type visibleWriter struct{ io.Writer }

// Write takes whole characters: it is given one line or one table at a time.
func (w *visibleWriter) Write(text []byte) (int, error) {
	if _, err := io.WriteString(w.Writer, redact.Visible(string(text))); err != nil {
		return 0, err
	}
	return len(text), nil
}

// trimmed leaves out the blanks at the ends of lines. It is given whole lines.
type trimmed struct{ io.Writer }

// Write takes whole lines.
func (w trimmed) Write(text []byte) (int, error) {
	lines := strings.Split(string(text), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	if _, err := io.WriteString(w.Writer, strings.Join(lines, "\n")); err != nil {
		return 0, err
	}
	return len(text), nil
}

// newTable is a table in kubectl's looks: no lines, three blanks between columns.
// On a terminal a row is cut where the terminal ends; in a pipe it never is.
func newTable(out io.Writer, header ...any) table.Writer {
	return newTableOf(out, widthOf(out), header...)
}

// widthOf is the width of a terminal; 0 for everything else.
func widthOf(out io.Writer) int {
	if visible, ok := out.(*visibleWriter); ok {
		out = visible.Writer
	}
	file, ok := out.(interface{ Fd() uintptr })
	if !ok {
		return 0
	}
	width, _, err := term.GetSize(int(file.Fd()))
	if err != nil {
		return 0
	}
	return width
}

func newTableOf(out io.Writer, width int, header ...any) table.Writer {
	t := table.NewWriter()
	t.SetOutputMirror(trimmed{out})
	style := table.StyleDefault
	style.Options = table.OptionsNoBordersAndSeparators
	style.Box.PaddingLeft, style.Box.PaddingRight = "", "   "
	style.Box.UnfinishedRow = "…"
	style.Size.WidthMax = width
	t.SetStyle(style)
	t.AppendHeader(header)
	return t
}

// The formats of -o that only objects of a cluster have.
const (
	formatWide = "wide"
	formatName = "name"
)

// objectOutput is -o for objects of a cluster: as kubectl has it.
type objectOutput struct {
	format   string
	template *genericclioptions.KubeTemplatePrintFlags
}

// addObjectOutput gives a command the flags -o and --template.
func addObjectOutput(cmd *cobra.Command) *objectOutput {
	o := &objectOutput{template: genericclioptions.NewKubeTemplatePrintFlags()}
	o.template.AddFlags(cmd)
	cmd.Flags().StringVarP(&o.format, "output", "o", string(formatTable), "how to print: "+strings.Join(o.formats(), "|"))
	// The flag exists: it was added in the line before.
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(o.formats(), cobra.ShellCompDirectiveNoFileComp))
	return o
}

// formats are all that -o takes.
func (o *objectOutput) formats() []string {
	own := []string{string(formatTable), formatWide, formatName, string(formatJSON), string(formatYAML)}
	return append(own, slices.Sorted(slices.Values(o.template.AllowedFormats()))...)
}

// check says what is wrong with -o before anything is asked.
func (o *objectOutput) check() error {
	if o.human() || slices.Contains([]string{formatName, string(formatJSON), string(formatYAML)}, o.format) {
		return nil
	}
	_, err := o.byTemplate()
	return err
}

// human reports whether it is a table.
func (o *objectOutput) human() bool { return o.format == string(formatTable) || o.wide() }

func (o *objectOutput) wide() bool { return o.format == formatWide }

func (o *objectOutput) byTemplate() (printers.ResourcePrinter, error) {
	printer, err := o.template.ToPrinter(o.format)
	if genericclioptions.IsNoCompatiblePrinterError(err) {
		return nil, fmt.Errorf("%q is none of %s", o.format, strings.Join(o.formats(), ", "))
	}
	return printer, err
}

// write prints NodeSyncs as -o says: a list, or the one object that was named.
func (o *objectOutput) write(out io.Writer, list *v1alpha1.NodeSyncList, single bool, people func(io.Writer) error) error {
	var value runtime.Object = list
	if single && len(list.Items) == 1 {
		value = &list.Items[0]
	}
	switch {
	case o.human():
		return people(&visibleWriter{out})
	case o.format == formatName:
		for i := range list.Items {
			fmt.Fprintf(out, "nodesync.%s/%s\n", v1alpha1.GroupVersion.Group, list.Items[i].Name)
		}
		return nil
	case o.format == string(formatJSON), o.format == string(formatYAML):
		return format(o.format).write(out, value, nil)
	}
	printer, err := o.byTemplate()
	if err != nil {
		return err
	}
	var text bytes.Buffer
	if err := printer.PrintObj(value, &text); err != nil {
		return err
	}
	_, err = io.WriteString(out, redact.Visible(text.String()))
	return err
}

// shortest is to how many characters a column is cut before another one is left out.
const shortest = 20

// narrowed is a table that fits a terminal: columns are left out, and then one is cut. In a pipe it has all.
type narrowed struct {
	table.Writer

	out    io.Writer
	width  int
	header table.Row
	rows   []table.Row
	// cut is the column that is cut, and drop are those that are left out, the least important first.
	cut  int
	drop []int
}

// newNarrowedTable is a table one of whose columns may be cut, and others left out, each by its number.
func newNarrowedTable(out io.Writer, cut int, drop []int, header ...any) table.Writer {
	return &narrowed{Writer: newTableOf(out, 0, header...), out: out, width: widthOf(out), header: header, cut: cut, drop: drop}
}

// AppendRow adds a row.
func (t *narrowed) AppendRow(row table.Row, configs ...table.RowConfig) {
	t.rows = append(t.rows, row)
	t.Writer.AppendRow(row, configs...)
}

// Render prints it.
func (t *narrowed) Render() string {
	if t.width == 0 {
		return t.Writer.Render()
	}
	used := t.used()
	shown, left := t.fit(used)
	narrow := newTableOf(t.out, 0, pick(t.header, shown)...)
	switch at := slices.Index(shown, t.cut); {
	case left < len(t.nameOf(t.cut)):
		narrow = newTableOf(t.out, t.width, pick(t.header, shown)...) // rows are cut
	case left < used[t.cut]:
		narrow.SetColumnConfigs([]table.ColumnConfig{{Number: at + 1, WidthMax: left, WidthMaxEnforcer: snip}})
	}
	for _, row := range t.rows {
		narrow.AppendRow(pick(row, shown))
	}
	return narrow.Render()
}

func (t *narrowed) nameOf(column int) string { return fmt.Sprint(t.header[column]) }

// used are the widths of the columns.
func (t *narrowed) used() []int {
	used := make([]int, len(t.header))
	for _, row := range append([]table.Row{t.header}, t.rows...) {
		for i, cell := range row {
			used[i] = max(used[i], text.StringWidthWithoutEscSequences(fmt.Sprint(cell)))
		}
	}
	return used
}

// fit are the columns for which there is room, and how much is left for the one that is cut.
func (t *narrowed) fit(used []int) (shown []int, left int) {
	for i := range used {
		shown = append(shown, i)
	}
	room := func() int {
		left := t.width + between // none is behind the last one
		for _, i := range shown {
			if left -= between; i != t.cut {
				left -= used[i]
			}
		}
		return left
	}
	for _, i := range t.drop {
		if room() >= min(used[t.cut], shortest) {
			break
		}
		shown = slices.DeleteFunc(shown, func(one int) bool { return one == i })
	}
	return shown, room()
}

func pick(row table.Row, columns []int) table.Row {
	picked := make(table.Row, 0, len(columns))
	for _, i := range columns {
		picked = append(picked, row[i])
	}
	return picked
}

// snip cuts a text.
func snip(cell string, width int) string { return text.Snip(cell, width, "…") }

const (
	// between is how many blanks are between columns.
	between = 3
	// leastWidth is how wide a last column has to be to be wrapped in its place.
	leastWidth = 20
)

// fitted is a table whose last column is wrapped where the terminal ends, or stands below its row
// where little is left for it: nothing of it is cut off.
type fitted struct {
	table.Writer

	out    io.Writer
	width  int
	header []any
	rows   []table.Row
	// used are the widths of the columns.
	used []int
}

// newFittedTable is a table whose last column has sentences.
func newFittedTable(out io.Writer, header ...any) table.Writer {
	return newFittedTableOf(out, widthOf(out), header...)
}

func newFittedTableOf(out io.Writer, width int, header ...any) table.Writer {
	t := &fitted{Writer: newTableOf(out, 0, header...), out: out, width: width, header: header}
	t.measure(header)
	return t
}

// AppendRow adds a row.
func (t *fitted) AppendRow(row table.Row, configs ...table.RowConfig) {
	t.measure(row)
	t.rows = append(t.rows, row)
	t.Writer.AppendRow(row, configs...)
}

func (t *fitted) measure(row table.Row) {
	for i, cell := range row {
		if i == len(t.used) {
			t.used = append(t.used, 0)
		}
		t.used[i] = max(t.used[i], text.StringWidthWithoutEscSequences(fmt.Sprint(cell)))
	}
}

// Render prints it.
func (t *fitted) Render() string {
	last := len(t.used) - 1
	left := t.width - between*len(t.used)
	for _, used := range t.used[:last] {
		left -= used
	}
	if t.width > 0 && left < leastWidth {
		return t.renderBelow()
	}
	if left >= leastWidth {
		t.SetColumnConfigs([]table.ColumnConfig{{Number: last + 1, WidthMax: left, WidthMaxEnforcer: text.WrapSoft}})
	}
	return t.Writer.Render()
}

// renderBelow prints the last column of each row below the others. No cell has more than one line.
func (t *fitted) renderBelow() string {
	last := len(t.used) - 1
	narrow := newTableOf(io.Discard, 0, t.header[:last]...)
	for _, row := range t.rows {
		narrow.AppendRow(row[:last])
	}
	var all strings.Builder
	for i, line := range strings.Split(narrow.Render(), "\n") {
		fmt.Fprintln(&all, line)
		if i == 0 || t.rows[i-1][last] == "" {
			continue
		}
		for _, part := range strings.Split(text.WrapSoft(fmt.Sprint(t.rows[i-1][last]), max(t.width-2, leastWidth)), "\n") {
			fmt.Fprintln(&all, "  "+part)
		}
	}
	fmt.Fprint(trimmed{t.out}, all.String())
	return all.String()
}
