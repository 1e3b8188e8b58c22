package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/cmd/plumbline/display"
	"github.com/plumbline-dev/plumbline/internal/pause"
	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/provision/images"
	"github.com/plumbline-dev/plumbline/reconcile/report"
	"github.com/plumbline-dev/plumbline/redact"
	"github.com/plumbline-dev/plumbline/render"
)

// imagesAWS is what `plumbline images` queries.
type imagesAWS interface {
	images.AWS
	Cluster(ctx context.Context, name string) (cloud.Cluster, error)
}

// imagesCommand is `plumbline images`.
type imagesCommand struct {
	kubernetes, crds string
	// dial connects to AWS in a region, with the user's credentials.
	dial func(ctx context.Context, region string) (imagesAWS, error)
	now  func() time.Time
}

// newImages returns one that queries as the user.
func newImages() imagesCommand {
	return imagesCommand{now: time.Now, dial: func(ctx context.Context, region string) (imagesAWS, error) { return dialPatiently(ctx, region) }}
}

func newImagesCommand(o imagesCommand) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "images [PATH]",
		Short: "Show the AMIs that the EC2NodeClasses of a folder select, how old they are, and what is newer",
		Long: `Render a folder of a checkout, and query AWS, with your credentials, for the AMIs that each
EC2NodeClass selects for the Kubernetes version of the cluster. For each of them the command
prints which NodePools use it, how old it is, whether it is deprecated, and the newest one that
AWS publishes for the same family, architecture and variant.

For an alias @latest it prints the alias that pins the same AMIs. For AMIs that AWS does not
publish for EKS, it is unknown what is newer.

The Kubernetes version is that of the EKS cluster in plumbline.yaml, or --kubernetes. Required
permissions: eks:DescribeCluster, ec2:DescribeImages, ssm:GetParameter. What AWS does not
answer is printed as unknown.

Exit codes: 0 nothing is newer; 1 an error, or something is unknown and nothing newer was found;
2 an AMI is deprecated, a newer one is published, or an EC2NodeClass has none.`,
		Example:           "  plumbline images ./clusters/prod-eu\n  plumbline images ./clusters/prod-eu --kubernetes 1.36 -o markdown",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: onlyFolders,
	}
	output := addOutput(cmd, formatMarkdown)
	cmd.Flags().StringVar(&o.kubernetes, "kubernetes", "", "version of Kubernetes, such as 1.36; default: that of the EKS cluster")
	cmd.Flags().StringVar(&o.crds, "crds", "", "folder with the CRDs of the version in Git, as for plumbline render")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		found, err := o.examine(cmd.Context(), folderOf(args))
		if err != nil {
			return err
		}
		if *output == formatMarkdown {
			err = found.writeMarkdown(&display.Visible{Writer: cmd.OutOrStdout()})
		} else {
			err = output.write(cmd.OutOrStdout(), found, func(out io.Writer) error { found.print(out); return nil })
		}
		if err != nil {
			return err
		}
		return found.exit()
	}
	return cmd
}

// imagesReport is the output of `plumbline images`.
type imagesReport struct {
	Cluster string `json:"cluster"`
	Region  string `json:"region"`
	// Kubernetes is the version for which AMIs were looked up; empty if it is unknown.
	Kubernetes string         `json:"kubernetes,omitempty"`
	Classes    []images.Class `json:"ec2NodeClasses"`
}

// examine renders a folder, and queries AWS.
func (o imagesCommand) examine(ctx context.Context, folder string) (*imagesReport, error) {
	rendered, err := renderFolder(ctx, folder, o.crds, false)
	if err != nil {
		return nil, err
	}
	classes, pools, err := classesOf(rendered.set)
	if err != nil {
		return nil, err
	}
	of := rendered.set.Karpenter.Cluster
	found := &imagesReport{Cluster: of.Name, Region: of.Region, Kubernetes: o.kubernetes, Classes: []images.Class{}}
	reader, err := o.reader(ctx, found)
	for _, class := range classes {
		used := pools[class.Name]
		if err != nil {
			found.Classes = append(found.Classes, images.Unread(class, used, err, o.now()))
			continue
		}
		found.Classes = append(found.Classes, reader.Class(ctx, class, used))
	}
	return found, ctx.Err()
}

// reader connects to AWS, and finds the Kubernetes version if it was not given.
func (o imagesCommand) reader(ctx context.Context, of *imagesReport) (*images.Reader, error) {
	if of.Region == "" {
		return nil, errors.New("plumbline.yaml has no cluster.region")
	}
	aws, err := o.dial(ctx, of.Region)
	if err != nil {
		return nil, err
	}
	if of.Kubernetes == "" {
		found, err := aws.Cluster(ctx, of.Cluster)
		if err != nil {
			return nil, fmt.Errorf("the Kubernetes version of the cluster could not be read (or give --kubernetes): %w", err)
		}
		of.Kubernetes = found.Version
	}
	wait := func(ctx context.Context, until time.Time) error { return pause.For(ctx, until.Sub(o.now())) }
	return &images.Reader{AWS: aws, Kubernetes: of.Kubernetes, Now: o.now, Wait: wait}, nil
}

// classesOf returns the EC2NodeClasses of a Set, and the NodePools that name each.
func classesOf(set *render.Set) (classes []*awsv1.EC2NodeClass, pools map[string][]*karpv1.NodePool, err error) {
	pools = map[string][]*karpv1.NodePool{}
	for _, object := range set.Objects {
		var into any
		class, pool := &awsv1.EC2NodeClass{}, &karpv1.NodePool{}
		switch object.Ref.Kind {
		case render.EC2NodeClass:
			into, classes = class, append(classes, class)
		case render.NodePool:
			into = pool
		default:
			continue
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Desired.Object, into); err != nil {
			return nil, nil, fmt.Errorf("read %s: %w", object.Ref, err)
		}
		if ref := pool.Spec.Template.Spec.NodeClassRef; ref != nil {
			pools[ref.Name] = append(pools[ref.Name], pool)
		}
	}
	return classes, pools, nil
}

// exit returns the command's exit code.
func (r *imagesReport) exit() error {
	switch {
	case slices.ContainsFunc(r.Classes, images.Class.Outdated):
		return &exitError{code: exitChanges}
	case slices.ContainsFunc(r.Classes, func(c images.Class) bool { return c.Unknown != "" }):
		return &exitError{code: exitFailed, message: "plumbline: something could not be read, so it is unknown whether it is outdated"}
	}
	return nil
}

var imageColumns = []string{"EC2NODECLASS", "NODEPOOLS", "SELECTS", "IMAGE", "ARCH", "AGE", "NEWER"}

// rows returns a row for each release that a class selects, whatever the architectures and variants.
func (r *imagesReport) rows() (rows [][]string) {
	for _, class := range r.Classes {
		var order []string
		groups := map[string][]images.Image{}
		for _, i := range class.Images {
			key := fmt.Sprint(cmp.Or(i.Version, i.ID), i.Deprecated, i.Newer != nil)
			if groups[key] == nil {
				order = append(order, key)
			}
			groups[key] = append(groups[key], i)
		}
		if len(order) == 0 {
			rows = append(rows, []string{class.Name, poolsOfImages(class, nil), class.Selects, "unknown", "", "", ""})
		}
		for _, key := range order {
			rows = append(rows, rowOfImages(class, groups[key]))
		}
	}
	return rows
}

// rowOfImages returns the row of AMIs of one release.
func rowOfImages(class images.Class, of []images.Image) []string {
	first := of[0]
	name, age, newer := cmp.Or(first.Version, first.ID), "unknown", "unknown"
	if first.Deprecated {
		name += " (deprecated)"
	}
	if first.Published != nil {
		age = english.Plural(first.AgeDays, "day", "")
	}
	switch {
	case first.Newer != nil:
		newer = cmp.Or(first.Newer.Alias, first.Newer.ID) + first.Newer.Published.Format(" (2006-01-02)")
	case class.Unknown == "" && first.Variant != "":
		newer = "none"
	}
	var archs []string
	for _, i := range of {
		arch := i.Arch
		if i.Variant != "" && i.Variant != "standard" {
			arch += " " + i.Variant
		}
		if !slices.Contains(archs, arch) {
			archs = append(archs, arch)
		}
	}
	slices.Sort(archs)
	return []string{class.Name, poolsOfImages(class, of), class.Selects, name, strings.Join(archs, ", "), age, newer}
}

// poolsOfImages returns the NodePools whose nodes may run one of some AMIs; all if nil.
func poolsOfImages(class images.Class, of []images.Image) string {
	var names []string
	for _, pool := range class.Pools {
		runs := func(i images.Image) bool { return i.ID == "" || slices.Contains(pool.Images, i.ID) }
		if of == nil || slices.ContainsFunc(of, runs) {
			names = append(names, pool.Name)
		}
	}
	return cmp.Or(strings.Join(names, ", "), "none")
}

// sentences returns what the rows do not contain.
func (r *imagesReport) sentences() (lines []string) {
	for _, class := range r.Classes {
		say := func(what, text string) {
			if text != "" {
				lines = append(lines, fmt.Sprintf("EC2NodeClass/%s: %s%s", class.Name, what, oneLine(text)))
			}
		}
		say("", class.Problem)
		say("unknown: ", class.Unknown)
		for _, note := range class.Notes {
			say("", note)
		}
		if class.Pin != "" {
			say("", "pin it: amiSelectorTerms: [{alias: "+class.Pin+"}]")
		}
		told := map[string]bool{}
		for _, i := range class.Images {
			if i.Newer != nil && i.Newer.ReleaseNotes != "" && !told[i.Newer.ReleaseNotes] {
				told[i.Newer.ReleaseNotes] = true
				say("release notes of "+i.Newer.Alias+": ", i.Newer.ReleaseNotes)
			}
		}
	}
	return lines
}

func (r *imagesReport) title() string {
	return fmt.Sprintf("cluster %s in %s, Kubernetes %s", r.Cluster, r.Region, cmp.Or(r.Kubernetes, "unknown"))
}

// print prints the report as a table.
func (r *imagesReport) print(out io.Writer) {
	fmt.Fprintln(out, r.title())
	if len(r.Classes) == 0 {
		fmt.Fprintln(out, "no EC2NodeClass")
		return
	}
	var header []any
	for _, column := range imageColumns {
		header = append(header, column)
	}
	fmt.Fprintln(out)
	t := display.NewTable(out, header...)
	for _, row := range r.rows() {
		var cells []any
		for _, cell := range row {
			cells = append(cells, cell)
		}
		t.AppendRow(cells)
	}
	t.Render()
	if lines := r.sentences(); len(lines) > 0 {
		fmt.Fprintln(out)
		for _, line := range lines {
			fmt.Fprintln(out, redact.Visible(line))
		}
	}
}

// writeMarkdown writes the report for a comment or a page.
func (r *imagesReport) writeMarkdown(out io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "## plumbline images: %s\n\n", r.title())
	fmt.Fprintf(&b, "| %s |\n|%s\n", strings.Join(imageColumns, " | "), strings.Repeat("---|", len(imageColumns)))
	for _, row := range r.rows() {
		for _, cell := range row {
			b.WriteString("| " + codeOrNothing(cell) + " ")
		}
		b.WriteString("|\n")
	}
	for i, line := range r.sentences() {
		if i == 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "- %s\n", report.Code(line))
	}
	_, err := io.WriteString(out, b.String())
	return err
}

func codeOrNothing(cell string) string {
	if cell == "" {
		return ""
	}
	return report.Code(cell)
}
