package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/cmd/plumbline/display"
	"github.com/plumbline-dev/plumbline/internal/pause"
	"github.com/plumbline-dev/plumbline/reconcile/handover"
	"github.com/plumbline-dev/plumbline/reconcile/watch"
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
	flags.StringVar(&o.from, "from", "", "tool that applies the definitions to hand over: flux or argocd")
	flags.StringVar(&o.to, "nodesync", "", "NodeSync that receives the definitions; default: the only one in the namespace")
	flags.StringVar(&o.owner, "owner", "", "Kustomization or Application, as [NAMESPACE/]NAME; default: the one that applies the definitions")
	flags.StringVar(&o.repo, "repo", "", "clone of the repository that both tools follow; the next commit is shown or made there")
	flags.BoolVar(&o.back, "back", false, "hand the definitions back to the other tool")
	flags.BoolVar(&o.push, "push", false, "make and push every commit, and wait for each step, until the hand-over is complete")
	flags.DurationVar(&o.timeout, "wait-timeout", 10*time.Minute, "longest time that --push waits")
	// These flags exist: the lines above add them.
	_ = cmd.RegisterFlagCompletionFunc("from", cobra.FixedCompletions([]string{"flux", "argocd"}, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("nodesync", completeNodeSyncs(kubeconfig, 1))
	_ = cmd.MarkFlagDirname("repo")
}

// args accepts a folder, or with --from any number of definitions.
func (o *handoverOptions) args(cmd *cobra.Command, args []string) error {
	if o.from != "" {
		return nil
	}
	return cobra.MaximumNArgs(1)(cmd, args)
}

// check returns an error for flags that cannot be combined.
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
		return errors.New("name what is handed back: plumbline adopt --from " + o.from + " --back NodePool/NAME")
	}
	return nil
}

// page returns the document on how to run next to the tool.
func (o *handoverOptions) page() string {
	if o.from == "argocd" {
		return "docs/how-to/beside-argo-cd.md"
	}
	return "docs/how-to/beside-flux.md"
}

// takesSteps reports whether the command takes steps, instead of only showing them.
func (o *handoverOptions) takesSteps() bool { return o.write || o.push }

// run runs `plumbline adopt --from`: it shows the state of a hand-over, or takes its next step, or all steps.
func (o *handoverOptions) run(cmd *cobra.Command, kubeconfig *genericclioptions.ConfigFlags, output format, args []string) error {
	ctx := cmd.Context()
	h, err := o.findObjects(ctx, kubeconfig, args)
	if err != nil {
		return err
	}
	report, err := h.runSteps(cmd)
	if report == nil {
		return err
	}
	if err := errors.Join(err, output.write(cmd.OutOrStdout(), report, report.print)); err != nil {
		return err
	}
	return report.exit()
}

// runSteps takes as many steps as the flags ask for, and returns the resulting state of the hand-over.
func (h *handoverRun) runSteps(cmd *cobra.Command) (*handoverReport, error) {
	ctx, p, ends := cmd.Context(), newProgress(cmd.ErrOrStderr(), time.Now), time.Now().Add(h.timeout)
	defer p.end()
	for taken := false; ; {
		seen, err := h.readState(ctx)
		if err != nil {
			return nil, err
		}
		report := &handoverReport{Report: seen}
		if !h.takesSteps() || report.Step() == handover.Done || taken && !h.push {
			return report, nil
		}
		if report.Waits() {
			if report.held = h.back && report.Approvable(); !h.push || report.held {
				return report, nil
			}
			p.printWait(report.Why())
			if time.Now().After(ends) {
				report.timedOut = true
				return report, nil
			}
			if err := pause.For(ctx, askEvery); err != nil {
				return nil, err
			}
			continue
		}
		did, err := h.takeStep(ctx, report.Report)
		if err != nil {
			return nil, err
		}
		p.printWait(did)
		taken = taken || report.Commits()
	}
}

// handoverReport is the state of a hand-over when the command exits.
type handoverReport struct {
	*handover.Report
	// timedOut is true if --push timed out, held if people have to approve something first.
	timedOut, held bool
}

// exit returns an exit code that tells whether something is left to do.
func (r *handoverReport) exit() error {
	switch {
	case r.timedOut:
		return &exitError{code: exitStalled}
	case r.held:
		return &exitError{code: exitHeld}
	case r.Step() != handover.Done:
		return &exitError{code: exitChanges}
	}
	return nil
}

// handoverRun is the hand-over that a command performs.
type handoverRun struct {
	*clusterAccess
	*handoverOptions
	refs  []render.Ref // those named as arguments
	sync  string       // the NodeSync's name
	clone *clone       // nil if there is none
	// pulled is when it last pulled other people's commits into the clone.
	pulled time.Time
}

// findObjects finds the objects to hand over, and the NodeSync that gets them.
func (o *handoverOptions) findObjects(ctx context.Context, kubeconfig *genericclioptions.ConfigFlags, args []string) (*handoverRun, error) {
	h := &handoverRun{handoverOptions: o}
	for _, arg := range args {
		ref, err := refOfArgument(arg)
		if err != nil {
			return nil, err
		}
		h.refs = append(h.refs, ref)
	}
	var err error
	if h.clusterAccess, err = connect(ctx, kubeconfig); err != nil {
		return nil, err
	}
	if o.repo != "" {
		if h.clone, err = openClone(ctx, o.repo); err != nil {
			return nil, err
		}
	}
	if h.sync = o.to; h.sync != "" {
		return h, nil
	}
	list, err := h.readAll(ctx, false)
	if err != nil {
		return nil, err
	}
	if len(list.Items) == 0 {
		return nil, fmt.Errorf("there is no NodeSync in namespace %s: first create the one that receives the definitions (see %s), or give its namespace with --namespace", h.namespaceOfNodeSyncs(ctx), o.page())
	}
	if len(list.Items) > 1 {
		return nil, fmt.Errorf("there are %d NodeSyncs in namespace %s: choose one with --nodesync", len(list.Items), h.namespaceOfNodeSyncs(ctx))
	}
	h.sync = list.Items[0].Name
	return h, nil
}

// readState reads the state of each object.
func (h *handoverRun) readState(ctx context.Context) (*handover.Report, error) {
	sync, err := h.nodeSync(ctx, h.sync)
	if err != nil {
		return nil, err
	}
	appliers, err := h.appliers(ctx, h.from)
	if err != nil {
		return nil, err
	}
	var definitions []unstructured.Unstructured
	for _, kind := range render.Kinds() {
		objects, err := definitionsOf(ctx, h, kind)
		if err != nil {
			return nil, err
		}
		definitions = append(definitions, objects...)
	}
	query := handover.Query{Sync: sync, Tool: handover.OwnerOf(h.from), Owner: h.owner, Back: h.back, Refs: h.refs}
	r, err := query.Look(appliers, definitions)
	if err != nil {
		return nil, err
	}
	var unpushed []string
	if h.clone != nil {
		if err := h.readFiles(ctx, r); err != nil {
			return nil, err
		}
		unpushed = h.clone.unpushed(ctx)
	}
	return r, r.Decide(unpushed)
}

// listOf reads all objects of a kind.
func listOf(ctx context.Context, c client.Reader, kind schema.GroupVersionKind) (*unstructured.UnstructuredList, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	return list, c.List(ctx, list)
}

// appliers reads all appliers of a tool.
func (h *handoverRun) appliers(ctx context.Context, from string) ([]handover.Applier, error) {
	kind := handover.KustomizationKind
	if from == "argocd" {
		kind = handover.ApplicationKind
	}
	list, err := listOf(ctx, h, kind)
	if apimeta.IsNoMatchError(err) {
		return nil, fmt.Errorf("this cluster has no %ss (%s): --from names the tool that applies the definitions", kind.Kind, kind.Group)
	} else if err != nil {
		return nil, explain(err, "list "+kind.Kind+"s")
	}
	return handover.Appliers(handover.OwnerOf(from), list.Items), nil
}

// nudge requests a reconcile from the other tool and from plumbline. Without permission to write to them, the command
// waits for their intervals.
func (h *handoverRun) nudge(ctx context.Context, r *handover.Report) {
	nudged := map[string]bool{}
	for i := range r.Objects {
		by := r.Objects[i].By
		if by == nil || nudged[by.String()] {
			continue
		}
		nudged[by.String()] = true
		value := time.Now().Format(time.RFC3339Nano)
		if by.Kind == "Application" {
			value = "normal"
		}
		for _, object := range by.Wake {
			patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, by.WakeKey, value))
			_ = h.Patch(ctx, object.DeepCopy(), patch) // it only saves time
		}
	}
	_, _ = watch.Request(ctx, h, client.ObjectKeyFromObject(r.Sync), time.Now()) // likewise
}

// pullEvery is how often the command pulls other people's commits while it waits.
const pullEvery = 15 * time.Second

// readFiles reads the clone, after pulling if the command pushes commits.
func (h *handoverRun) readFiles(ctx context.Context, r *handover.Report) error {
	if err := r.FollowsBranch(h.clone.branch, h.clone.root); err != nil {
		return err
	}
	if h.push && time.Since(h.pulled) > pullEvery {
		if err := h.clone.pull(ctx); err != nil {
			return err
		}
		if err := h.clone.push(ctx); err != nil {
			return err
		}
		h.nudge(ctx, r)
		h.pulled = time.Now()
	}
	files, err := h.clone.files(ctx, r.Folders())
	if err != nil {
		return err
	}
	return r.Read(files, h.clone.root)
}

// takeStep takes the next step, and returns what it did.
func (h *handoverRun) takeStep(ctx context.Context, r *handover.Report) (did string, err error) {
	if r.Commits() {
		if h.clone == nil {
			return "", fmt.Errorf("the next step is a commit: give a clone of the repository with --repo, or manually commit what `plumbline adopt --from %s` shows", h.from)
		}
		after, err := r.Edited()
		if err != nil {
			return "", err
		}
		message := r.Message()
		if err := h.clone.commit(ctx, r.Files, after, message); err != nil || !h.push {
			return "committed: " + message, err
		}
		if err := h.clone.push(ctx); err != nil {
			return "", err
		}
		h.nudge(ctx, r)
		return "pushed: " + message, nil
	}
	var names []string
	for _, o := range r.Due() {
		body, err := json.Marshal(r.Patch(o))
		if err != nil {
			return "", fmt.Errorf("encode the patch of %s: %w", o.Ref, err)
		}
		err = h.Patch(ctx, o.Live, client.RawPatch(types.JSONPatchType, body), client.FieldOwner("kubectl-plumbline"))
		if apierrors.IsInvalid(err) || apierrors.IsConflict(err) {
			return "another client has changed " + o.Ref.String() + ": checking again", pause.For(ctx, askEvery)
		}
		if err != nil {
			return "", explain(err, "release "+o.Ref.String())
		}
		names = append(names, o.Ref.String())
	}
	return "released: " + strings.Join(names, ", "), nil
}

// stepWords describes each step in the table.
func stepWords(o *handover.Handed) string {
	word := map[handover.Step]string{
		handover.Mark: "1 of 5: annotate it, so that it is kept", handover.Move: "2 of 5: move its file",
		handover.LetGo:   "3 of 5: wait for the change of owner",
		handover.Release: "4 of 5: remove the other tool's labels and fields", handover.Unmark: "5 of 5: remove the annotation",
		handover.Done: "done",
	}[o.Step]
	if o.Waits && o.Step != handover.LetGo {
		word += " (committed)"
	}
	return word
}

func (r *handoverReport) print(out io.Writer) error {
	if len(r.Objects) == 0 {
		fmt.Fprintf(out, "nothing is left to hand over: no %s of %s applies a NodePool or EC2NodeClass, and NodeSync %s has %d of them\n",
			r.Tool.Kind, r.Tool.Tool, r.NodeSync, r.Owned)
		return nil
	}
	t := display.NewFittedTable(out, "OBJECT", "APPLIED BY", "STEP")
	for i := range r.Objects {
		o := &r.Objects[i]
		by := o.AppliedBy
		if o.State.To.Applies && !r.Back || o.State.From.Applies && r.Back {
			by = strings.TrimPrefix(by+", NodeSync "+r.NodeSync, ", ")
			if !o.State.From.Applies && !r.Back {
				by = "NodeSync " + r.NodeSync
			}
		}
		t.AppendRow([]any{o.Object, by, stepWords(o)})
	}
	t.Render()
	if len(r.Next) > 0 {
		fmt.Fprintf(out, "\n%s\n", strings.Join(r.Next, "\n"))
	}
	return nil
}
