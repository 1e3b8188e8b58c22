package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/plumbline-dev/plumbline/reconcile/desired"
	"github.com/plumbline-dev/plumbline/reconcile/source"
	"github.com/plumbline-dev/plumbline/render"
	"github.com/plumbline-dev/plumbline/render/schema"
)

// rendered is what a folder on disk renders to.
type rendered struct {
	set    *render.Set
	schema *schema.Validator
	// unvalidated says against which version the Set could not be checked.
	unvalidated string
	// unchecked is a sentence on why it was checked against none; empty where it was.
	unchecked string
}

// renderFolder renders a folder on disk, without a cluster or a network. With pull the CRDs of a
// version that this program was not built with are those of its chart, unless it is unavailable.
func renderFolder(ctx context.Context, folder, crds string, pull bool) (*rendered, error) {
	at, err := openOnDisk(folder)
	if err != nil {
		return nil, err
	}
	r := &rendered{}
	definitions, version, err := at.offlineCRDs(ctx, crds)
	if err != nil {
		return nil, err
	}
	var unavailable error
	if at.karpenter.Version != version && pull {
		definitions, version, unavailable, err = at.pullCRDs(ctx, definitions)
	}
	if err != nil {
		return nil, err
	}
	if at.karpenter.Version != version {
		r.unvalidated = at.karpenter.Version
	}
	if r.schema, err = schema.New(definitions); err != nil {
		return nil, err
	}
	var checks render.Validator = r.schema
	if unavailable != nil {
		checks = nil // those of another version would refuse what is right
		r.unchecked = noCRDsOffline(r.unvalidated, unavailable)
	}
	r.set, err = render.Render(ctx, *at.snapshot, at.name, at.karpenter, checks, render.WithInputs(at.files.Inputs()), render.WithConfinement(confined(ctx)))
	if err != nil {
		return nil, err
	}
	r.set.Warnings = append(append(r.set.Warnings, at.unknown()...), untracked(at.root, at.name)...)
	return r, nil
}

// onDisk is a folder on disk with a plumbline.yaml.
type onDisk struct {
	// root of the repository that it is in, and its place there.
	root, name string
	snapshot   *render.Snapshot
	karpenter  *render.Karpenter
	// files are those with values, and values what these and plumbline.yaml have,
	// merged.
	files  *render.Files
	values map[string]any
}

// unknown names the values that are only in the cluster.
func (d *onDisk) unknown() []string {
	var words []string
	for _, from := range d.karpenter.ValuesFrom {
		words = append(words, fmt.Sprintf("values of %s are in the cluster, and not known here", from))
	}
	return words
}

// folderOf is the folder that an optional argument names: the current one by default.
func folderOf(args []string) string {
	if len(args) == 0 {
		return "."
	}
	return args[0]
}

// openOnDisk reads the plumbline.yaml of a folder on disk.
func openOnDisk(path string) (*onDisk, error) {
	root, name, err := repositoryOf(path)
	if err != nil {
		return nil, err
	}
	if err := hasCluster(path); err != nil {
		return nil, err
	}
	snapshot, err := source.Folder(root)
	if err != nil {
		return nil, err
	}
	karpenter, err := render.ReadKarpenter(*snapshot, name)
	if err != nil {
		return nil, err
	}
	d := &onDisk{root: root, name: name, snapshot: snapshot, karpenter: karpenter, files: render.NewFiles(*snapshot)}
	read, err := karpenter.ReadValues(d.files, name)
	if err != nil {
		return nil, err
	}
	merged, err := desired.MergeInGit(karpenter, read)
	d.values = merged.Merged
	return d, err
}

// repositoryOf finds the root of the repository that a folder is in, so that
// bases beside it are found, and the folder's place in it. Where no repository
// is, the folder itself is the root.
func repositoryOf(folder string) (root, name string, err error) {
	absolute, err := filepath.Abs(folder)
	if err != nil {
		return "", "", fmt.Errorf("find %s: %w", folder, err)
	}
	if info, err := os.Stat(absolute); err != nil || !info.IsDir() {
		return "", "", fmt.Errorf("%s is not a folder", folder)
	}
	for dir := absolute; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, ".git")); err == nil {
			name, err := filepath.Rel(dir, absolute)
			return dir, filepath.ToSlash(name), err
		}
		if dir == filepath.Dir(dir) {
			return absolute, ".", nil
		}
	}
}

// check says that a Set was not validated against the version that Git names.
func (r *rendered) check() error {
	if r.unvalidated == "" {
		return nil
	}
	return &exitError{code: exitFailed, message: fmt.Sprintf("not validated against %s: give its CRDs with --crds DIR", r.unvalidated)}
}
