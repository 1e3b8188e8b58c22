package render_test

import (
	"errors"
	"testing"
	"testing/fstest"

	"github.com/plumbline-dev/plumbline/render"
)

// FuzzReadValues: any file with values is parsed as a map, or refused.
func FuzzReadValues(f *testing.F) {
	f.Add("replicas: 2\nsettings: {clusterName: null}\n")
	f.Add("a: &a {b: 1}\nc: {<<: *a}\n")
	f.Add("- 1\n")
	f.Add("a: 9999999999999999999999999999999999999999\nb: 1e1000000000\nc: -0x1p-99999\nd: 9_9.9e+99\n")
	f.Fuzz(func(t *testing.T, text string) {
		snap := render.Snapshot{FS: fstest.MapFS{"values.yaml": {Data: []byte(text)}}}
		k := &render.Karpenter{ValuesFiles: []string{"values.yaml"}}
		values, err := k.ReadValues(render.NewFiles(snap), ".")
		var found render.Errors
		if err != nil && !errors.As(err, &found) || err == nil && len(values) != 1 {
			t.Fatalf("%v, and an error of type %T: %v", values, err, err)
		}
	})
}
