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

// Visible writes out what a terminal would not show.
type Visible struct{ io.Writer }

// Write takes whole characters: it is given one line or one table at a time.
func (w *Visible) Write(text []byte) (int, error) {
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

// NewTable is a table in kubectl's looks: no lines, three blanks between columns.
// On a terminal a row is cut where the terminal ends; in a pipe it never is.
func NewTable(out io.Writer, header ...any) table.Writer {
	return NewTableOf(out, Width(out), header...)
}

// Width is the width of a terminal; 0 for everything else.
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

// NewTableOf is NewTable of a width; 0 cuts no row.
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

// Paint colours words where they go to a terminal that takes colours (https://no-color.org).
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

// Painted is where coloured words go: what else is written to it was made visible before.
func Painted(out io.Writer) io.Writer {
	if visible, ok := out.(*Visible); ok {
		return visible.Writer
	}
	return out
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

// NewNarrowedTable is a table one of whose columns may be cut, and others left out, each by its number.
func NewNarrowedTable(out io.Writer, cut int, drop []int, header ...any) table.Writer {
	return &narrowed{Writer: NewTableOf(out, 0, header...), out: out, width: Width(out), header: header, cut: cut, drop: drop}
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
		left := t.width + Between // none is behind the last one
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

// snip cuts a text.
func snip(cell string, width int) string { return text.Snip(cell, width, "…") }

const (
	// Between is how many blanks are between columns.
	Between = 3
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

// NewFittedTable is a table whose last column has sentences.
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

// Render prints it.
func (t *fitted) Render() string {
	last := len(t.used) - 1
	left := t.width - Between*len(t.used)
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
		for _, part := range strings.Split(text.WrapSoft(fmt.Sprint(t.rows[i-1][last]), max(t.width-2, leastWidth)), "\n") {
			fmt.Fprintln(&all, "  "+part)
		}
	}
	fmt.Fprint(trimmed{t.out}, all.String())
	return all.String()
}
