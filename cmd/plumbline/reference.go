package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"
)

//go:generate go run . reference markdown ../../docs/reference/cli

// newReferenceCommand writes the reference of all commands. It is for who builds plumbline, and is hidden.
func newReferenceCommand() *cobra.Command {
	return &cobra.Command{
		Use:       "reference markdown|man FOLDER",
		Short:     "Write the reference of all commands into a folder, as Markdown or as man pages",
		Hidden:    true,
		Args:      cobra.MatchAll(cobra.ExactArgs(2), func(_ *cobra.Command, args []string) error { return knownForm(args[0]) }),
		ValidArgs: []cobra.Completion{"markdown", "man"},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[1], 0o755); err != nil {
				return err
			}
			return writeReference(cmd.Root(), args[0], args[1])
		},
	}
}

func knownForm(form string) error {
	if form != "markdown" && form != "man" {
		return fmt.Errorf("reference in the form %q: want markdown or man", form)
	}
	return nil
}

// writeReference writes a page of each command. The flags of kubectl are on root's page, and not repeated.
func writeReference(root *cobra.Command, form, folder string) error {
	root.DisableAutoGenTag = true
	root.InitDefaultVersionFlag()
	withoutThisMachine(root)
	if err := writePage(root, form, folder); err != nil {
		return err
	}
	root.PersistentFlags().VisitAll(func(f *pflag.Flag) { f.Hidden = true })
	return below(root, func(cmd *cobra.Command) error { return writePage(cmd, form, folder) })
}

// below calls each for the commands below one that help lists.
func below(parent *cobra.Command, each func(*cobra.Command) error) error {
	for _, cmd := range parent.Commands() {
		if !cmd.IsAvailableCommand() || cmd.IsAdditionalHelpTopicCommand() {
			continue
		}
		if err := each(cmd); err != nil {
			return err
		}
		if err := below(cmd, each); err != nil {
			return err
		}
	}
	return nil
}

// withoutThisMachine takes the folders of the machine out of defaults.
func withoutThisMachine(root *cobra.Command) {
	_ = below(root, func(cmd *cobra.Command) error {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			f.DefValue = strings.Replace(f.DefValue, strings.TrimSuffix(os.TempDir(), "/"), "$TMPDIR", 1)
		})
		return nil
	})
}

// writePage writes one page.
func writePage(cmd *cobra.Command, form, folder string) error {
	var page bytes.Buffer
	name := strings.ReplaceAll(cmd.CommandPath(), " ", "_") + ".md"
	var err error
	if form == "man" {
		name = strings.ReplaceAll(cmd.CommandPath(), " ", "-") + ".1"
		err = doc.GenMan(cmd, &doc.GenManHeader{Section: "1", Source: "plumbline " + version, Manual: "plumbline"}, &page)
	} else {
		err = doc.GenMarkdown(cmd, &page)
	}
	if err != nil {
		return fmt.Errorf("write the reference of %s: %w", cmd.CommandPath(), err)
	}
	return os.WriteFile(filepath.Join(folder, name), page.Bytes(), 0o644)
}
