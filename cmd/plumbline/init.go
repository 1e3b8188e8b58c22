package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"

	"github.com/plumbline-dev/plumbline/cmd/plumbline/display"
	"github.com/plumbline-dev/plumbline/internal/pause"
	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/provision/karpenter"
	"github.com/plumbline-dev/plumbline/provision/nodegroup"
	"github.com/plumbline-dev/plumbline/redact"
	"github.com/plumbline-dev/plumbline/render"
)

// initOptions are the flags of `plumbline init`.
type initOptions struct {
	cluster, region string
	// path is the folder of plumbline.yaml; default: clusters/<cluster>.
	path string
	// branch is the new branch to commit on; empty: nothing is committed.
	branch string
	// provider is the kind of the Git host; default: that of the clone's remote.
	provider string
	// from are node groups as nodegroup/NAME.
	from   []string
	dryRun bool
	make   nodegroup.Options
}

// initCommand is `plumbline init`.
type initCommand struct {
	// dial connects to AWS in a region, with the user's credentials.
	dial func(ctx context.Context, region string) (nodegroup.AWS, error)
	now  func() time.Time
	// propose opens a pull request.
	propose func(ctx context.Context, p initProposal) (url string, err error)
}

// newInit returns one that acts as the user.
func newInit() initCommand {
	return initCommand{
		now: time.Now, propose: proposeByToken,
		dial: func(ctx context.Context, region string) (nodegroup.AWS, error) { return dialPatiently(ctx, region) },
	}
}

func newInitCommand(c initCommand) *cobra.Command {
	o := initOptions{}
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Write the first definitions for an EKS cluster, from what exists in AWS",
		Long: `Read an EKS cluster, its managed node groups and their launch templates, and write into a clone of
a repository: plumbline.yaml, an EC2NodeClass and a NodePool that fit what was found, with the
newest AMI that AWS publishes for the cluster's Kubernetes, pinned, and a pipeline that plans
pull requests, for the host of the clone's remote. The command never overwrites a file.

With --from nodegroup/NAME it writes an EC2NodeClass and a NodePool whose nodes are equal to those
of the node group: types, zones, labels, taints, capacity type, disks, AMI family, user data,
metadata options. It prints what cannot be equal, and what you have to decide. If the folder has
a plumbline.yaml already, only the definitions are added.

With --branch it creates a branch in the clone, commits the files with your Git identity, and
pushes. If the environment has a token of the host (GITHUB_TOKEN, GH_TOKEN, GITLAB_TOKEN,
GITEA_TOKEN), it opens a pull request.

The files are rendered before they are written, as plumbline render does. Required permissions:
eks:DescribeCluster, eks:ListNodegroups, eks:DescribeNodegroup, ec2:DescribeImages,
ec2:DescribeInstanceTypes, ec2:DescribeLaunchTemplateVersions, ec2:DescribeRouteTables,
ec2:DescribeSubnets, sqs:GetQueueUrl, sqs:GetQueueAttributes, ssm:GetParameter.`,
		Example: `  plumbline init --cluster prod-eu --region eu-west-1 --dry-run
  plumbline init --cluster prod-eu --branch karpenter
  plumbline init --cluster prod-eu --from nodegroup/batch --from nodegroup/web`,
		Args: cobra.NoArgs,
	}
	output := addOutput(cmd)
	o.addFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		report, err := c.run(cmd.Context(), o)
		if report != nil {
			if err := output.write(cmd.OutOrStdout(), report, func(out io.Writer) error { report.print(out); return nil }); err != nil {
				return err
			}
		}
		return err
	}
	return cmd
}

func (o *initOptions) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&o.cluster, "cluster", "", "name of the EKS cluster")
	flags.StringVar(&o.region, "region", "", "region of the cluster; default: that of your AWS configuration")
	flags.StringVar(&o.path, "path", "", "folder to write to; default: clusters/CLUSTER")
	flags.StringArrayVar(&o.from, "from", nil, "nodegroup/NAME: make nodes equal to those of this managed node group; may be repeated")
	flags.StringVar(&o.branch, "branch", "", "new branch on which to commit the files")
	flags.StringVar(&o.provider, "provider", "", "kind of the Git host: github, gitlab, gitea or forgejo; default: found by its name")
	flags.StringVar(&o.make.Version, "version", "", "version of Karpenter; default: "+karpenter.Newest())
	flags.StringVar(&o.make.NodeRole, "node-role", "", "name of the IAM role of nodes; default: KarpenterNodeRole-CLUSTER, with --from that of the node group")
	flags.StringVar(&o.make.ControllerRole, "controller-role", "", "ARN of the role of Karpenter's controller, with IRSA")
	flags.StringVar(&o.make.InterruptionQueue, "interruption-queue", "", "name of the SQS queue; default: the one that has the cluster's name")
	flags.StringVar(&o.make.Keep, "keep", "", "node group on which Karpenter's controller runs; default: the only one")
	flags.BoolVar(&o.dryRun, "dry-run", false, "print the files, and write nothing")
}

// initReport is the output of `plumbline init`.
type initReport struct {
	Cluster string `json:"cluster"`
	Region  string `json:"region"`
	// Root is the root of the repository, and Files are the files from there.
	Root  string           `json:"root"`
	Files []initFile       `json:"files"`
	Notes []nodegroup.Note `json:"notes"`
	// Written reports whether the files were written. Branch has the commit, and PullRequest is its address.
	Written     bool   `json:"written"`
	Branch      string `json:"branch,omitempty"`
	Pushed      bool   `json:"pushed,omitempty"`
	PullRequest string `json:"pullRequest,omitempty"`
}

// initFile is a file of the repository.
type initFile struct {
	nodegroup.File `json:",inline"`
	// Exists reports whether the repository has the file with this text already.
	Exists bool `json:"exists,omitempty"`
}

// run reads AWS, and writes the files. If there is a report with an error, it says what was done before.
func (c initCommand) run(ctx context.Context, o initOptions) (*initReport, error) {
	if err := o.complete(ctx); err != nil {
		return nil, err
	}
	aws, err := c.dial(ctx, o.region)
	if err != nil {
		return nil, err
	}
	wait := func(ctx context.Context, until time.Time) error { return pause.For(ctx, until.Sub(c.now())) }
	found, err := (&nodegroup.Reader{AWS: aws, Region: o.region, Wait: wait, Now: c.now}).Read(ctx, o.cluster, o.make.From)
	if err != nil {
		return nil, err
	}
	report, err := planInit(ctx, found, o)
	if err != nil || o.dryRun {
		return report, err
	}
	if o.branch == "" {
		return report, report.write()
	}
	return report, c.commit(ctx, o, report)
}

// complete checks the flags, and sets their defaults.
func (o *initOptions) complete(ctx context.Context) error {
	if o.cluster == "" {
		return errors.New("give the name of the EKS cluster: --cluster NAME")
	}
	for _, from := range o.from {
		name, ok := strings.CutPrefix(from, "nodegroup/")
		if !ok || name == "" {
			return fmt.Errorf("--from %s: give nodegroup/NAME", from)
		}
		if !slices.Contains(o.make.From, name) {
			o.make.From = append(o.make.From, name)
		}
	}
	if o.provider != "" && ciFiles[o.provider] == (ciFile{}) {
		return fmt.Errorf("--provider %s is not one of github, gitlab, gitea, forgejo", o.provider)
	}
	o.path = cmp.Or(o.path, filepath.Join("clusters", o.cluster))
	if o.region != "" {
		return nil
	}
	region, err := cloud.DefaultRegion(ctx)
	if err == nil && region == "" {
		err = errors.New("your AWS configuration has no region: give --region")
	}
	o.region = region
	return err
}

// planInit makes the files for what was found, and checks that they can be written and rendered. It writes nothing.
func planInit(ctx context.Context, found nodegroup.Found, o initOptions) (*initReport, error) {
	made, err := nodegroup.Make(found, o.make)
	if err != nil {
		return nil, err
	}
	unvalidated, err := renders(ctx, made.Files)
	if err != nil {
		return nil, err
	}
	r := &initReport{Cluster: found.Cluster, Region: found.Region, Notes: made.Notes}
	if unvalidated {
		r.note(nodegroup.Decide, nodegroup.ConfigFile, "this plumbline does not have the CRDs of Karpenter %s: run plumbline render with --crds", o.make.Version)
	}
	folder, err := r.locate(o.path)
	if err != nil {
		return nil, err
	}
	into, exists, err := r.existing(o, folder)
	if err != nil {
		return nil, err
	}
	for _, file := range made.Files {
		switch {
		case file.Name == nodegroup.ConfigFile && exists:
			r.Notes = slices.DeleteFunc(r.Notes, func(n nodegroup.Note) bool { return n.Object == nodegroup.ConfigFile })
			continue
		case file.Name == nodegroup.ConfigFile:
			file.Name = path.Join(folder, file.Name)
		default:
			file.Name = path.Join(into, path.Base(file.Name))
		}
		r.Files = append(r.Files, initFile{File: file})
	}
	if !exists {
		r.addPipeline(ctx, o, folder)
	}
	return r, r.compare()
}

func (r *initReport) note(kind nodegroup.NoteKind, object, text string, args ...any) {
	r.Notes = append(r.Notes, nodegroup.Note{Kind: kind, Object: object, Text: fmt.Sprintf(text, args...)})
}

// renders renders the files in a temporary folder. unvalidated reports whether the CRDs of their version are unavailable.
func renders(ctx context.Context, files []nodegroup.File) (unvalidated bool, err error) {
	folder, err := os.MkdirTemp("", "plumbline-init-")
	if err != nil {
		return false, fmt.Errorf("make a folder to render the files: %w", err)
	}
	defer os.RemoveAll(folder)
	for _, file := range files {
		if err := writeNew(filepath.Join(folder, filepath.FromSlash(file.Name)), file.Text); err != nil {
			return false, err
		}
	}
	rendered, err := renderFolder(ctx, folder, "", false)
	if err != nil {
		return false, fmt.Errorf("the definitions for what was found in AWS are not valid: %w", err)
	}
	return rendered.unvalidated != "", nil
}

// locate finds the root of the repository, and returns the path of a folder in it. The folder may not exist yet.
func (r *initReport) locate(folder string) (name string, err error) {
	absolute, err := filepath.Abs(folder)
	if err != nil {
		return "", fmt.Errorf("find --path %s: %w", folder, err)
	}
	parent := absolute
	for {
		info, err := os.Stat(parent)
		if err == nil && !info.IsDir() {
			return "", fmt.Errorf("--path %s: %s is a file", folder, parent)
		}
		if err == nil {
			break
		}
		if !errors.Is(err, fs.ErrNotExist) || filepath.Dir(parent) == parent {
			return "", err
		}
		parent = filepath.Dir(parent)
	}
	if r.Root, _, err = repositoryOf(parent); err != nil {
		return "", err
	}
	relative, err := filepath.Rel(r.Root, absolute)
	return filepath.ToSlash(relative), err
}

// existing returns the folder to which definitions go, and whether there is a plumbline.yaml of the same cluster already.
func (r *initReport) existing(o initOptions, folder string) (into string, exists bool, err error) {
	home := filepath.Join(r.Root, filepath.FromSlash(folder))
	if _, err := os.Lstat(filepath.Join(home, render.FileName)); errors.Is(err, fs.ErrNotExist) {
		return path.Join(folder, nodegroup.NodesFolder), false, nil
	}
	at, err := openOnDisk(home)
	if err != nil {
		return "", false, err
	}
	name := path.Join(folder, render.FileName)
	switch of := at.karpenter.Cluster; {
	case of.Name != r.Cluster || of.Region != r.Region:
		return "", false, fmt.Errorf("%s is of the cluster %s in %s: give another --path", name, of.Name, of.Region)
	case len(o.make.From) == 0:
		return "", false, fmt.Errorf("%s exists, and plumbline init overwrites no file: use --from nodegroup/NAME to add definitions, or give another --path", name)
	}
	into = folder
	for _, entry := range at.karpenter.Nodes {
		info, err := os.Stat(filepath.Join(home, filepath.FromSlash(entry)))
		if err == nil && info.IsDir() {
			into = path.Join(folder, entry)
			break
		}
	}
	for _, kustomization := range []string{"kustomization.yaml", "kustomization.yml", "Kustomization"} {
		if _, err := os.Stat(filepath.Join(r.Root, filepath.FromSlash(into), kustomization)); err == nil {
			r.note(nodegroup.Decide, path.Join(into, kustomization), "add the new file to its resources")
		}
	}
	return into, true, nil
}

// compare returns an error if the repository has one of the files with another text.
func (r *initReport) compare() error {
	var taken []string
	for i := range r.Files {
		text, err := os.ReadFile(r.pathOf(r.Files[i]))
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return err
		case string(text) == r.Files[i].Text:
			r.Files[i].Exists = true
		default:
			taken = append(taken, r.Files[i].Name)
		}
	}
	if len(taken) > 0 {
		return fmt.Errorf("plumbline init overwrites no file: %s %s, with another content: move or delete %s, or give another --path",
			strings.Join(taken, ", "), english.PluralWord(len(taken), "exists", "exist"), english.PluralWord(len(taken), "it", "them"))
	}
	return nil
}

func (r *initReport) pathOf(f initFile) string {
	return filepath.Join(r.Root, filepath.FromSlash(f.Name))
}

// write writes the files that do not exist. If one cannot be written, those that were written are deleted again.
func (r *initReport) write() (err error) {
	var made []string
	defer func() {
		if err != nil {
			for _, name := range made {
				err = errors.Join(err, os.Remove(name))
			}
		}
	}()
	for _, file := range r.Files {
		if file.Exists {
			continue
		}
		name := r.pathOf(file)
		if err := writeNew(name, file.Text); err != nil {
			return err
		}
		made = append(made, name)
	}
	r.Written = true
	return nil
}

// writeNew writes a file, and its folders. It fails if the file exists.
func writeNew(name, text string) (err error) {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	if _, err = io.WriteString(file, text); err != nil {
		return errors.Join(err, file.Close(), os.Remove(name))
	}
	return file.Close()
}

// print prints the files, what to know about them, and what was done.
func (r *initReport) print(out io.Writer) {
	for _, file := range r.Files {
		switch {
		case file.Exists:
			fmt.Fprintf(out, "unchanged  %s\n", redact.VisibleName(file.Name))
		case r.Written:
			fmt.Fprintf(out, "written    %s\n", redact.VisibleName(file.Name))
		default:
			fmt.Fprintf(out, "would write %s\n\n%s\n", redact.VisibleName(file.Name), indented(file.Text))
		}
	}
	if len(r.Notes) > 0 {
		fmt.Fprintln(out)
		t := display.NewFittedTable(out, "NOTE", "OBJECT", "FIELD", "")
		for _, kind := range []nodegroup.NoteKind{nodegroup.Decide, nodegroup.Differs, nodegroup.Info} {
			for _, n := range r.Notes {
				if n.Kind == kind {
					t.AppendRow([]any{string(kind), n.Object, n.Field, oneLine(n.Text)})
				}
			}
		}
		t.Render()
	}
	if r.Branch != "" {
		fmt.Fprintf(out, "\ncommitted on branch %s\n", redact.Visible(r.Branch))
	}
	switch {
	case r.PullRequest != "":
		fmt.Fprintf(out, "pull request: %s\n", redact.Visible(r.PullRequest))
	case r.Pushed:
		fmt.Fprintf(out, "pushed: open a pull request from it\n")
	}
}

// indented indents the lines of a text.
func indented(text string) string {
	return "    " + strings.ReplaceAll(strings.TrimSuffix(redact.Visible(text), "\n"), "\n", "\n    ") + "\n"
}
