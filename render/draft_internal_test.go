package render

import (
	"errors"
	"io/fs"
	"testing"

	"github.com/plumbline-dev/plumbline/render/kustomize"
)

// TestKustomizeErrors: errors of the file system during a build are not the repository's fault, except for a missing
// file.
func TestKustomizeErrors(t *testing.T) {
	reading := func(err error) error {
		return &kustomize.BuildError{File: "k/kustomization.yaml", Err: &fs.PathError{Op: "readfile", Path: "k/a.yaml", Err: err}}
	}
	for name, tc := range map[string]struct {
		err   error
		wrong bool
	}{
		"superseded":       {reading(errors.New("the snapshot was superseded")), false},
		"not there":        {reading(fs.ErrNotExist), true},
		"kustomize's own":  {&kustomize.BuildError{Err: errors.New("no matches for target")}, true},
		"refused":          {&kustomize.RefusedError{Refusals: []kustomize.Refusal{{}}}, true},
		"nothing of these": {errors.New("odd"), false},
	} {
		t.Run(name, func(t *testing.T) {
			if errs, wrong := kustomizeErrors(tc.err); wrong != tc.wrong || wrong == (len(errs) == 0) {
				t.Errorf("%v, %t: want %t", errs, wrong, tc.wrong)
			}
		})
	}
}
