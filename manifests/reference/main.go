// Command reference writes the reference of what users write in YAML, out of the doc
// comments of the Go types that read it: NodeSync and plumbline.yaml.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// page is one file of the reference: a type of a package, and all types below it.
type page struct {
	file, folder, root, title, text string
}

var pages = []page{
	{
		file: "nodesync.md", folder: "../reconcile/api/v1alpha1", root: "NodeSync", title: "NodeSync",
		text: "`plumbline.dev/v1alpha1`, kind `NodeSync`, in the cluster. What its fields mean together, with examples, is in\n" +
			"[SPEC.md](https://github.com/plumbline-dev/plumbline/blob/main/manifests/SPEC.md).",
	},
	{
		file: "plumbline-yaml.md", folder: "../render", root: "Karpenter", title: "plumbline.yaml",
		text: "`config.plumbline.dev/v1alpha1`, kind `Karpenter`, in the repository, at the root of the path that a\n" +
			"[NodeSync](nodesync.md) follows. It is read by plumbline and not by the API server. Unknown fields are errors.",
	},
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: reference FOLDER")
		os.Exit(1)
	}
	for _, p := range pages {
		text, err := write(p)
		if err == nil {
			err = os.WriteFile(filepath.Join(os.Args[1], p.file), []byte(text), 0o644)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}
