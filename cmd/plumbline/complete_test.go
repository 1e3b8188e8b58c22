package main

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// TestEachArgumentCompletes completes names of NodeSyncs and folders, wherever a command accepts one. It includes new
// commands automatically.
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

// TestStoppedPoolsComplete completes the pools whose rollout can be resumed, and no others.
func TestStoppedPoolsComplete(t *testing.T) {
	sync := nodeSync("prod")
	now := metav1.Now()
	sync.Status.PoolRollouts = []v1alpha1.PoolRollout{{Pool: "batch", BrakedAt: &now}, {Pool: "general"}}
	_, kubeconfig := serve(t, sync)
	for args, want := range map[string]string{"prod": "batch\n:4\n", "": ":4\n", "absent": ":1\n"} {
		line := append([]string{cobra.ShellCompRequestCmd, "resume-rollout"}, strings.Fields(args)...)
		if got := plumbline(t, append(line, "--kubeconfig", kubeconfig, "--pool", "")...).out; got != want {
			t.Errorf("resume-rollout %s completes %q, want %q", args, got, want)
		}
	}
}
