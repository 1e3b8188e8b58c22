package main

import (
	"fmt"
	"io"
	"slices"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

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
