// Command notifications is Argo CD's notifications controller. It is a separate binary, so that its additional
// dependencies are compiled only for the stories that use it.
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
