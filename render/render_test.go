package render_test

import (
	"encoding/json"
	"sync"
	"testing"
	"testing/fstest"

	"sigs.k8s.io/yaml"

	"github.com/plumbline-dev/plumbline/render"
	"github.com/plumbline-dev/plumbline/render/schema"
)

// plumblineYAML is the file of a cluster named demo.
const plumblineYAML = `apiVersion: config.plumbline.dev/v1alpha1
kind: Karpenter
cluster: {name: demo, region: eu-west-1}
version: 1.14.1
`

var compiled = sync.OnceValues(func() (*schema.Validator, error) {
	crds, _, err := schema.Embedded()
	if err != nil {
		return nil, err
	}
	return schema.New(crds)
})

// embedded returns the schema of the linked CRDs.
func embedded(t *testing.T) *schema.Validator {
	t.Helper()
	validator, err := compiled()
	if err != nil {
		t.Fatal(err)
	}
	return validator
}

// folder returns a Snapshot of files in memory.
func folder(files map[string]string) render.Snapshot {
	tree := fstest.MapFS{}
	for name, text := range files {
		tree[name] = &fstest.MapFile{Data: []byte(text), Mode: 0o644}
	}
	return render.Snapshot{Revision: "main@sha1:1111111111111111111111111111111111111111", Commit: "1111111111111111111111111111111111111111", FS: tree}
}

// renderAll reads plumbline.yaml and renders; a nil schema validates nothing.
func renderAll(t *testing.T, snap render.Snapshot, path string, validator *schema.Validator, options ...render.Option) (*render.Set, error) {
	t.Helper()
	karpenter, err := render.ReadKarpenter(snap, path)
	if err != nil {
		t.Fatalf("read plumbline.yaml: %v", err)
	}
	if validator == nil {
		return render.Render(t.Context(), snap, path, karpenter, nil, options...)
	}
	return render.Render(t.Context(), snap, path, karpenter, validator, options...)
}

func marshal(t *testing.T, value any) []byte {
	t.Helper()
	text, err := yaml.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func toJSON(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
