package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/handover"
	"github.com/plumbline-dev/plumbline/render"
)

// pullEvery is how often others' commits are looked for while something is waited for.
const pullEvery = 15 * time.Second

// readFiles reads the clone, with what others have pushed where commits are pushed, and says of each object
// where its file is.
func (h *handing) readFiles(ctx context.Context, r *handoverReport) error {
	if branch := r.sync.Spec.Source.FollowedBranch(); branch != "" && branch != h.clone.branch {
		return fmt.Errorf("nodesync/%s follows branch %s, and %s is on %s: git switch %s", r.sync.Name, branch, h.clone.root, h.clone.branch, branch)
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
	folders, err := h.located(ctx, r)
	if err != nil {
		return err
	}
	if r.files, err = h.clone.files(ctx, folders); err != nil {
		return err
	}
	for i := range r.Objects {
		o := &r.Objects[i]
		from, to := o.folders(r)
		o.state.Cloned = true
		if from != "" {
			if o.state.From.Has, err = r.files.Has(from, o.ref); err != nil {
				return err
			}
		}
		if to != "" {
			if o.state.To.Has, err = r.files.Has(to, o.ref); err != nil {
				return err
			}
		}
		if o.state.Marked, err = r.files.Marked(o.both(r), o.ref, o.mark); err != nil {
			return err
		}
		o.inGit = o.state.Marked
	}
	return nil
}

// edited are the files after a step that is a commit.
func (r *handoverReport) edited() (files handover.Files, err error) {
	files = r.files
	var moving []render.Ref
	lives := map[render.Ref]map[string]any{}
	due := r.due()
	for _, o := range due {
		switch r.step() {
		case handover.Mark:
			files, err = files.Mark(o.both(r), o.ref, o.mark)
		case handover.Unmark:
			if !o.inGit {
				continue
			}
			files, err = files.Unmark(o.both(r), o.ref, o.mark)
		case handover.Move:
			moving, lives[o.ref] = append(moving, o.ref), o.live.Object
		default:
		}
		if err != nil {
			return nil, err
		}
	}
	if len(moving) == 0 {
		return files, nil
	}
	from, to := due[0].folders(r)
	for _, o := range due {
		if f, t := o.folders(r); f != from || t != to || f == "" || t == "" {
			return nil, fmt.Errorf("%s and %s are not of the same folders, or these are not known: hand them over one after another, by their names", due[0].ref, o.ref)
		}
	}
	return files.Move(from, to, moving, lives)
}

// message is that of the commit of a step.
func (r *handoverReport) message() string {
	due := r.due()
	var names []string
	for _, o := range due {
		names = append(names, o.ref.String())
	}
	what := strings.Join(names, ", ")
	if len(what) > 60 {
		what = fmt.Sprintf("%d definitions", len(due))
	}
	other, it, has := due[0].owner.Tool, "it changes", "it has"
	if len(due) > 1 {
		it, has = "they change", "they have"
	}
	switch step := r.step(); {
	case step == handover.Mark:
		return "Keep " + what + " in the cluster while " + it + " hands"
	case step == handover.Unmark:
		return "Mark " + what + " no longer: " + has + " changed hands"
	case r.back:
		return "Give " + what + " back to " + other
	}
	return "Hand " + what + " over from " + other + " to plumbline"
}

// commits reports whether the step is a commit: the mark may be on an object only, put there by hand.
func (r *handoverReport) commits() bool {
	switch r.step() {
	case handover.Mark, handover.Move:
		return true
	case handover.Unmark:
		return slices.ContainsFunc(r.due(), func(o *handedObject) bool { return o.inGit })
	default:
	}
	return false
}

// patch is what a step changes of an object in the cluster.
func (r *handoverReport) patch(o *handedObject) []handover.Operation {
	switch {
	case r.step() == handover.Unmark:
		return handover.Unannotate(o.live, o.mark)
	case r.back:
		return handover.ReleaseOurs(o.live)
	}
	return handover.ReleaseTheirs(o.live, o.owner)
}

// take takes the step that is next, and says what it did.
func (h *handing) take(ctx context.Context, r *handoverReport) (did string, err error) {
	if r.commits() {
		if h.clone == nil {
			return "", fmt.Errorf("the next step is a commit: give a clone of the repository with --repo, or commit by hand what `plumbline adopt --from %s` shows", h.from)
		}
		after, err := r.edited()
		if err != nil {
			return "", err
		}
		message := r.message()
		if err := h.clone.commit(ctx, r.files, after, message); err != nil || !h.push {
			return "committed: " + message, err
		}
		if err := h.clone.push(ctx); err != nil {
			return "", err
		}
		h.nudge(ctx, r)
		return "pushed: " + message, nil
	}
	var names []string
	for _, o := range r.due() {
		body, err := json.Marshal(r.patch(o))
		if err != nil {
			return "", fmt.Errorf("encode the patch of %s: %w", o.ref, err)
		}
		err = h.Patch(ctx, o.live, client.RawPatch(types.JSONPatchType, body), client.FieldOwner("kubectl-plumbline"))
		if apierrors.IsInvalid(err) || apierrors.IsConflict(err) {
			return "another client has changed " + o.ref.String() + ": looking again", pauseFor(ctx, askEvery)
		}
		if err != nil {
			return "", explain(err, "release "+o.ref.String())
		}
		names = append(names, o.ref.String())
	}
	return "released: " + strings.Join(names, ", "), nil
}

// tell says what to do next.
func (h *handing) tell(ctx context.Context, r *handoverReport) error {
	due := r.due()
	if len(due) == 0 {
		if why := r.why(); why != "" {
			if h.clone != nil {
				r.Next = h.clone.unpushed(ctx)
			}
			r.Next = append(r.Next, why)
		}
		return nil
	}
	if r.step() == handover.Done {
		return nil
	}
	if r.commits() && h.clone != nil {
		after, err := r.edited()
		if err != nil {
			return err
		}
		r.Next = append([]string{"In " + h.clone.root + ", commit and push (or have --write, or --push, do it): " + r.message(), ""}, diff(r.files, after)...)
		r.Next = append(r.Next, r.keeps(after)...)
		return nil
	}
	for _, o := range due {
		from, to := o.folders(r)
		switch {
		case r.step() == handover.Mark:
			r.Next = append(r.Next, fmt.Sprintf("Annotate %s in %s, and push that:\n\n  metadata:\n    annotations:\n      %s: %s\n", o.ref, folderWord(from), o.mark.Key, strings.Join(o.mark.Words, ",")))
		case r.step() == handover.Move:
			r.Next = append(r.Next, fmt.Sprintf("Move the file of %s, as it is, from %s to %s, in one commit, and push that.", o.ref, folderWord(from), folderWord(to)), r.keepByHand(o))
		case r.commits() && !o.inGit:
		case r.commits():
			r.Next = append(r.Next, fmt.Sprintf("Take the annotation %s off %s in %s, and push that.", o.mark.Key, o.ref, folderWord(to)))
		default:
			body, err := json.Marshal(r.patch(o))
			if err != nil {
				return fmt.Errorf("encode the patch of %s: %w", o.ref, err)
			}
			r.Next = append(r.Next, fmt.Sprintf("kubectl patch %s %s --type=json --patch '%s'", strings.ToLower(o.ref.Kind), o.ref.Name, body))
		}
	}
	return nil
}

func folderWord(folder string) string {
	if folder == "" {
		return "the other tool's folder"
	}
	return path.Clean(folder)
}

// stepWords say each step in the table.
func stepWords(o *handedObject) string {
	word := map[handover.Step]string{
		handover.Mark: "1 of 5: mark it, so that it stays", handover.Move: "2 of 5: move its file", handover.LetGo: "3 of 5: change hands",
		handover.Release: "4 of 5: release what is left", handover.Unmark: "5 of 5: take the mark off", handover.Done: "done",
	}[o.Step]
	if o.Waits && o.Step != handover.LetGo {
		word += " (committed)"
	}
	return word
}

// print shows it to people.
func (r *handoverReport) print(out io.Writer) error {
	if len(r.Objects) == 0 {
		fmt.Fprintf(out, "nothing is left to hand over: no %s of %s applies a NodePool or EC2NodeClass, and NodeSync %s has %d of them\n",
			r.tool.Kind, r.tool.Tool, r.NodeSync, r.has)
		return nil
	}
	t := newFittedTable(out, "OBJECT", "APPLIED BY", "STEP")
	for i := range r.Objects {
		o := &r.Objects[i]
		by := o.AppliedBy
		if o.state.To.Applies && !r.back || o.state.From.Applies && r.back {
			by = strings.TrimPrefix(by+", NodeSync "+r.NodeSync, ", ")
			if !o.state.From.Applies && !r.back {
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
