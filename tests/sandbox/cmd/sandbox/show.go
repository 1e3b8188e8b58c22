package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
)

func statusCommand(dirFlag *string) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Say whether a sandbox is up, and where its parts are",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := recordOf(cmd, *dirFlag)
			if err != nil {
				return err
			}
			out := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintf(out, "process\t%d\nup since\t%s\n", r.PID, r.Started.Format("15:04:05"))
			for _, name := range slices.Sorted(maps.Keys(r.Env)) {
				if !isSecret(name) {
					fmt.Fprintf(out, "%s\t%s\n", name, r.Env[name])
				}
			}
			return out.Flush()
		},
	}
}

func envCommand(dirFlag *string) *cobra.Command {
	return &cobra.Command{
		Use:   "env",
		Short: "Print the lines that make a shell use the sandbox that is up",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := recordOf(cmd, *dirFlag)
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			for _, name := range slices.Sorted(maps.Keys(r.Env)) {
				fmt.Fprintf(out, "export %s=%s\n", name, quote(r.Env[name]))
			}
			fmt.Fprintf(out, "export PATH=%s:\"$PATH\"\n", quote(r.Bin))
			return nil
		},
	}
}

func recordOf(cmd *cobra.Command, flag string) (record, error) {
	dir, err := folder(flag)
	if err != nil {
		return record{}, err
	}
	return readRecord(cmd.Context(), dir)
}

func isSecret(name string) bool {
	return strings.Contains(name, "TOKEN") || strings.Contains(name, "SECRET")
}

// quote quotes a value for a shell.
func quote(value string) string { return "'" + strings.ReplaceAll(value, "'", `'\''`) + "'" }
