package propose

import (
	"crypto/sha256"
	"fmt"
	"path"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
	// At is when the first one was stopped.
	At metav1.Time
}

// due are the reverts to propose, and why there is none for a pool that fails.
func (l Look) due() (reverts []*revert, none map[string]string) {
	none = map[string]string{}
	of := map[string]*revert{}
	for i := range l.Pools {
		e := &l.Pools[i]
		if !l.stands(e) || e.Proposal != nil && e.Proposal.URL != "" {
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
		r.Pools = append(r.Pools, e.Pool)
	}
	return reverts, none
}

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
	case l.Sync.Spec.Source.Git.Ref.FollowedBranch() == "":
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

// within says which files are taken back: those below the NodeSync's path, those outside that were
// read, and those that are gone from beside them.
func within(folder string, inputs render.Inputs) func(name string, gone bool) bool {
	below, beside := path.Clean(folder), map[string]bool{}
	in := func(name string) bool { return below == "." || strings.HasPrefix(name, below+"/") }
	for name, is := range inputs {
		if is != "" && !in(name) && name != below {
			beside[path.Dir(name)] = true
		}
	}
	return func(name string, gone bool) bool {
		_, read := inputs[name]
		return in(name) || read || gone && beside[path.Dir(name)]
	}
}
