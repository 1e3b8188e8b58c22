package render_test

import (
	"errors"
	"io/fs"
	"sync"
	"testing"

	"github.com/plumbline-dev/plumbline/render"
)

// errGone is the error of a file system whose store was replaced.
var errGone = errors.New("superseded")

// vanishing is a file system that is gone after a number of operations.
type vanishing struct {
	fs.FS

	mu          sync.Mutex
	left, taken int
}

func (v *vanishing) take(op, name string) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.taken++
	if v.left--; v.left < 0 {
		return &fs.PathError{Op: op, Path: name, Err: errGone}
	}
	return nil
}

func (v *vanishing) Open(name string) (fs.File, error) {
	if err := v.take("open", name); err != nil {
		return nil, err
	}
	return v.FS.Open(name)
}

func (v *vanishing) ReadFile(name string) ([]byte, error) {
	if err := v.take("readfile", name); err != nil {
		return nil, err
	}
	return fs.ReadFile(v.FS, name)
}

func (v *vanishing) ReadDir(name string) ([]fs.DirEntry, error) {
	if err := v.take("readdir", name); err != nil {
		return nil, err
	}
	return fs.ReadDir(v.FS, name)
}

func (v *vanishing) Stat(name string) (fs.FileInfo, error) {
	if err := v.take("stat", name); err != nil {
		return nil, err
	}
	return fs.Stat(v.FS, name)
}

// TestSupersededIsNotInvalid: if a Snapshot is superseded during a render, the render returns that error, and does not
// blame the commit.
func TestSupersededIsNotInvalid(t *testing.T) {
	whole := folder(map[string]string{
		"plumbline.yaml":               plumblineYAML + "nodes: [./plain, ./overlay]\n",
		"plain/pool.yaml":              pool("plain"),
		"overlay/kustomization.yaml":   "resources: [../base, more.yaml]\ncomponents: [../component]\npatches: [{path: patch.yaml, target: {kind: NodePool}}]\n",
		"overlay/more.yaml":            pool("more"),
		"overlay/patch.yaml":           "- op: add\n  path: /metadata/labels\n  value: {a: b}\n",
		"base/kustomization.yaml":      "resources: [class.yaml]\n",
		"base/class.yaml":              class("default"),
		"component/kustomization.yaml": "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\nlabels: [{pairs: {c: d}}]\n",
	})
	const endless = 1 << 20
	counted := &vanishing{FS: whole.FS, left: endless}
	if _, err := readAndRender(t, counted); err != nil {
		t.Fatal(err)
	}
	for n := range counted.taken {
		set, err := readAndRender(t, &vanishing{FS: whole.FS, left: n})
		var wrong render.Errors
		if !errors.Is(err, errGone) || errors.As(err, &wrong) {
			t.Errorf("gone after %d of %d operations: %v, %v", n, counted.taken, set, err)
		}
	}
}

func readAndRender(t *testing.T, fsys fs.FS) (*render.Set, error) {
	t.Helper()
	snap := render.Snapshot{FS: fsys}
	karpenter, err := render.ReadKarpenter(snap, ".")
	if err != nil {
		return nil, err
	}
	return render.Render(t.Context(), snap, ".", karpenter, nil)
}
