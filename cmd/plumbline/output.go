package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/printers"
	"sigs.k8s.io/yaml"

	"github.com/plumbline-dev/plumbline/cmd/plumbline/display"
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
		return fmt.Errorf("%q is not one of %s", value, strings.Join(f.of, ", "))
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
	return people(&display.Visible{Writer: out})
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
		return nil, fmt.Errorf("%q is not one of %s", o.format, strings.Join(o.formats(), ", "))
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
		return people(&display.Visible{Writer: out})
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
