package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/plumbline-dev/plumbline/cmd/plumbline/display"
	"github.com/plumbline-dev/plumbline/internal/shortlist"
	"github.com/plumbline-dev/plumbline/reconcile/source"
	"github.com/plumbline-dev/plumbline/redact"
	"github.com/plumbline-dev/plumbline/render"
	"github.com/plumbline-dev/plumbline/render/schema"
)

func newRenderCommand() *cobra.Command {
	var crds string
	cmd := &cobra.Command{
		Use:   "render PATH",
		Short: "Render a folder as the daemon would, and print its objects",
		Long: `Render a folder of a checkout as the daemon would, without a cluster or network
access: run kustomize, substitute variables, and validate against Karpenter's CRDs. The
command prints the objects as YAML, in the order in which they would be applied. It
reports all errors at once, each with file and line.`,
		Example:           "  plumbline render ./clusters/prod-eu",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: onlyFolders,
	}
	output := addOutput(cmd)
	*output = formatYAML
	cmd.Flags().Lookup("output").DefValue = "yaml"
	cmd.Flags().StringVar(&crds, "crds", "",
		"folder with the CRDs of the version in Git, if it is neither "+schema.EmbeddedVersion+" nor "+schema.LTSVersion+" and its charts are not in the repository")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		r, err := renderFolder(cmd.Context(), args[0], crds, false)
		if err != nil {
			return err
		}
		for _, warning := range append(r.set.Warnings, render.Undefined(r.set.Objects)...) {
			fmt.Fprintln(cmd.ErrOrStderr(), "warning: "+redact.Visible(warning))
		}
		if err := printSet(cmd.OutOrStdout(), *output, r.set); err != nil {
			return err
		}
		return r.check()
	}
	return cmd
}

func printSet(out io.Writer, output format, set *render.Set) error {
	switch output {
	case formatTable:
		t := display.NewFittedTable(&display.Visible{Writer: out}, "KIND", "NAME", "FROM")
		for _, object := range set.Objects {
			t.AppendRow([]any{object.Ref.Kind, object.Ref.Name, redact.VisibleName(object.Origin.String())})
		}
		t.Render()
		return nil
	case formatYAML:
		for _, object := range set.Objects {
			fmt.Fprintf(out, "---\n# %s\n", redact.VisibleName(object.Origin.String()))
			if err := writeYAML(out, object.Desired.Object); err != nil {
				return fmt.Errorf("print %s: %w", object.Ref, err)
			}
		}
		return nil
	default:
	}
	objects := make([]map[string]any, 0, len(set.Objects))
	for _, object := range set.Objects {
		objects = append(objects, object.Desired.Object)
	}
	return output.write(out, objects, nil)
}

// maxNamed is the maximum number of files that a warning names.
const maxNamed = 5

// untracked warns about files below a folder that the daemon does not see, because they are not committed.
func untracked(root, name string) []string {
	names, err := source.Untracked(root, name)
	switch {
	case err != nil:
		return []string{"unknown whether Git tracks all files here: " + err.Error()}
	case len(names) == 0:
		return nil
	}
	for i := range names {
		names[i] = redact.VisibleName(names[i])
	}
	return []string{"the daemon sees only files that Git tracks; untracked here: " + shortlist.Join(names, maxNamed, ", ")}
}
