package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"oras.land/oras-go/v2/registry/remote/credentials"

	"github.com/plumbline-dev/plumbline/cmd/plumbline/display"
	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/render"
)

// vendorOptions are the flags of `plumbline vendor`.
type vendorOptions struct {
	to, from, caFile string
	write            bool
}

func newVendorCommand() *cobra.Command {
	o := &vendorOptions{}
	cmd := &cobra.Command{
		Use:   "vendor [PATH]",
		Short: "Put Karpenter's charts into the repository, for clusters that reach no registry",
		Long: `Pull both charts of the version in PATH/plumbline.yaml, write them into a folder
of the checkout, and print their digests and the lines that plumbline.yaml needs to
install them from there. Use it for clusters that cannot reach a registry. With --write
the command edits plumbline.yaml and changes nothing else in it. Commit both.

The charts come from the repository that plumbline.yaml names or, if that is already a
folder, from ` + render.DefaultRepository + `. Credentials are those of
docker login.`,
		Example:           "  plumbline vendor ./clusters/prod-eu --write",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: onlyFolders,
	}
	output := addOutput(cmd)
	cmd.Flags().StringVar(&o.to, "to", "", "folder to write to; default charts, beside plumbline.yaml")
	cmd.Flags().StringVar(&o.from, "from", "", "repository to pull from: oci://… or https://…")
	cmd.Flags().StringVar(&o.caFile, "ca-file", "", "PEM file with certificate authorities to trust in addition to the system's")
	cmd.Flags().BoolVar(&o.write, "write", false, "set repository and digests in plumbline.yaml")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		report, err := o.vendor(cmd.Context(), folderOf(args))
		if err != nil {
			return err
		}
		return output.write(cmd.OutOrStdout(), report, func(out io.Writer) error { return report.print(out) })
	}
	return cmd
}

// vendor pulls and writes the charts, and edits plumbline.yaml with --write.
func (o *vendorOptions) vendor(ctx context.Context, folder string) (*vendorReport, error) {
	at, err := openOnDisk(folder)
	if err != nil {
		return nil, err
	}
	karpenter := at.karpenter
	if karpenter.Management != render.Managed {
		return nil, fmt.Errorf("management is %s in %s: the tool that installs Karpenter has its charts", karpenter.Management, render.FileName)
	}
	dir, repository, err := o.place(at.root, at.name)
	if err != nil {
		return nil, err
	}
	written, err := o.pull(ctx, karpenter, at.name, dir)
	if err != nil {
		return nil, err
	}
	report := &vendorReport{
		Version: karpenter.Version, Repository: repository, Folder: dir,
		File: filepath.Join(at.root, filepath.FromSlash(at.name), render.FileName),
	}
	for _, one := range written {
		report.Charts = append(report.Charts, vendoredChart{Chart: one.Chart, File: one.File, Digest: one.Digest})
	}
	if o.write {
		report.Written = true
		return report, report.edit()
	}
	return report, nil
}

// place returns the folder to write to, and its name in plumbline.yaml.
func (o *vendorOptions) place(root, name string) (dir, repository string, err error) {
	home := filepath.Join(root, filepath.FromSlash(name))
	dir = filepath.Join(home, "charts")
	if o.to != "" {
		if dir, err = filepath.Abs(o.to); err != nil {
			return "", "", fmt.Errorf("find --to %s: %w", o.to, err)
		}
	}
	below, err := filepath.Rel(root, dir)
	if err != nil || below == ".." || strings.HasPrefix(below, ".."+string(filepath.Separator)) {
		return "", "", fmt.Errorf("--to %s is outside of the repository %s: only what is committed reaches the cluster", o.to, root)
	}
	relative, err := filepath.Rel(home, dir)
	if err != nil {
		return "", "", fmt.Errorf("find --to %s: %w", o.to, err)
	}
	repository = filepath.ToSlash(relative)
	if !strings.HasPrefix(repository, ".") {
		repository = "./" + repository
	}
	return dir, repository, nil
}

// pull writes the charts into a folder, with a temporary cache. Digests in plumbline.yaml belong to the charts' current
// repository, so they are only verified when pulling from there.
func (o *vendorOptions) pull(ctx context.Context, karpenter *render.Karpenter, name, dir string) ([]charts.Vendored, error) {
	cache, err := os.MkdirTemp("", "plumbline-vendor-")
	if err != nil {
		return nil, fmt.Errorf("make a folder for the charts: %w", err)
	}
	defer os.RemoveAll(cache)
	repository, inside, err := karpenter.ChartRepository(name)
	if err != nil {
		return nil, err
	}
	ref := charts.Ref{Repository: repository, Version: karpenter.Version}
	switch {
	case o.from != "":
		ref.Repository = o.from
	case inside:
		ref.Repository = render.DefaultRepository
	default:
		ref.Digests = charts.Digests{CRD: karpenter.Digests.CRD, Controller: karpenter.Digests.Controller}
	}
	keys, err := o.keys()
	if err != nil {
		return nil, err
	}
	pulled, err := charts.NewStore(charts.StoreOptions{Dir: cache, Confine: confined(ctx)}).Resolve(ctx, ref, charts.Access{Keys: keys})
	if err != nil {
		return nil, err
	}
	return pulled.Vendor(dir)
}

// keys returns the keys of docker login.
func (o *vendorOptions) keys() (charts.Keys, error) {
	if o.caFile == "" {
		return dockerLogin(nil)
	}
	authorities, err := os.ReadFile(o.caFile)
	if err != nil {
		return nil, fmt.Errorf("read --ca-file: %w", err)
	}
	return dockerLogin(authorities)
}

// dockerLogin returns the credentials of docker login, and authorities that are trusted in addition to the system's.
func dockerLogin(authorities []byte) (charts.Keys, error) {
	store, err := credentials.NewStoreFromDocker(credentials.StoreOptions{})
	if err != nil {
		return nil, fmt.Errorf("read the credentials of docker login: %w", err)
	}
	return func(ctx context.Context, host string) (charts.Credentials, error) {
		found, err := store.Get(ctx, host)
		if err != nil {
			return charts.Credentials{}, fmt.Errorf("read the credentials of docker login for %s: %w", host, err)
		}
		return charts.Credentials{Username: found.Username, Password: found.Password, CA: authorities, Origin: "docker login"}, nil
	}, nil
}

// vendorReport is what `plumbline vendor` prints.
type vendorReport struct {
	Version    string          `json:"version"`
	Repository string          `json:"repository"`
	Folder     string          `json:"folder"`
	File       string          `json:"file"`
	Charts     []vendoredChart `json:"charts"`
	Written    bool            `json:"written"`
}

type vendoredChart struct {
	Chart  string `json:"chart"`
	File   string `json:"file"`
	Digest string `json:"digest"`
}

// edit writes the charts' location and digests into plumbline.yaml.
func (r *vendorReport) edit() error {
	text, err := os.ReadFile(r.File)
	if err != nil {
		return fmt.Errorf("read %s: %w", r.File, err)
	}
	var digests render.Digests
	for _, one := range r.Charts {
		if one.Chart == charts.CRDChart {
			digests.CRD = one.Digest
		} else {
			digests.Controller = one.Digest
		}
	}
	if text, err = render.SetCharts(r.File, text, r.Repository, digests); err != nil {
		return fmt.Errorf("the charts are in %s, but plumbline.yaml was not changed: %w", r.Folder, err)
	}
	if err := os.WriteFile(r.File, text, 0o644); err != nil {
		return fmt.Errorf("write %s: %w", r.File, err)
	}
	return nil
}

// print prints the digests, and what is left to do.
func (r *vendorReport) print(out io.Writer) error {
	t := display.NewFittedTable(out, "CHART", "FILE", "DIGEST")
	for _, one := range r.Charts {
		t.AppendRow([]any{one.Chart, filepath.Join(r.Folder, one.File), one.Digest})
	}
	t.Render()
	if r.Written {
		fmt.Fprintf(out, "\n%s is updated. Commit it together with %s.\n", r.File, r.Folder)
		r.printAllow(out)
		return nil
	}
	fmt.Fprintf(out, "\nAdd to %s, and commit it together with %s:\n\nrepository: %s\ndigests:\n", r.File, r.Folder, r.Repository)
	for _, one := range r.Charts {
		fmt.Fprintf(out, "  %s: %s\n", one.Chart, one.Digest)
	}
	r.printAllow(out)
	return nil
}

// printAllow prints what the NodeSync must allow: except for their digests, charts in Git are whatever is committed.
func (r *vendorReport) printAllow(out io.Writer) {
	var digests []string
	for _, one := range r.Charts {
		digests = append(digests, one.Digest)
	}
	fmt.Fprintf(out, "\nAllow the NodeSync to use charts from there, with these digests only:\n\nspec: {charts: {allow: {repositories: [%s], digests: [%s]}}}\n",
		r.Repository, strings.Join(digests, ", "))
}
