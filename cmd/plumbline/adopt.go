package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/plumbline-dev/plumbline/cmd/plumbline/display"
	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/provision/charts/release"
	"github.com/plumbline-dev/plumbline/provision/charts/survey"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade"
	"github.com/plumbline-dev/plumbline/render"
)

// adoptOptions are the flags of `plumbline adopt`.
type adoptOptions struct {
	write bool
}

func newAdoptCommand(kubeconfig *genericclioptions.ConfigFlags) *cobra.Command {
	o, over := &adoptOptions{}, &handoverOptions{}
	cmd := &cobra.Command{
		Use:   "adopt [PATH | --from flux|argocd [KIND/NAME...]]",
		Short: "Show an existing Karpenter installation, and how to adopt it",
		Long: `Search the cluster of the kubeconfig for a Karpenter that another tool has installed:
Helm releases, CRDs and controllers, each with its owner. Print the lines that the
plumbline.yaml of a folder needs so that plumbline adopts it. Adoption deletes and
recreates nothing. The command only reads. PATH is the current folder by default.

With --write the command adds these lines to plumbline.yaml: adopt: true, and namespace
and version if they have to change. It changes nothing else in the file. Commit the file.

With --from the command shows how to hand NodePools and EC2NodeClasses over from Flux
or Argo CD to a NodeSync without losing a node: those that you name, or all that the tool
applies. The hand-over has five steps: annotate the objects so that neither tool deletes
them; move their files to the NodeSync's folder; wait until plumbline has adopted them;
remove the other tool's labels and field ownership; remove the annotations. The command
finds the current step in the cluster and in Git, so you can interrupt it and run it again.
--back hands them over in the other direction; people must approve that
plumbline stops managing them (plumbline approve).

With --repo the command shows the next commit as a diff of a clone. With --write it
performs the next step: it makes the commit, or removes what the other tool left on the
objects. With --push it performs all steps: it makes and pushes each commit and waits
until the tools have applied it. It never forces a push.

Exit codes: 0 nothing to adopt, or written, or the hand-over is complete; 1 something
blocks it; 2 there is something to do; 3 the removal from plumbline is held until people
approve it; 4 --push timed out.`,
		Example:           "  plumbline adopt ./clusters/prod-eu --write\n  plumbline adopt --from flux nodepool/team --repo ~/fleet --push\n  plumbline adopt --from argocd --back --owner prod nodepool/team",
		Args:              over.args,
		ValidArgsFunction: onlyFolders,
	}
	output := addOutput(cmd)
	cmd.Flags().BoolVar(&o.write, "write", false, "write adopt: true into plumbline.yaml, or perform the next step of a hand-over")
	over.add(cmd, kubeconfig)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		over.write = o.write
		if err := over.check(args); err != nil {
			return err
		}
		if over.from != "" {
			return over.run(cmd, kubeconfig, *output, args)
		}
		report, err := o.adopt(cmd.Context(), kubeconfig, folderOf(args))
		if err != nil {
			return err
		}
		if err := output.write(cmd.OutOrStdout(), report, report.print); err != nil {
			return err
		}
		return report.exit()
	}
	return cmd
}

// adopt surveys the cluster, and edits plumbline.yaml with --write.
func (o *adoptOptions) adopt(ctx context.Context, kubeconfig *genericclioptions.ConfigFlags, folder string) (*adoptReport, error) {
	at, err := openOnDisk(folder)
	if err != nil {
		return nil, err
	}
	git := at.karpenter
	if git.Management == render.External {
		return nil, fmt.Errorf("management is External in %s, so nothing is adopted", folder)
	}
	c, err := connect(ctx, kubeconfig)
	if err != nil {
		return nil, err
	}
	found, err := surveyFor(ctx, c, git)
	if err != nil {
		return nil, err
	}
	report := &adoptReport{Adoption: found}
	if !o.write || report.Refused != "" || report.Set == nil {
		return report, nil
	}
	file := filepath.Join(folder, render.FileName)
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("edit %s: %w", file, err)
	}
	if data, err = render.SetAdoption(file, data, report.Set.Namespace, report.Set.Version); err != nil {
		return nil, err
	}
	if err := os.WriteFile(file, data, 0o644); err != nil {
		return nil, fmt.Errorf("edit %s: %w", file, err)
	}
	report.Written = true
	return report, nil
}

// surveyFor surveys the cluster for the Karpenter section of plumbline.yaml.
func surveyFor(ctx context.Context, c *clusterAccess, git *render.Karpenter) (*upgrade.Adoption, error) {
	installer, err := release.NewInstaller(release.InstallerOptions{
		Config: c.config, Logger: logr.FromContextOrDiscard(ctx), Confine: confined(ctx),
	})
	if err != nil {
		return nil, err
	}
	adoption, err := upgrade.Adopt(git, func(namespace string) (survey.Found, error) { return installer.Survey(ctx, namespace) })
	if err != nil {
		return nil, explain(err, "look for Karpenter")
	}
	return adoption, nil
}

// adoptReport is what `plumbline adopt` prints.
type adoptReport struct {
	*upgrade.Adoption
	Written bool `json:"written"`
}

// exit returns an exit code that tells whether something is left to do.
func (r *adoptReport) exit() error {
	switch {
	case r.Refused != "":
		return &exitError{code: exitFailed}
	case r.Set != nil && !r.Written:
		return &exitError{code: exitChanges}
	}
	return nil
}

// print prints what is installed, and what is left to do.
func (r *adoptReport) print(out io.Writer) error {
	if r.Empty() {
		fmt.Fprintln(out, "no other tool has installed anything of Karpenter here")
		return nil
	}
	printFound(out, r.Found)
	if len(r.ValuesNotInGit) > 0 {
		fmt.Fprintf(out, "\nValues of the Helm release that are missing or different in plumbline.yaml; the next revision drops them:\n  %s\nhelm get values %s shows them.\n",
			strings.Join(r.ValuesNotInGit, "\n  "), charts.ControllerChart)
	}
	switch {
	case r.Refused != "":
		fmt.Fprintf(out, "\nNot adopted: %s\n", r.Refused)
	case r.Written:
		fmt.Fprintf(out, "\nplumbline.yaml now contains:\n\n%s\nCommit it.\n", r.Set)
	case r.Set != nil:
		fmt.Fprintf(out, "\nAdd to plumbline.yaml (or use --write), and commit it:\n\n%s", r.Set)
	default:
		fmt.Fprintln(out, "\nplumbline.yaml already requests the adoption.")
	}
	if r.Refused == "" && r.Runs != "" && r.Runs != r.Git {
		fmt.Fprintf(out, "\nThe adoption changes Karpenter from %s to %s; all checks of an upgrade apply.\n", r.Runs, r.Git)
	}
	return nil
}

// printAdoption prints a plan's report on the adoption of charts.
func printAdoption(out io.Writer, r *upgrade.Adoption) {
	printFound(out, r.Found)
	switch {
	case r.Refused != "":
		fmt.Fprintf(out, "Refused: %s\n", r.Refused)
	case r.Set != nil:
		fmt.Fprintf(out, "Refused until plumbline.yaml contains\n%s", r.Set)
	default:
		fmt.Fprintf(out, "Adopted at version %s: nothing is deleted or recreated.\n", r.Git)
	}
}

// printFound lists what is installed, and its owners.
func printFound(out io.Writer, found survey.Found) {
	t := display.NewFittedTable(out, "WHAT", "VERSION", "WHOSE")
	for _, release := range found.Releases {
		whose := "not readable"
		if release.Revision > 0 {
			whose = fmt.Sprintf("revision %d", release.Revision)
		}
		t.AppendRow([]any{"Helm release " + release.String(), orNothing(release.Version), whose})
	}
	for _, object := range found.Controllers {
		t.AppendRow([]any{object, orNothing(object.Version), object.Owner})
	}
	for _, object := range found.CRDs {
		t.AppendRow([]any{object, orNothing(object.Version), object.Owner})
	}
	t.Render()
}
