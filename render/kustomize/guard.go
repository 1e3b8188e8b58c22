package kustomize

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"sigs.k8s.io/kustomize/api/konfig"
	"sigs.k8s.io/kustomize/api/types"

	"github.com/plumbline-dev/plumbline/render/document"
)

// maxKustomizations is how many folders one build may draw upon. One that is drawn
// upon by several counts as often as kustomize builds it: two that draw upon two
// that draw upon two, and so on, soon are millions.
const maxKustomizations = 1000

// guard walks the kustomizations that a build would read, before it does.
type guard struct {
	fsys *locked
	// builds is how many folders kustomize builds for one that was seen.
	builds   map[string]int
	refusals []Refusal
	// kustomizations are those that were read, by folder.
	kustomizations map[string]*types.Kustomization
	// resources are the files that these name under resources.
	resources map[string]bool
	// patches are the files that these name as patches.
	patches map[string]bool
	// ownTypes says that a kustomization brings its own OpenAPI.
	ownTypes bool
}

func newGuard(files *locked) *guard {
	return &guard{fsys: files, builds: map[string]int{}, kustomizations: map[string]*types.Kustomization{}, resources: map[string]bool{}, patches: map[string]bool{}}
}

// folder checks the kustomization of a folder, and those it draws upon. It
// returns the file.
func (g *guard) folder(name string) string {
	if g.builds[name] > 0 {
		return ""
	}
	g.builds[name] = 1
	file, data := g.read(name)
	if file == "" {
		g.refuse(name, 0, "the folder", "it has no kustomization.yaml")
		return ""
	}
	if len(g.builds) > maxKustomizations {
		g.refuseMany(file)
		return ""
	}
	c := g.decode(name, file, data)
	if c == nil {
		return ""
	}
	g.kustomizations[name] = c.kustomization
	c.check()
	for _, next := range c.folders {
		g.folder(next)
		g.builds[name] += g.builds[next]
	}
	if g.builds[name] > maxKustomizations {
		g.refuseMany(file)
		g.builds[name] = 1 // said once, not by everything that draws upon it
	}
	return file
}

func (g *guard) refuseMany(file string) {
	g.refuse(file, 0, "the file", fmt.Sprintf("more than %d kustomizations would be built for it, those that several draw upon once for each", maxKustomizations))
}

// read finds the kustomization by the names that kustomize knows.
func (g *guard) read(folder string) (string, []byte) {
	for _, base := range konfig.RecognizedKustomizationFileNames() {
		name := path.Join(folder, base)
		if data, err := g.fsys.ReadFile(name); err == nil {
			return name, data
		}
	}
	return "", nil
}

// decode reads the text as kustomize does, so that no other spelling of a field
// passes by: it does not tell upper case from lower.
func (g *guard) decode(folder, file string, data []byte) *checker {
	documents, err := document.Parse(data)
	if err != nil {
		line := 0
		var unreadable *document.Error
		if errors.As(err, &unreadable) {
			line = unreadable.Line
		}
		g.refuse(file, line, "the file", err.Error())
		return nil
	}
	c := &checker{guard: g, folder: folder, file: file, kustomization: &types.Kustomization{}}
	if len(documents) > 0 {
		c.lineOf = documents[0].LineOf
	}
	if err := c.kustomization.Unmarshal(data); err != nil {
		g.refuse(file, 0, "the file", strings.ReplaceAll(err.Error(), "\n", " "))
		return nil
	}
	c.kustomization.FixKustomization()
	return c
}

func (g *guard) refuse(file string, line int, field, why string) {
	g.refusals = append(g.refusals, Refusal{File: file, Line: line, Field: field, Why: why})
}

// isFolder says whether a reference is to a folder.
func (g *guard) isFolder(name string) bool {
	return g.fsys.IsDir(name)
}
