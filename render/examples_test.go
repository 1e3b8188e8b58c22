package render_test

import (
	"os"
	"testing"

	"github.com/plumbline-dev/plumbline/render"
	"github.com/plumbline-dev/plumbline/render/schema"
)

func TestExamples(t *testing.T) {
	crds, _, err := schema.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	v, err := schema.New(crds)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{"basic", "gpu-and-spot", "kustomize-overlays/clusters/staging", "kustomize-overlays/clusters/production"} {
		snap := render.Snapshot{FS: os.DirFS("../examples")}
		k, err := render.ReadKarpenter(snap, p)
		if err != nil {
			t.Fatal(err)
		}
		set, err := render.Render(t.Context(), snap, p, k, v)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range set.Objects {
			t.Log(o.Ref, o.Origin)
			fs, err := v.FieldSet(o.Desired)
			if err != nil {
				t.Fatal(err)
			}
			t.Log(fs.Size())
		}
	}
}
