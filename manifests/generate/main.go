// Command generate writes the roles that let plumbline hand Karpenter its
// rights: a copy of every rule in Karpenter's chart, as the Go module that
// plumbline is built with has it. It writes the policies too that keep those rights
// to the charts' own objects.
package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/plumbline-dev/plumbline/provision/charts"
)

const karpenterModule = "github.com/aws/karpenter-provider-aws"

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: generate ROLES POLICIES")
		os.Exit(1)
	}
	for i, render := range []func() ([]byte, error){render, renderPolicies} {
		text, err := render()
		if err == nil {
			err = os.WriteFile(os.Args[i+1], text, 0o644)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

// render returns the file's text.
func render() ([]byte, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}} {{.Version}}", karpenterModule).Output()
	if err != nil {
		return nil, fmt.Errorf("find module %s: %w", karpenterModule, err)
	}
	dir, version, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
	found, err := charts.FromFolder(filepath.Join(dir, "charts"))
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
	return rules.yaml(karpenterModule + " " + version)
}
