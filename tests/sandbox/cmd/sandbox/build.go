package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/plumbline-dev/plumbline/tests/sandbox/binaries"
)

func buildCommand() *cobra.Command {
	var source, cache string
	cmd := &cobra.Command{
		Use:   "build [program…]",
		Short: "Build the programs of a sandbox into the cache and print their paths",
		RunE: func(cmd *cobra.Command, args []string) error {
			builder, err := newBuilder(cmd, source, cache)
			if err != nil {
				return err
			}
			names := binaries.All()
			if len(args) > 0 {
				names = nil
				for _, arg := range args {
					names = append(names, binaries.Name(arg))
				}
			}
			paths, err := builder.Build(cmd.Context(), names...)
			if err != nil {
				return err
			}
			for _, name := range names {
				fmt.Fprintf(cmd.OutOrStdout(), "%s\t%s\n", name, paths[name])
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&source, "source", "", "folder tests/sandbox/bin of a checkout (default: of this one)")
	cmd.Flags().StringVar(&cache, "cache", "", "folder of built programs (default: in the user's cache folder)")
	return cmd
}

func newBuilder(cmd *cobra.Command, source, cache string) (*binaries.Builder, error) {
	var err error
	if source == "" {
		if source, err = binaries.FindSource("."); err != nil {
			return nil, err
		}
	}
	if cache == "" {
		if cache, err = binaries.DefaultCache(); err != nil {
			return nil, err
		}
	}
	return &binaries.Builder{Source: source, Cache: cache, Progress: &binaries.Progress{Out: cmd.ErrOrStderr()}}, nil
}
