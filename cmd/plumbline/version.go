package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// versions is what `plumbline version` prints.
type versions struct {
	Version   string `json:"version"`
	Go        string `json:"go"`
	Karpenter string `json:"karpenter"`
	Helm      string `json:"helm"`
}

func newVersionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version of plumbline and of the libraries it predicts with",
		Args:  cobra.NoArgs,
	}
	output := addOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		v := versions{Version: version, Go: runtime.Version()}
		if info, ok := debug.ReadBuildInfo(); ok {
			v.Karpenter, v.Helm = moduleVersion(info, "sigs.k8s.io/karpenter"), moduleVersion(info, "helm.sh/helm/v3")
		}
		return output.write(cmd.OutOrStdout(), v, func(out io.Writer) error {
			_, err := fmt.Fprintf(out, "plumbline %s (%s; Karpenter library %s, Helm library %s)\n", v.Version, v.Go, v.Karpenter, v.Helm)
			return err
		})
	}
	return cmd
}

func moduleVersion(info *debug.BuildInfo, path string) string {
	for _, dep := range info.Deps {
		if dep.Path == path {
			return dep.Version
		}
	}
	return "unknown"
}
