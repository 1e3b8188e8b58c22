// Command argocd is Argo CD's application controller, its repo server and what git asks
// for its credentials in one binary: its first argument names the one to run, and for git,
// as in Argo CD's own, a variable of the environment. Its other programs, which would take
// most of the build, are left out. For machines without Redis it has the one in Go that Argo CD's own tests use.
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

// asked is the value of the variable with which the repo server has git run this program.
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

// ticks is how often time passes in the Redis in Go, in which nothing expires by itself. Argo CD looks at Git
// again when what it keeps there of the last time has expired.
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
