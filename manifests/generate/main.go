// Command generate writes the roles that let plumbline grant Karpenter its permissions: a copy of every rule in
// Karpenter's newest chart, which has those of the older ones. It also writes the policies that restrict these
// permissions to the charts' own objects, and plumbline's own Helm chart, from the kustomize base.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/plumbline-dev/plumbline/internal/modcache"
	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/provision/karpenter"
)

const karpenterModule = "github.com/aws/karpenter-provider-aws"

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: generate ROLES POLICIES CHART")
		os.Exit(1)
	}
	if err := generate(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// generate writes the files in the order of the arguments: the chart is made from the others.
func generate(paths []string) error {
	for i, render := range []func() ([]byte, error){render, renderPolicies} {
		text, err := render()
		if err != nil {
			return err
		}
		if err := os.WriteFile(paths[i], text, 0o644); err != nil {
			return err
		}
	}
	made, err := renderChart(".")
	if err != nil {
		return err
	}
	return made.write(paths[2])
}

// render returns the file's text.
func render() ([]byte, error) {
	module := karpenterModule + "@v" + karpenter.Newest()
	folder, err := modcache.Folder(context.Background(), module)
	if err != nil {
		return nil, err
	}
	found, err := charts.FromFolder(filepath.Join(folder, "charts"))
	if err != nil {
		return nil, err
	}
	objects, err := found.Controller(context.Background(), charts.Installation{Namespace: "kube-system", Cluster: "any", Region: "any"})
	if err != nil {
		return nil, err
	}
	rules, err := collect(objects)
	if err != nil {
		return nil, err
	}
	return rules.yaml(karpenterModule + " v" + karpenter.Newest())
}
