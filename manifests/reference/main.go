// Command reference writes the reference of what users write in YAML, NodeSync and plumbline.yaml, and of what is
// printed as JSON, from the doc comments of the Go types.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// page is one file of the reference: a type of a package, and all types below it.
type page struct {
	file, folder, root, title, text string
	// write generates it: a page for people, or a schema.
	write func(page) (string, error)
}

var pages = []page{
	{
		file: "nodesync.md", folder: "../reconcile/api/v1alpha1", root: "NodeSync", title: "NodeSync",
		text: "`plumbline.dev/v1alpha1`, kind `NodeSync`, in the cluster. What its fields mean together, with examples, is in\n" +
			"[SPEC.md](../../manifests/SPEC.md).",
		write: write,
	},
	{
		file: "plumbline-yaml.md", folder: "../render", root: "Karpenter", title: "plumbline.yaml",
		text: "`config.plumbline.dev/v1alpha1`, kind `Karpenter`, in the repository, at the root of the path that a\n" +
			"[NodeSync](nodesync.md) follows. It is read by plumbline and not by the API server. Unknown fields are errors.",
		write: write,
	},
	{
		file: "plan.md", folder: "../reconcile/plan/planjson", root: "Plan", title: "Plan",
		text: "`plan.plumbline.dev/v1alpha1`, kind `Plan`: what `plumbline plan -o json` prints, and what the expressions of\n" +
			"[policies](../how-to/policies.md) see as `plan`, `change` and `removal`. Fields may be added; as long as the version stays, none\n" +
			"changes its meaning. The command prints more beside these: `pace`, `pods`, `upgrade`, `adoption`, `autoMode`, `warnings`,\n" +
			"`stopped`, `charts`, `digest`, and how many parts are `held` and `refused`. As a JSON Schema: [plan.schema.json](plan.schema.json).",
		write: write,
	},
	{
		file: "plan.schema.json", folder: "../reconcile/plan/planjson", root: "Plan", title: "Plan (plan.plumbline.dev/v1alpha1)",
		write: writeSchema,
	},
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: reference FOLDER")
		os.Exit(1)
	}
	for _, p := range pages {
		text, err := p.write(p)
		if err == nil {
			err = os.WriteFile(filepath.Join(os.Args[1], p.file), []byte(text), 0o644)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}
