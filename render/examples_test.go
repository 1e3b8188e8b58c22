package render_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/render"
)

var update = flag.Bool("update", false, "rewrite the goldens")

func TestExamples(t *testing.T) {
	for _, path := range []string{"basic", "gpu-and-spot", "kustomize-overlays/clusters/staging", "kustomize-overlays/clusters/production"} {
		t.Run(path, func(t *testing.T) {
			set, err := renderAll(t, render.Snapshot{FS: os.DirFS("../examples")}, path, embedded(t))
			if err != nil {
				t.Fatal(err)
			}
			var got bytes.Buffer
			for _, object := range set.Objects {
				got.WriteString("# " + object.Origin.String() + "\n")
				got.Write(marshal(t, object.Desired.Object))
				got.WriteString("---\n")
			}
			golden := filepath.Join("testdata", "examples", strings.ReplaceAll(path, "/", "-")+".golden.yaml")
			if *update {
				if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got.String()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
