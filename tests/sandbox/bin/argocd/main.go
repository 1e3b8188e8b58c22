// Command argocd contains Argo CD's application controller, its repo server and the program that git runs for
// credentials: its first argument names the one to run, and for git, as in Argo CD's own binary, an environment
// variable. Its other programs, which would take most of the build, are omitted. For machines without Redis, it
// contains the one in Go from Argo CD's own tests.
package main

import (
	"fmt"
	"os"
	"time"

	"github.com/alicebob/miniredis/v2"
	controller "github.com/argoproj/argo-cd/v3/cmd/argocd-application-controller/commands"
	askpass "github.com/argoproj/argo-cd/v3/cmd/argocd-git-ask-pass/commands"
	reposerver "github.com/argoproj/argo-cd/v3/cmd/argocd-repo-server/commands"
	"github.com/spf13/cobra"
)

// asked is the value of the variable with which the repo server makes git run this program.
const asked = "argocd-git-ask-pass"

func main() {
	if os.Getenv("ARGOCD_BINARY_NAME") == asked {
		run(askpass.NewCommand(), os.Args[1:])
		return
	}
	parts := map[string]func() *cobra.Command{
		"application-controller": controller.NewCommand,
		"repo-server":            reposerver.NewCommand,
		"redis":                  newRedis,
	}
	if len(os.Args) < 2 || parts[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: argocd application-controller|repo-server|redis [flags]")
		os.Exit(2)
	}
	run(parts[os.Args[1]](), os.Args[2:])
}

func run(command *cobra.Command, args []string) {
	command.SetArgs(args)
	if err := command.Execute(); err != nil {
		os.Exit(1)
	}
}

// ticks is how often time advances in the Redis in Go, in which nothing expires automatically. Argo CD polls Git again
// when its cache of the last poll has expired.
const ticks = 100 * time.Millisecond

// newRedis serves until it is killed.
func newRedis() *cobra.Command {
	var address string
	command := &cobra.Command{Use: "redis", RunE: func(*cobra.Command, []string) error {
		redis := miniredis.NewMiniRedis()
		if err := redis.StartAddr(address); err != nil {
			return err
		}
		for range time.Tick(ticks) {
			redis.FastForward(ticks)
		}
		return nil
	}}
	command.Flags().StringVar(&address, "address", "127.0.0.1:6379", "where it listens")
	return command
}
