package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

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
