package status

import (
	"fmt"
	"slices"
	"sync"

	"github.com/dustin/go-humanize/english"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/removal"
	"github.com/plumbline-dev/plumbline/reconcile/report"
	"github.com/plumbline-dev/plumbline/render"
)

// inputs returns the fingerprint of what the reconcile has rendered; empty if it did not get that far.
func (s *Step) inputs() string {
	if s.Set == nil {
		return ""
	}
	return s.Set.Fingerprint()
}

// MostBefore is how many definitions that a commit changes are recorded in their previous form.
const MostBefore = report.MaxBefore

// changed returns definitions that the commit changes, in their previous form.
func (s *Step) changed() []report.Definition {
	var all []report.Definition
	for _, b := range s.Changed {
		all = append(all, report.Definition{Name: b.Ref.String(), Digest: b.Content})
	}
	return all
}

// contents returns the definitions of the commit by their names; nil if it was not rendered.
func (s *Step) contents() func(string) string {
	if s.Set == nil {
		return nil
	}
	named := sync.OnceValue(func() map[string]*unstructured.Unstructured {
		all := make(map[string]*unstructured.Unstructured, len(s.Set.Objects))
		for i := range s.Set.Objects {
			all[s.Set.Objects[i].Ref.String()] = s.Set.Objects[i].Defaulted
		}
		return all
	})
	return func(name string) string { return plan.Content(named()[name]) }
}

// started reports whether something of the commit is applied.
func (s *Step) started() bool {
	status := s.Sync.Status
	return render.CommitOf(status.LastAppliedRevision) == s.Commit || render.CommitOf(status.PartlyAppliedRevision) == s.Commit
}

// rolling returns the commit whose nodes are being replaced, or were when this reconcile started; empty if there is
// none.
func (s *Step) rolling() string {
	for _, r := range []*v1alpha1.Rollout{s.Sync.Status.Rollout, s.Before.Status.Rollout} {
		if r != nil && r.Revision != "" {
			return render.CommitOf(r.Revision)
		}
	}
	return ""
}

// refused reports whether the commit has failed and settles no older one: nothing of it is applied, or what it removes
// or changes is held, and no node is replaced for it.
func (s *Step) refused(v Verdict) bool {
	if v.CommitState() != report.Failure {
		return false
	}
	return !s.started() || s.holds() && s.rolling() != s.Commit
}

// ended returns the outcome, if known, of the commit that stays in force under a refused one, and the failure of older
// ones whose rollouts fail.
func (s *Step) ended(v Verdict) map[string]report.Word {
	if v.ofNodes && v.CommitState() == report.Pending && s.rolloutFails() {
		all := map[string]report.Word{}
		for _, commit := range s.olderThatFail() {
			all[commit] = report.Word{State: report.Failure, Description: s.failureBrief().String()}
		}
		return all
	}
	commit := s.rolling()
	if commit == "" && !s.started() {
		commit = render.CommitOf(s.Sync.Status.LastAppliedRevision)
	}
	if commit == "" || commit == s.Commit || !s.refused(v) {
		return nil
	}
	if word := s.settled(commit); word.State != "" {
		return map[string]report.Word{commit: word}
	}
	return nil
}

// settled returns the outcome of an older commit. Removals of other commits neither keep it pending nor fail it. While
// nodes of another commit are being replaced, it stays pending: nodes that it outdated may be among them. The result is
// empty while the outcome is unknown, or something of the commit is not applied, in progress or held.
func (s *Step) settled(commit string) report.Word {
	own := filter(s.Sync.Status.Removals, func(r v1alpha1.Removal) bool { return render.CommitOf(r.Revision) == commit })
	rollout := s.Sync.Status.Rollout
	rolls := rollout != nil && render.CommitOf(rollout.Revision) == commit
	switch {
	case !s.SawRollout:
		return report.Word{}
	case rolls && s.rolloutFails():
		return report.Word{State: report.Failure, Description: s.failureBrief().String()}
	case len(stalled(own)) > 0:
		return report.Word{State: report.Failure, Description: s.stalledVerdict(stalled(own)).Brief.String()}
	case commit == render.CommitOf(s.Sync.Status.PartlyAppliedRevision) || rollout != nil || s.brakes(commit) || len(own) > 0 || s.Fault != nil || s.Unwritten != nil || s.NotUpgraded != nil:
		return report.Word{}
	}
	state := s.stateVerdict()
	if state.Reason == v1alpha1.ReasonRemoving {
		state = s.doneVerdict()
	}
	if state.CommitState() != report.Success {
		return report.Word{}
	}
	return report.Word{State: report.Success, Description: "applied, Ready, each node matches"}
}

// brakes reports whether the brake holds nodes of a commit.
func (s *Step) brakes(commit string) bool {
	return slices.ContainsFunc(s.Sync.Status.PoolRollouts, func(r v1alpha1.PoolRollout) bool { return render.CommitOf(r.Revision) == commit })
}

// reverted describes how far commits had come before they were reverted: their removals, and their nodes.
func (s *Step) reverted() map[string]string {
	var all map[string]string
	say := func(commit, words string) {
		if all == nil {
			all = map[string]string{}
		}
		if before := all[commit]; before != "" {
			words = before + "; " + words
		}
		all[commit] = words
	}
	for _, write := range s.Removed {
		back, is := write.Action.(removal.Reverted)
		if !is {
			continue
		}
		words := fmt.Sprintf("%s/%s was to be removed, no node was terminated", write.Kind, write.Name)
		if back.Ended > 0 {
			words = fmt.Sprintf("%s/%s was being removed, %d of %d nodes were terminated", write.Kind, write.Name, back.Ended, back.NodeClaims)
		}
		say(back.Commit, words)
	}
	if words := s.restored(); words != "" {
		say(render.CommitOf(s.Restored.Revision), words)
	}
	return all
}

// restored describes how far the rollout had come that this commit reverted; empty if there is none, or if an older
// commit reverted it, which has reported it.
func (s *Step) restored() string {
	r := s.Restored
	switch {
	case r.Nodes == 0 || !s.started() || render.CommitOf(r.By) != s.Commit || render.CommitOf(r.Revision) == s.Commit:
		return ""
	case r.Left > 0:
		return fmt.Sprintf("%d of its %s not to be replaced any more", r.Nodes, english.Plural(r.All, "node is", "nodes are"))
	}
	return replaced(r.All-r.Nodes, r.All)
}

// replaced describes how many of a commit's nodes were replaced.
func replaced(n, all int) string {
	return fmt.Sprintf("%d of its %s replaced", n, english.Plural(all, "node was", "nodes were"))
}

// notReplaced returns, for the commit whose rollout another commit continues, how many of its nodes were not replaced.
// If none was known to be outdated while Karpenter still queried AWS, that is not reported as none.
func (s *Step) notReplaced() map[string]string {
	was, is := s.Before.Status.Rollout, s.Sync.Status.Rollout
	if was == nil || is == nil || was.Revision == "" || is.Revision == "" || was.Revision == is.Revision {
		return nil
	}
	words := ""
	switch {
	case was.Outdated > 0:
		words = fmt.Sprintf("%d of its %s left", was.Outdated, english.Plural(int(was.Nodes), "node was", "nodes were"))
	case was.Settling(s.Began):
		words = "before Karpenter had compared its nodes"
	default:
		return nil
	}
	return map[string]string{render.CommitOf(was.Revision): words}
}

// lastProgress returns the progress, by commit, of the commit whose nodes were being replaced and of the one that the
// last reconcile evaluated.
func (s *Step) lastProgress() map[string]string {
	before := s.Before.Status
	if before.LastAttemptedRevision == "" {
		return nil
	}
	last, all := render.CommitOf(before.LastAttemptedRevision), map[string]string{}
	switch last {
	case render.CommitOf(before.LastAppliedRevision):
		all[last] = "all of it was applied"
	case render.CommitOf(before.PartlyAppliedRevision):
		all[last] = "a part of it was applied"
	default:
		all[last] = "nothing of it was applied"
	}
	if r := before.Rollout; r != nil && r.Revision != "" {
		words := "no node was known to be outdated by it"
		if r.Nodes > 0 {
			words = fmt.Sprintf("%d of its %s it", r.Nodes-r.Outdated, english.Plural(int(r.Nodes), "node matched", "nodes matched"))
		}
		all[render.CommitOf(r.Revision)] = words
	}
	return all
}
