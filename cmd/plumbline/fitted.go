package main

import (
	"fmt"
	"io"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

const (
	// between is how many blanks are between columns.
	between = 3
	// leastWidth is how wide a last column has to be to be wrapped in its place.
	leastWidth = 20
)

// fitted is a table whose last column is wrapped where the terminal ends: nothing of it is cut off.
type fitted struct {
	table.Writer

	width int
	// used are the widths of the columns.
	used []int
}

// newFittedTable is a table whose last column has sentences.
func newFittedTable(out io.Writer, header ...any) table.Writer {
	return newFittedTableOf(out, widthOf(out), header...)
}

func newFittedTableOf(out io.Writer, width int, header ...any) table.Writer {
	t := &fitted{Writer: newTableOf(out, 0, header...), width: width}
	t.measure(header)
	return t
}

// AppendRow adds a row.
func (t *fitted) AppendRow(row table.Row, configs ...table.RowConfig) {
	t.measure(row)
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

// Render prints it. Where little is left for the last column the terminal wraps the lines.
func (t *fitted) Render() string {
	last := len(t.used) - 1
	left := t.width - between*len(t.used)
	for _, used := range t.used[:last] {
		left -= used
	}
	if left >= leastWidth {
		t.SetColumnConfigs([]table.ColumnConfig{{Number: last + 1, WidthMax: left, WidthMaxEnforcer: text.WrapSoft}})
	}
	return t.Writer.Render()
}
