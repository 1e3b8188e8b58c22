package main

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/redact"
)

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

// human says that it is a table.
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
