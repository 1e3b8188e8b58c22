// Command notifications is Argo CD's notifications controller. It is a binary of its own, since what it adds
// to the others is compiled only for the stories that start it.
package main

import (
	"os"

	"github.com/argoproj/argo-cd/v3/cmd/argocd-notification/commands"
)

func main() {
	if err := commands.NewCommand().Execute(); err != nil {
		os.Exit(1)
	}
}
