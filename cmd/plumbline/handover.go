package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/plumbline-dev/plumbline/provision/owners"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/handover"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
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

// takes reports whether steps are taken, and not only shown.
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

// approvable reports whether plumbline holds what leaves it, and people have not approved that.
func (r *handoverReport) approvable() bool {
	return r.step() == handover.LetGo && slices.ContainsFunc(r.Objects, func(o handedObject) bool {
		return o.state.From.Applies && holds(r.sync, o.ref)
	})
}

// holds reports whether a NodeSync holds that an entry is left to itself.
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

// handing is a hand-over that a command sees through.
type handing struct {
	*clusterAccess
	*handoverOptions
	refs  []render.Ref // those that were named
	sync  string       // the NodeSync's name
	clone *clone       // nil if there is none
	// pulled is when others' commits were pulled into the clone.
	pulled time.Time
}

// handoverReport is where a hand-over stands.
type handoverReport struct {
	NodeSync string         `json:"nodeSync"`
	Objects  []handedObject `json:"objects"`
	// Next is what to do, line by line.
	Next []string `json:"next,omitempty"`

	sync  *v1alpha1.NodeSync
	files handover.Files
	back  bool
	tool  owners.Owner // that of --from
	has   int          // how many definitions the NodeSync has
	// late reports whether --push waited too long, and held that people have to approve something first.
	late, held bool
}

// handedObject is one object of it.
type handedObject struct {
	Object string `json:"object"`
	// AppliedBy is the Kustomization or Application that hands it over, or gets it back.
	AppliedBy string `json:"appliedBy,omitempty"`
	// Step is the next one, and Why says what is waited for.
	Step  handover.Step `json:"step"`
	Waits bool          `json:"waits,omitempty"`
	Why   string        `json:"why,omitempty"`

	ref   render.Ref
	live  *unstructured.Unstructured
	owner owners.Owner
	by    *applier // nil if that is unknown
	mark  owners.Mark
	state handover.Object
	// folder is that of by which has its file, where by has several.
	folder string
	// inGit reports whether the mark is in the object's file; false if that is unknown.
	inGit bool
}

// begin finds what is handed over to whom.
func (o *handoverOptions) begin(ctx context.Context, kubeconfig *genericclioptions.ConfigFlags, args []string) (*handing, error) {
	h := &handing{handoverOptions: o}
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
	list, err := h.listed(ctx, false)
	if err != nil {
		return nil, err
	}
	if len(list.Items) == 0 {
		return nil, fmt.Errorf("there is no NodeSync in namespace %s: first create the one that gets the definitions, as %s says, or name its namespace with --namespace", h.in(ctx), o.page())
	}
	if len(list.Items) > 1 {
		return nil, fmt.Errorf("there are %d NodeSyncs in namespace %s: say which one with --nodesync", len(list.Items), h.in(ctx))
	}
	h.sync = list.Items[0].Name
	return h, nil
}

// look reads where each object stands.
func (h *handing) look(ctx context.Context) (*handoverReport, error) {
	sync, err := h.nodeSync(ctx, h.sync)
	if err != nil {
		return nil, err
	}
	appliers, err := h.appliers(ctx, h.from)
	if err != nil {
		return nil, err
	}
	r := &handoverReport{NodeSync: sync.Namespace + "/" + sync.Name, Objects: []handedObject{}, sync: sync, back: h.back, tool: ownerOfTool(h.from)}
	for _, kind := range render.Kinds() {
		objects, err := definitionsOf(ctx, h, kind)
		if err != nil {
			return nil, err
		}
		for i := range objects {
			o, ok, err := h.object(sync, appliers, render.Ref{Kind: kind.GVK.Kind, Name: objects[i].GetName()}, &objects[i])
			if err != nil {
				return nil, err
			}
			if plan.OwnerOf(sync.Namespace, sync.Name).Owns(&objects[i]) {
				r.has++
			}
			if ok {
				r.Objects = append(r.Objects, o)
			}
		}
	}
	for _, ref := range h.refs {
		if !slices.ContainsFunc(r.Objects, func(o handedObject) bool { return o.ref == ref }) {
			return nil, fmt.Errorf("%s is not in the cluster: `plumbline owners` lists what is", ref)
		}
	}
	return r, h.decide(ctx, r)
}

// object is one that is handed over; ok is false for any other.
func (h *handing) object(sync *v1alpha1.NodeSync, appliers []applier, ref render.Ref, live *unstructured.Unstructured) (o handedObject, ok bool, err error) {
	named := slices.Contains(h.refs, ref)
	if len(h.refs) > 0 && !named {
		return o, false, nil
	}
	o = handedObject{Object: ref.String(), ref: ref, live: live, owner: ownerOfTool(h.from)}
	if o.by, err = h.applierOf(appliers, ref, live); err != nil {
		return o, false, err
	}
	if o.by != nil {
		o.owner, o.AppliedBy = o.by.Owner, o.by.words()
	}
	o.mark, _ = o.owner.Mark()
	owner := plan.OwnerOf(sync.Namespace, sync.Name)
	has := owner.Owns(live) && plan.Applied(live)
	theirs := handover.Side{Applies: o.by != nil && o.by.lists[ref], Left: len(handover.ReleaseTheirs(live, o.owner)) > 0}
	ours := handover.Side{Applies: has, Left: len(handover.ReleaseOurs(live)) > 0}
	o.inGit = appliedAnnotation(live, o.mark.Key)
	o.state = handover.Object{Ref: ref, Kept: o.mark.On(live), From: theirs, To: ours}
	if h.back {
		o.state.From, o.state.To = ours, theirs
	}
	known := o.by != nil || has // else it is of a HelmRelease, or what is left on it is of long ago
	if !named && (helmed(live) || !known || !theirs.Applies && !theirs.Left && !o.state.Kept) {
		return o, false, nil
	}
	return o, true, h.refuse(sync, &o)
}

// helmed reports whether Flux applies an object by a chart.
func helmed(object *unstructured.Unstructured) bool { return owners.Of(object).Kind == "HelmRelease" }

// appliedAnnotation reports whether a tool has applied an annotation, so that a file has it: any other was
// put there by hand.
func appliedAnnotation(object *unstructured.Unstructured, key string) bool {
	return slices.ContainsFunc(object.GetManagedFields(), func(entry metav1.ManagedFieldsEntry) bool {
		_, applier := owners.Applier(entry.Manager)
		return (applier || entry.Manager == v1alpha1.FieldManager) && entry.FieldsV1 != nil && strings.Contains(entry.FieldsV1.GetRawString(), fmt.Sprintf(`"f:%s"`, key))
	})
}

// refuse says why an object cannot be handed over.
func (h *handing) refuse(sync *v1alpha1.NodeSync, o *handedObject) error {
	owner, labelled := plan.OwnerNamed(o.live)
	switch {
	case o.live.GetDeletionTimestamp() != nil:
		return fmt.Errorf("%s is being deleted, which cannot be taken back", o.ref)
	case labelled && owner != plan.OwnerOf(sync.Namespace, sync.Name):
		return fmt.Errorf("%s belongs to NodeSync %s: name that one with --nodesync, or move the file between the two NodeSyncs' folders", o.ref, owner)
	case !h.back && sync.Spec.Adopt == v1alpha1.AdoptNever:
		return fmt.Errorf("spec.adopt of nodesync/%s is Never: it would adopt nothing; set it to IfIdentical", sync.Name)
	case helmed(o.live):
		return fmt.Errorf("%s is of %s, whose chart has it: hand it over by hand, as docs/how-to/beside-flux-or-argo-cd.md says", o.ref, owners.Of(o.live))
	case o.by == nil && h.back:
		return fmt.Errorf("%s is applied by no %s: say which one gets it back with --owner [NAMESPACE/]NAME", o.ref, o.owner.Kind)
	case o.by == nil && !o.state.To.Applies:
		return fmt.Errorf("%s is applied by no %s of %s: `plumbline owners` says by which tool it is", o.ref, o.owner.Kind, o.owner.Tool)
	case o.by != nil && o.by.nested(sync.Spec.Path):
		return fmt.Errorf("%s applies %s, and nodesync/%s follows %s: one is in the other, and a file that moves would stay with both; give each a folder of its own", o.by, o.by.folder, sync.Name, path.Clean(sync.Spec.Path))
	case o.by != nil:
		return o.by.refuse(o.ref)
	}
	return nil
}

// decide says of each object which step is next.
func (h *handing) decide(ctx context.Context, r *handoverReport) error {
	if h.clone != nil {
		if err := h.readFiles(ctx, r); err != nil {
			return err
		}
	}
	for i := range r.Objects {
		o := &r.Objects[i]
		if o.Step, o.Waits = o.state.Next(); o.Step == handover.Unmark && o.state.Cloned && !o.inGit && appliedAnnotation(o.live, o.mark.Key) {
			o.Waits = true // its file has it no more, and a tool is about to apply that
		}
		if o.Waits {
			o.Why = h.waitsFor(r.sync, o)
		}
	}
	return h.tell(ctx, r)
}

// folders are that which hands an object over, and that which gets it.
func (o *handedObject) folders(r *handoverReport) (from, to string) {
	if from, to = "", r.sync.Spec.Path; o.by != nil {
		from = cmp.Or(o.folder, o.by.folder)
	}
	if r.back {
		return to, from
	}
	return from, to
}

// both are the folders that are known.
func (o *handedObject) both(r *handoverReport) []string {
	from, to := o.folders(r)
	return slices.DeleteFunc([]string{from, to}, func(folder string) bool { return folder == "" })
}
