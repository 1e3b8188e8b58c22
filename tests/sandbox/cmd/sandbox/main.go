// Command sandbox starts, shows and stops a sandbox: a cluster on this machine in which everything is real except AWS.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := rootCommand().ExecuteContext(ctx)
	stop()
	if err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "sandbox",
		Short:         "A cluster on this machine in which everything is real but AWS",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	dir := root.PersistentFlags().String("dir", "", "the sandbox's folder (default: one in the user's cache folder)")
	root.AddCommand(upCommand(dir), downCommand(dir), statusCommand(dir), envCommand(dir), buildCommand())
	return root
}
