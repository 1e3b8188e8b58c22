// Command plumbline keeps a cluster's Karpenter nodes true to Git: as a daemon
// in the cluster (plumbline run), and as a CLI on a laptop or in CI.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// version is set by the build.
var version = "dev"

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := newRootCommand().ExecuteContext(ctx)
	if err == nil {
		return exitDone
	}
	var exit *exitError
	if errors.As(err, &exit) {
		if exit.message != "" {
			fmt.Fprintln(os.Stderr, exit.message)
		}
		return exit.code
	}
	fmt.Fprintln(os.Stderr, "plumbline: "+err.Error())
	return exitFailed
}
