package main

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/handover"
	"github.com/plumbline-dev/plumbline/render"
)

// handoverOptions are the flags of `plumbline adopt --from`.
type handoverOptions struct {
	from, to, owner, repo string
	back, write, push     bool
	timeout               time.Duration
}

func (o *handoverOptions) add(cmd *cobra.Command, kubeconfig *genericclioptions.ConfigFlags) {
	flags := cmd.Flags()
	flags.StringVar(&o.from, "from", "", "hand definitions over from the tool that applies them: flux or argocd")
	flags.StringVar(&o.to, "nodesync", "", "the NodeSync that gets them; by default the one of the namespace")
	flags.StringVar(&o.owner, "owner", "", "the Kustomization or Application, as [NAMESPACE/]NAME; by default the one that applies them")
	flags.StringVar(&o.repo, "repo", "", "a clone of the repository that both follow: the next commit is shown, or made")
	flags.BoolVar(&o.back, "back", false, "give them back to the other tool")
	flags.BoolVar(&o.push, "push", false, "make and push every commit, wait in between, and go on until all is done")
	flags.DurationVar(&o.timeout, "wait-timeout", 10*time.Minute, "longest time that --push waits")
	// These flags exist: they were added in the lines before.
	_ = cmd.RegisterFlagCompletionFunc("from", cobra.FixedCompletions([]string{"flux", "argocd"}, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("nodesync", completeNodeSyncs(kubeconfig, 1))
	_ = cmd.MarkFlagDirname("repo")
}

// args are a folder, or with --from as many definitions as there are.
func (o *handoverOptions) args(cmd *cobra.Command, args []string) error {
	if o.from != "" {
		return nil
	}
	return cobra.MaximumNArgs(1)(cmd, args)
}

// check says which flags do not go together.
func (o *handoverOptions) check(args []string) error {
	switch {
	case o.from == "" && (o.to != "" || o.owner != "" || o.repo != "" || o.back || o.push):
		return errors.New("--nodesync, --owner, --repo, --back and --push need --from flux or --from argocd")
	case o.from == "":
		return nil
	case o.from != "flux" && o.from != "argocd":
		return fmt.Errorf("--from %q: give flux or argocd", o.from)
	case o.push && o.repo == "":
		return errors.New("--push needs --repo, a clone of the repository")
	case o.back && len(args) == 0:
		return errors.New("say what is given back: plumbline adopt --from " + o.from + " --back NodePool/NAME")
	}
	return nil
}

// page is the one that says how to run beside the tool.
func (o *handoverOptions) page() string {
	if o.from == "argocd" {
		return "docs/how-to/beside-argo-cd.md"
	}
	return "docs/how-to/beside-flux.md"
}

// takes says whether steps are taken, and not only shown.
func (o *handoverOptions) takes() bool { return o.write || o.push }

// hand is `plumbline adopt --from`: it shows where a hand-over stands, or takes its next step, or all
// of them.
func (o *handoverOptions) hand(cmd *cobra.Command, kubeconfig *genericclioptions.ConfigFlags, output format, args []string) error {
	ctx := cmd.Context()
	h, err := o.begin(ctx, kubeconfig, args)
	if err != nil {
		return err
	}
	report, err := h.walk(cmd)
	if report == nil {
		return err
	}
	if err := errors.Join(err, output.write(cmd.OutOrStdout(), report, report.print)); err != nil {
		return err
	}
	return report.exit()
}

// walk takes as many steps as were asked for, and says where it stands then.
func (h *handing) walk(cmd *cobra.Command) (*handoverReport, error) {
	ctx, p, ends := cmd.Context(), newProgress(cmd.ErrOrStderr(), time.Now), time.Now().Add(h.timeout)
	defer p.end()
	for taken := false; ; {
		report, err := h.look(ctx)
		if err != nil || !h.takes() || report.step() == handover.Done || taken && !h.push {
			return report, err
		}
		if report.waits() {
			if report.held = h.back && report.approvable(); !h.push || report.held {
				return report, nil
			}
			p.say(report.why())
			if time.Now().After(ends) {
				report.late = true
				return report, nil
			}
			if err := pauseFor(ctx, askEvery); err != nil {
				return nil, err
			}
			continue
		}
		did, err := h.take(ctx, report)
		if err != nil {
			return nil, err
		}
		p.say(did)
		taken = taken || report.commits()
	}
}

// step is the first that is left for any of the objects.
func (r *handoverReport) step() handover.Step {
	steps := handover.Steps()
	first := len(steps) - 1
	for i := range r.Objects {
		first = min(first, slices.Index(steps, r.Objects[i].Step))
	}
	return steps[first]
}

// due are the objects whose step that is, and that do not wait.
func (r *handoverReport) due() (found []*handedObject) {
	step := r.step()
	for i := range r.Objects {
		if o := &r.Objects[i]; o.Step == step && !o.Waits {
			found = append(found, o)
		}
	}
	return found
}

func (r *handoverReport) waits() bool { return len(r.due()) == 0 }

// why is what is waited for.
func (r *handoverReport) why() string {
	for i := range r.Objects {
		if o := &r.Objects[i]; o.Step == r.step() && o.Waits {
			return o.Why
		}
	}
	return ""
}

// approvable says that plumbline holds what leaves it, and people have not approved that.
func (r *handoverReport) approvable() bool {
	return r.step() == handover.LetGo && slices.ContainsFunc(r.Objects, func(o handedObject) bool {
		return o.state.From.Applies && holds(r.sync, o.ref)
	})
}

// holds says whether a NodeSync holds that an entry is left to itself.
func holds(sync *v1alpha1.NodeSync, ref render.Ref) bool {
	return sync.Status.Held != nil && slices.ContainsFunc(sync.Status.Held.Entries, func(e v1alpha1.ApprovedEntry) bool {
		return e.Orphan && e.Kind == ref.Kind && e.Name == ref.Name
	})
}

// exit says by the exit code whether something is left to do.
func (r *handoverReport) exit() error {
	switch {
	case r.late:
		return &exitError{code: exitStalled}
	case r.held:
		return &exitError{code: exitHeld}
	case r.step() != handover.Done:
		return &exitError{code: exitChanges}
	}
	return nil
}
