package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/reconcile/evaluate"
	"github.com/plumbline-dev/plumbline/reconcile/review"
	"github.com/plumbline-dev/plumbline/reconcile/source"
	"github.com/plumbline-dev/plumbline/render"
	"github.com/plumbline-dev/plumbline/render/schema"
)

// crdsOf returns the CRDs of the version in Git: those that this program was built with, or those of its chart.
func crdsOf(
	ctx context.Context, git *render.Karpenter, path string, files *render.Snapshot,
) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	if embedded, err := schema.EmbeddedOf(git.Version); embedded != nil || err != nil {
		return embedded, err
	}
	keys, err := dockerLogin(nil)
	if err != nil {
		return nil, err
	}
	repository, _, err := git.ChartRepository(path)
	if err != nil {
		return nil, err
	}
	return chartCRDs(ctx, git, repository, charts.Access{Keys: keys, Files: render.NewFiles(*files)})
}

// chartCRDs returns the CRDs of the chart of the version in Git.
func chartCRDs(
	ctx context.Context, git *render.Karpenter, repository string, access charts.Access,
) (crds []*apiextensionsv1.CustomResourceDefinition, err error) {
	err = withChart(ctx, git, repository, access, func(pulled *charts.Charts) (err error) {
		crds, err = pulled.CRDs(ctx)
		return err
	})
	return crds, err
}

// withChart uses the charts of the version in Git, with a temporary cache.
func withChart(ctx context.Context, git *render.Karpenter, repository string, access charts.Access, use func(*charts.Charts) error) error {
	cache, err := os.MkdirTemp("", "plumbline-charts-")
	if err != nil {
		return fmt.Errorf("make a folder for the charts: %w", err)
	}
	defer os.RemoveAll(cache)
	pulled, err := charts.NewStore(charts.StoreOptions{Dir: cache, Confine: confined(ctx)}).Resolve(ctx, charts.Ref{
		Repository: repository, Version: git.Version,
		Digests: charts.Digests{CRD: git.Digests.CRD, Controller: git.Digests.Controller},
	}, access)
	if err != nil {
		return err
	}
	return use(pulled)
}

// offlineCRDs returns the CRDs in the given folder, if there is one; otherwise those of the charts in the checkout, as
// the daemon would use them; otherwise those that this program was built with. version is the version that they belong
// to; those of a given folder count as the version in Git.
func (d *onDisk) offlineCRDs(ctx context.Context, given string) (
	crds []*apiextensionsv1.CustomResourceDefinition, version string, err error,
) {
	git := d.karpenter
	if given != "" {
		crds, err = crdsInFolder(given)
		return crds, git.Version, err
	}
	repository, inside, err := git.ChartRepository(d.name)
	if err != nil {
		return nil, "", err
	}
	if inside {
		crds, err = chartCRDs(ctx, git, repository, charts.Access{Files: render.NewFiles(*d.snapshot)})
		return crds, git.Version, err
	}
	if crds, err = schema.EmbeddedOf(git.Version); crds != nil || err != nil {
		return crds, git.Version, err
	}
	crds, version, err = schema.Embedded()
	if git.Version == "" {
		version = "" // the tool that installs Karpenter decides it
	}
	return crds, version, err
}

// pullTime limits the time to pull a chart for a plan that works without it.
const pullTime = 30 * time.Second

// pullCRDs returns the CRDs of the chart of the version in Git. If the chart is unavailable, it returns the known ones,
// and the reason in unavailable.
func (d *onDisk) pullCRDs(
	ctx context.Context, known []*apiextensionsv1.CustomResourceDefinition,
) (crds []*apiextensionsv1.CustomResourceDefinition, version string, unavailable, err error) {
	limited, stop := context.WithTimeout(ctx, pullTime)
	defer stop()
	crds, err = crdsOf(limited, d.karpenter, d.name, d.snapshot)
	switch {
	case err == nil:
		return crds, d.karpenter.Version, nil, nil
	case ctx.Err() == nil && (review.OutOfReach(err) || errors.Is(err, context.DeadlineExceeded)):
		return known, schema.EmbeddedVersion, err, nil
	}
	return nil, "", nil, err
}

// noCRDsOffline returns a warning about what is unknown without a cluster and without the CRDs of a version.
func noCRDsOffline(version string, err error) string {
	return fmt.Sprintf("the CRDs of Karpenter %s are unavailable, so fields of definitions are not validated; provide them with --crds DIR, or compare with a cluster with --against NODESYNC: %v", version, err)
}

// crdsInFolder returns the CRDs in the YAML files of a folder.
func crdsInFolder(dir string) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.y*ml"))
	if err != nil {
		return nil, fmt.Errorf("read --crds %s: %w", dir, err)
	}
	var crds []*apiextensionsv1.CustomResourceDefinition
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("read --crds: %w", err)
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.Unmarshal(raw, crd); err != nil {
			return nil, fmt.Errorf("read --crds: %s: %w", file, err)
		}
		crds = append(crds, crd)
	}
	if len(crds) == 0 {
		return nil, fmt.Errorf("read --crds: no YAML file in %s", dir)
	}
	return crds, nil
}

// rendered is the result of rendering a folder on disk.
type rendered struct {
	set    *render.Set
	schema *schema.Validator
	// unvalidated is the version against which the Set could not be validated.
	unvalidated string
	// unchecked is a sentence on why the Set was not validated; empty if it was.
	unchecked string
}

// renderFolder renders a folder on disk, without a cluster or network. With pull, it pulls the chart of a version that
// this program was not built with to get its CRDs, if available.
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
		checks = nil // the checks of another version would reject valid fields
		r.unchecked = noCRDsOffline(r.unvalidated, unavailable)
	}
	r.set, err = render.Render(ctx, *at.snapshot, at.name, at.karpenter, checks, render.WithInputs(at.files.Inputs()),
		render.WithConfinement(confined(ctx)))
	if err != nil {
		return nil, err
	}
	r.set.Warnings = append(append(r.set.Warnings, at.clusterOnlyValues()...), untracked(at.root, at.name)...)
	return r, nil
}

// onDisk is a folder on disk with a plumbline.yaml.
type onDisk struct {
	// root is the root of the repository, and name the folder's path in it.
	root, name string
	snapshot   *render.Snapshot
	karpenter  *render.Karpenter
	// files contains the values files; values contains their values merged with those of plumbline.yaml.
	files  *render.Files
	values map[string]any
}

// clusterOnlyValues returns the names of the values that only the cluster has.
func (d *onDisk) clusterOnlyValues() []string {
	var words []string
	for _, from := range d.karpenter.ValuesFrom {
		words = append(words, fmt.Sprintf("values of %s are stored in the cluster and unknown here", from))
	}
	return words
}

// folderOf returns the folder given as an optional argument; the current one by default.
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
	merged, err := evaluate.MergeInGit(karpenter, read)
	d.values = merged.Merged
	return d, err
}

// repositoryOf returns the root of the repository that contains a folder, so that bases in sibling folders are found,
// and the folder's path in it. Outside of a repository, the folder itself is the root.
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

// check returns an error if the Set was not validated against the version in Git.
func (r *rendered) check() error {
	if r.unvalidated == "" {
		return nil
	}
	return &exitError{code: exitFailed, message: fmt.Sprintf("not validated against %s: provide its CRDs with --crds DIR", r.unvalidated)}
}

// loginStore pulls charts with the NodeSync's credentials for their host, if the user may read these, and otherwise
// with those of docker login.
type loginStore struct {
	*charts.Store
	login charts.Keys
}

// newLoginStore returns a store that keeps charts in a folder.
func newLoginStore(ctx context.Context, dir string) (*loginStore, error) {
	login, err := dockerLogin(nil)
	if err != nil {
		return nil, err
	}
	return &loginStore{Store: charts.NewStore(charts.StoreOptions{Dir: dir, Confine: confined(ctx)}), login: login}, nil
}

// Resolve implements Store.
func (s *loginStore) Resolve(ctx context.Context, ref charts.Ref, access charts.Access) (*charts.Charts, error) {
	return s.Store.Resolve(ctx, ref, s.with(access))
}

// Verify implements Store.
func (s *loginStore) Verify(ctx context.Context, ref charts.Ref, c *charts.Charts, access charts.Access, by charts.Signers) error {
	return s.Store.Verify(ctx, ref, c, s.with(access), by)
}

func (s *loginStore) with(access charts.Access) charts.Access {
	declared := access.Keys
	access.Keys = func(ctx context.Context, host string) (charts.Credentials, error) {
		found, err := declared(ctx, host)
		if err == nil && (found.Password != "" || len(found.CA) > 0) {
			return found, nil
		}
		return s.login(ctx, host)
	}
	return access
}
