package propose

import (
	"context"
	"crypto/sha256"
	"fmt"
	"path"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/confine"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/report"
	"github.com/plumbline-dev/plumbline/reconcile/source"
	"github.com/plumbline-dev/plumbline/render"
)

// revert is what is to be taken back: what revision Bad has changed since revision From.
type revert struct {
	From, Bad string
	// Pools are those that fail by it, and Why is what the first one says.
	Pools []string
	Why   string
	// Known is the pull request as the status has it; nil where there is none.
	Known *v1alpha1.RevertProposal
	// At is when the first one was stopped.
	At metav1.Time
}

// due are the reverts to propose, and why there is none for a pool that fails.
func (l Look) due() (reverts []*revert, none map[string]string) {
	none = map[string]string{}
	of := map[string]*revert{}
	for i := range l.Pools {
		e := &l.Pools[i]
		if !l.stands(e) || ended(e.Proposal) {
			continue
		}
		if why := l.impossible(e); why != "" {
			none[e.Pool] = why
			continue
		}
		r := of[e.Revision]
		if r == nil {
			r = &revert{From: e.From, Bad: e.Revision, Why: e.Message, At: *e.BrakedAt}
			of[e.Revision], reverts = r, append(reverts, r)
		}
		if l.Sync.Status.Rollout != nil && r.From == l.Sync.Status.Rollout.From {
			r.From = e.From // what the rollout began from has failed in this pool, too, where that is another one
		}
		if e.BrakedAt.Before(&r.At) {
			r.At, r.Why = *e.BrakedAt, e.Message
		}
		if e.Proposal != nil && e.Proposal.URL != "" {
			r.Known = e.Proposal
		}
		r.Pools = append(r.Pools, e.Pool)
	}
	return reverts, none
}

// ended says that a pull request is not asked for any more.
func ended(p *v1alpha1.RevertProposal) bool { return p != nil && (p.Closed || p.Merged) }

// stands says that a pool is stopped by failed launches, and that the status says so already.
func (l Look) stands(e *v1alpha1.PoolRollout) bool {
	if l.Sync.Spec.Rollout.OnFailure != v1alpha1.RolloutBrakeAndPropose || e.BrakedAt == nil || e.Reason != v1alpha1.BrakeFailedLaunches {
		return false
	}
	return slices.ContainsFunc(l.Recorded, func(was v1alpha1.PoolRollout) bool {
		return was.Pool == e.Pool && was.Reason == e.Reason && was.BrakedAt.Equal(e.BrakedAt)
	})
}

// impossible says why nothing can be proposed for a pool; empty where it can.
func (l Look) impossible(e *v1alpha1.PoolRollout) string {
	_, can := host(l.Sync)
	switch {
	case e.Revision == "":
		return "no commit has outdated its nodes: there is none to revert"
	case e.From == "" || e.From == e.Revision:
		return fmt.Sprintf("no revision is known that was applied before %s: revert or correct it by hand", render.ShortRevision(e.Revision))
	case !can:
		return fmt.Sprintf("revert %s by hand: no report of this NodeSync is on a host where pull requests are opened (GitHub, GitLab, Gitea, Forgejo)", render.ShortRevision(e.Revision))
	case l.Sync.Spec.Source.FollowedBranch() == "":
		return fmt.Sprintf("revert %s by hand: spec.source.git.ref names no branch that a pull request could go into", render.ShortRevision(e.Revision))
	}
	return ""
}

// host is the first report of a NodeSync on a host where pull requests are opened.
func host(sync *v1alpha1.NodeSync) (v1alpha1.Report, bool) {
	i := slices.IndexFunc(sync.Spec.Report, func(r v1alpha1.Report) bool { return report.Proposes(r.Provider) })
	if i < 0 {
		return v1alpha1.Report{}, false
	}
	return sync.Spec.Report[i], true
}

// branchOf is the branch of a revert. Every daemon calls it by the same name, and no two NodeSyncs have
// the same one: the name of a NodeSync has no underscore.
func branchOf(cluster, name, bad string) string {
	whose := strings.Map(plain, cluster) + "_" + name
	if len(whose) > maxName {
		whose = fmt.Sprintf("%s-%.4x", whose[:maxName], sha256.Sum256([]byte(whose)))
	}
	return fmt.Sprintf("%srevert-%s-%.8s", source.Proposals, whose, render.CommitOf(bad))
}

// maxName is how long the names in a branch are: a host may keep each part of it as a file.
const maxName = 180

// plain are the characters of a cluster's name that may stand anywhere in the name of a branch.
func plain(r rune) rune {
	if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' {
		return r
	}
	return '-'
}

// within returns what says which files are taken back. What a revision of before has read cannot be told where it
// does not render any more: then what only that has read is left, and named.
func (p proposal) within(ctx context.Context, from *render.Snapshot) func(name string) bool {
	ctx = confine.For(ctx, "reverts in "+p.Sync.Spec.Source.Address())
	karpenter, err := render.ReadKarpenter(*from, p.Sync.Spec.Path)
	if err != nil {
		return within(p.Sync.Spec.Path, p.Inputs)
	}
	set, err := render.Render(ctx, *from, p.Sync.Spec.Path, karpenter, nil, render.WithConfinement(p.Confine))
	if err != nil {
		return within(p.Sync.Spec.Path, p.Inputs)
	}
	return within(p.Sync.Spec.Path, p.Inputs, set.Inputs)
}

// within says which files are those of a NodeSync: all below its path, and those outside that were read.
func within(folder string, read ...render.Inputs) func(name string) bool {
	below := path.Clean(folder)
	return func(name string) bool {
		return below == "." || strings.HasPrefix(name, below+"/") ||
			slices.ContainsFunc(read, func(in render.Inputs) bool {
				_, is := in[name]
				return is
			})
	}
}
