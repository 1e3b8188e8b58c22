package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"
	"golang.org/x/term"
	"sigs.k8s.io/yaml"

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
