package display

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"golang.org/x/term"

	"github.com/plumbline-dev/plumbline/redact"
)

// Visible escapes the characters that a terminal would interpret instead of showing.
type Visible struct{ io.Writer }

// Write requires whole characters: callers pass one line or one table at a time.
func (w *Visible) Write(text []byte) (int, error) {
	if _, err := io.WriteString(w.Writer, redact.Visible(string(text))); err != nil {
		return 0, err
	}
	return len(text), nil
}

// trimmed removes trailing blanks from lines. Callers pass whole lines.
type trimmed struct{ io.Writer }

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

// NewTable returns a table that looks like kubectl's: no borders, three blanks between columns. On a terminal, rows are
// cut at its width; in a pipe, they are not cut.
func NewTable(out io.Writer, header ...any) table.Writer {
	return NewTableOf(out, Width(out), header...)
}

// Width returns the width of a terminal; 0 for any other writer.
func Width(out io.Writer) int {
	if visible, ok := out.(*Visible); ok {
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

// NewTableOf returns a table like NewTable's for a given width; 0 cuts no row.
func NewTableOf(out io.Writer, width int, header ...any) table.Writer {
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

// Painter colours a word on a terminal.
type Painter func(word string, colour text.Color) string

// Plain colours nothing.
func Plain(word string, _ text.Color) string { return word }

// Paint returns a Painter that colours words if out is a terminal that supports colours (https://no-color.org).
func Paint(out io.Writer) Painter {
	if Width(out) == 0 || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return Plain
	}
	return func(word string, colour text.Color) string {
		if colour == text.Reset {
			return word
		}
		return text.Colors{colour}.Sprint(word)
	}
}

// Painted returns the writer for coloured words: unlike Visible, it does not escape colour codes.
func Painted(out io.Writer) io.Writer {
	if visible, ok := out.(*Visible); ok {
		return visible.Writer
	}
	return out
}

// shortest is the number of characters to which a column is cut before another column is dropped.
const shortest = 20

// narrowed is a table that fits a terminal: it drops columns, then cuts one. In a pipe it prints all of them.
type narrowed struct {
	table.Writer

	out    io.Writer
	width  int
	header table.Row
	rows   []table.Row
	// cut is the column to cut; drop contains the columns to drop, the least important first.
	cut  int
	drop []int
}

// NewNarrowedTable returns a table that fits a terminal: cut and drop are the numbers of the columns that it may cut or
// drop.
func NewNarrowedTable(out io.Writer, cut int, drop []int, header ...any) table.Writer {
	return &narrowed{Writer: NewTableOf(out, 0, header...), out: out, width: Width(out), header: header, cut: cut, drop: drop}
}

// AppendRow adds a row.
func (t *narrowed) AppendRow(row table.Row, configs ...table.RowConfig) {
	t.rows = append(t.rows, row)
	t.Writer.AppendRow(row, configs...)
}

// Render prints the table.
func (t *narrowed) Render() string {
	if t.width == 0 {
		return t.Writer.Render()
	}
	used := t.used()
	shown, left := t.fit(used)
	narrow := NewTableOf(t.out, 0, pick(t.header, shown)...)
	switch at := slices.Index(shown, t.cut); {
	case left < len(t.nameOf(t.cut)):
		narrow = NewTableOf(t.out, t.width, pick(t.header, shown)...) // rows are cut
	case left < used[t.cut]:
		narrow.SetColumnConfigs([]table.ColumnConfig{{Number: at + 1, WidthMax: left, WidthMaxEnforcer: snip}})
	}
	for _, row := range t.rows {
		narrow.AppendRow(pick(row, shown))
	}
	return narrow.Render()
}

func (t *narrowed) nameOf(column int) string { return fmt.Sprint(t.header[column]) }

// used returns the widths of the columns.
func (t *narrowed) used() []int {
	used := make([]int, len(t.header))
	for _, row := range append([]table.Row{t.header}, t.rows...) {
		for i, cell := range row {
			used[i] = max(used[i], text.StringWidthWithoutEscSequences(fmt.Sprint(cell)))
		}
	}
	return used
}

// fit returns the columns that fit, and the width that is left for the one to cut.
func (t *narrowed) fit(used []int) (shown []int, left int) {
	for i := range used {
		shown = append(shown, i)
	}
	room := func() int {
		left := t.width + Between // the last column has none behind it
		for _, i := range shown {
			if left -= Between; i != t.cut {
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

func snip(cell string, width int) string { return text.Snip(cell, width, "…") }

const (
	// Between is the number of blanks between columns.
	Between = 3
	// minWidth is the minimum width for wrapping the last column in place.
	minWidth = 20
)

// fitted is a table that cuts nothing: it wraps the last column at the terminal's width, or prints it below its row if
// too little width is left.
type fitted struct {
	table.Writer

	out    io.Writer
	width  int
	header []any
	rows   []table.Row
	// used contains the widths of the columns.
	used []int
}

// NewFittedTable returns a table whose last column contains sentences.
func NewFittedTable(out io.Writer, header ...any) table.Writer {
	return newFittedTableOf(out, Width(out), header...)
}

func newFittedTableOf(out io.Writer, width int, header ...any) table.Writer {
	t := &fitted{Writer: NewTableOf(out, 0, header...), out: out, width: width, header: header}
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

// Render prints the table.
func (t *fitted) Render() string {
	last := len(t.used) - 1
	left := t.width - Between*len(t.used)
	for _, used := range t.used[:last] {
		left -= used
	}
	if t.width > 0 && left < minWidth {
		return t.renderBelow()
	}
	if left >= minWidth {
		t.SetColumnConfigs([]table.ColumnConfig{{Number: last + 1, WidthMax: left, WidthMaxEnforcer: text.WrapSoft}})
	}
	return t.Writer.Render()
}

// renderBelow prints the last column of each row below the others. Each cell has a single line.
func (t *fitted) renderBelow() string {
	last := len(t.used) - 1
	narrow := NewTableOf(io.Discard, 0, t.header[:last]...)
	for _, row := range t.rows {
		narrow.AppendRow(row[:last])
	}
	var all strings.Builder
	for i, line := range strings.Split(narrow.Render(), "\n") {
		fmt.Fprintln(&all, line)
		if i == 0 || t.rows[i-1][last] == "" {
			continue
		}
		for _, part := range strings.Split(text.WrapSoft(fmt.Sprint(t.rows[i-1][last]), max(t.width-2, minWidth)), "\n") {
			fmt.Fprintln(&all, "  "+part)
		}
	}
	fmt.Fprint(trimmed{t.out}, all.String())
	return all.String()
}
