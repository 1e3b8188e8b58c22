package main

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestEachArgumentCompletes: names of NodeSyncs and folders, wherever a command takes one. A new command
// is in it by itself.
func TestEachArgumentCompletes(t *testing.T) {
	_, kubeconfig := serve(t, nodeSync("prod"))
	tried := 0
	each(t, func(t *testing.T, cmd *cobra.Command) {
		arguments := strings.Join(strings.Fields(cmd.Use)[1:], " ")
		line := append([]string{cobra.ShellCompRequestCmd, "--kubeconfig", kubeconfig}, line(cmd, "")...)
		if cmd.Name() == "reference" || !strings.Contains(arguments, "NODESYNC") && !strings.Contains(arguments, "PATH") {
			return
		}
		tried++
		got := plumbline(t, line...).out
		if strings.Contains(arguments, "NODESYNC") && !strings.Contains(got, "prod\n") {
			t.Errorf("%s completes no NodeSync: %q", cmd.Use, got)
		}
		if strings.Contains(arguments, "PATH") && !strings.Contains(got, "testdata/\n") && !strings.Contains(got, ":16\n") { // ShellCompDirectiveFilterDirs
			t.Errorf("%s completes no folder: %q", cmd.Use, got)
		}
	})
	if tried < 15 {
		t.Errorf("%d commands take a NodeSync or a folder", tried)
	}
}
