package render

import (
	"path"
	"strings"
)

// chartFolder is where a repository that is a path leads to, from the root of the
// Git repository; ok is false for a URL.
func (k *Karpenter) chartFolder(folder string) (name string, ok bool) {
	if k.Repository != "." && !strings.HasPrefix(k.Repository, "./") && k.Repository != ".." && !strings.HasPrefix(k.Repository, "../") {
		return "", false
	}
	return path.Join(folder, k.Repository), true
}

// ChartRepository is where both charts are: a URL, or with inside a folder of the
// Snapshot, from its root. name is the path of plumbline.yaml's folder.
func (k *Karpenter) ChartRepository(name string) (repository string, inside bool, err error) {
	folder, err := cleanPath(name)
	if err != nil {
		return "", false, err
	}
	if found, ok := k.chartFolder(folder); ok {
		return found, true, nil
	}
	return k.Repository, false, nil
}

// charts is the folder that holds charts and no definitions; empty where there is
// none that a walk could meet, or where it is the walk's very root.
func (k *Karpenter) charts(folder string) string {
	if found, ok := k.chartFolder(folder); ok && found != folder {
		return found
	}
	return ""
}

// Files are a Snapshot's for a reader that is no render, and whose reading makes
// what is rendered: its Inputs go into a render by WithInputs.
type Files struct {
	*tree
}

// maxChartBytes bounds one file, and all of them.
const maxChartBytes = 16 << 20

// NewFiles returns the files of a Snapshot.
func NewFiles(snap Snapshot) *Files {
	limits := DefaultLimits()
	limits.FileBytes = maxChartBytes
	return &Files{newTree(snap.FS, &allowance{limits: limits})}
}

// Inputs are what was read so far.
func (f *Files) Inputs() Inputs { return f.inputs.clone() }
