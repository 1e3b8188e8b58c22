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
	// formatMarkdown is for comments on pull requests, in commands that support it.
	formatMarkdown format = "markdown"
)

// formatFlag is the flag -o, which accepts some of the formats.
type formatFlag struct {
	format *format
	of     []string
}

// String, Set and Type implement pflag.Value.
func (f formatFlag) String() string {
	if f.format == nil {
		return "" // pflag creates a zero value to compare with the default
	}
	return string(*f.format)
}

// Set accepts the name of one of the formats.
func (f formatFlag) Set(value string) error {
	if !slices.Contains(f.of, value) {
		return fmt.Errorf("%q is not one of %s", value, strings.Join(f.of, ", "))
	}
	*f.format = format(value)
	return nil
}

// Type returns the values as help shows them.
func (f formatFlag) Type() string { return strings.Join(f.of, "|") }

// addOutput adds the flag -o to a command, with additional formats.
func addOutput(cmd *cobra.Command, more ...format) *format {
	f := formatTable
	of := []string{string(formatTable), string(formatJSON), string(formatYAML)}
	for _, one := range more {
		of = append(of, string(one))
	}
	cmd.Flags().VarP(formatFlag{&f, of}, "output", "o", "how to print")
	// The flag exists: the line above adds it.
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(of, cobra.ShellCompDirectiveNoFileComp))
	return &f
}

// write prints a value in the format of -o; people prints the table.
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

// writeJSON prints a value as JSON that shows invisible characters and decodes to the same value.
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

// writeJUnit prints a report as JUnit's XML.
func writeJUnit(out io.Writer, report func() ([]byte, error)) error {
	text, err := report()
	if err != nil {
		return err
	}
	_, err = out.Write(text)
	return err
}

// writeYAML prints a value as YAML, or as JSON, which is valid YAML, if characters have to be escaped.
func writeYAML(out io.Writer, value any) error {
	raw, err := yaml.Marshal(value)
	if err != nil || !redact.IsVisible(string(raw)) { // YAML does not allow control characters
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

// objectOutput is the flag -o for objects of a cluster, as in kubectl.
type objectOutput struct {
	format   string
	template *genericclioptions.KubeTemplatePrintFlags
}

// addObjectOutput adds the flags -o and --template to a command.
func addObjectOutput(cmd *cobra.Command) *objectOutput {
	o := &objectOutput{template: genericclioptions.NewKubeTemplatePrintFlags()}
	o.template.AddFlags(cmd)
	cmd.Flags().StringVarP(&o.format, "output", "o", string(formatTable), "how to print: "+strings.Join(o.formats(), "|"))
	// The flag exists: the line above adds it.
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(o.formats(), cobra.ShellCompDirectiveNoFileComp))
	return o
}

// formats returns all values that -o accepts.
func (o *objectOutput) formats() []string {
	own := []string{string(formatTable), formatWide, formatName, string(formatJSON), string(formatYAML)}
	return append(own, slices.Sorted(slices.Values(o.template.AllowedFormats()))...)
}

// check returns an error for an invalid -o, before any request.
func (o *objectOutput) check() error {
	if o.human() || slices.Contains([]string{formatName, string(formatJSON), string(formatYAML)}, o.format) {
		return nil
	}
	_, err := o.byTemplate()
	return err
}

// human reports whether the output is a table.
func (o *objectOutput) human() bool { return o.format == string(formatTable) || o.wide() }

func (o *objectOutput) wide() bool { return o.format == formatWide }

func (o *objectOutput) byTemplate() (printers.ResourcePrinter, error) {
	printer, err := o.template.ToPrinter(o.format)
	if genericclioptions.IsNoCompatiblePrinterError(err) {
		return nil, fmt.Errorf("%q is not one of %s", o.format, strings.Join(o.formats(), ", "))
	}
	return printer, err
}

// write prints NodeSyncs in the format of -o: a list, or the one named object.
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
