package stories_test

import (
	"context"
	"path"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/plumbline-dev/plumbline/tests/stories/witness"
)

// definitions reads those of a commit below a path; nil if the files alone do not tell them: kustomizations, several
// documents, fields left to other managers.
func (w *watcher) definitions(ctx context.Context, commit, at string) *witness.Definitions {
	key := commit + ":" + at
	if known, is := w.commits[key]; is {
		return known
	}
	read, err := w.read(ctx, commit, path.Clean(at))
	if err != nil {
		return nil // the clone may not contain it yet
	}
	w.commits[key] = read
	return read
}

func (w *watcher) read(ctx context.Context, commit, at string) (*witness.Definitions, error) {
	text, err := w.story.repo.Git(ctx, "ls-tree", "-r", "--name-only", commit)
	if err != nil {
		return nil, err
	}
	d := &witness.Definitions{}
	for _, name := range strings.Fields(text) {
		if at != "." && !strings.HasPrefix(name, at+"/") || path.Ext(name) != ".yaml" && path.Ext(name) != ".yml" {
			continue
		}
		file, err := w.story.repo.Git(ctx, "show", commit+":"+name)
		if err != nil {
			return nil, err
		}
		object := unstructured.Unstructured{}
		switch base := path.Base(name); {
		case strings.HasPrefix(base, "kustomization."), strings.Contains(file, "\n---"):
			return nil, nil
		case base == "plumbline.yaml":
			if !strings.Contains(file, "nodes: [./nodes]") || strings.Contains(file, "ignoreDifferences") || strings.Contains(file, "substitute") {
				return nil, nil
			}
			continue
		case !strings.HasPrefix(strings.TrimPrefix(name, at+"/"), "nodes/"):
			continue
		case !parses(file, &object), strings.Contains(file, "plumbline.dev/ignore-differences"):
			return nil, nil
		}
		d.Objects = append(d.Objects, object)
	}
	return d, nil
}

// parses reads an object; invalid YAML is not compared.
func parses(file string, object *unstructured.Unstructured) bool {
	return yaml.Unmarshal([]byte(file), &object.Object) == nil
}
