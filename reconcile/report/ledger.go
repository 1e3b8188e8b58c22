package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// Ledger contains the statuses for the Git hosts of one NodeSync.
type Ledger struct {
	// Context is the name of the statuses.
	Context string `json:"context"`
	// Head is the fetched commit.
	Head string `json:"head"`
	// Commits are those that the verdict on Head is reported on, newest first, followed by older ones that are still
	// needed.
	Commits []Commit `json:"commits,omitempty"`
	// Waiting are newer commits that are not taken yet.
	Waiting []Commit `json:"waiting,omitempty"`
	// FinalStatusAt is when the final status was reported, as the NodeSync is deleted; zero before.
	FinalStatusAt time.Time `json:"finalStatusAt,omitzero"`
	// Lanes lead to the hosts.
	Lanes []Lane `json:"lanes"`
}

// Word is the status that is reported for a commit.
type Word struct {
	State       State  `json:"state,omitempty"`
	Description string `json:"description,omitempty"`
}

// final reports whether the status is final.
func (w Word) final() bool { return w.State != "" && w.State != Pending }

// Commit is a commit that a status was reported for.
type Commit struct {
	ID string `json:"id"`
	Word
	Phase Phase `json:"standing,omitempty"`
	// Inputs is the fingerprint of the inputs it is rendered from, and From that of what was applied before it; empty
	// if no reconcile has rendered it as HEAD.
	Inputs string `json:"inputs,omitempty"`
	From   string `json:"from,omitempty"`
	// Before are the first definitions that it changed, or would have, as they were before it.
	Before []Definition `json:"before,omitempty"`
	// Reverted says which commit reverted it, and how far it had progressed; empty if it was not reverted.
	Reverted string `json:"reverted,omitempty"`
	// Left is what remained of it when another commit continued it; empty if nothing did.
	Left string `json:"left,omitempty"`
}

// Phase is a commit's relation to the verdict on Head.
type Phase string

// The phases of a commit.
const (
	// PhaseReported is a commit that the verdict on Head is reported on.
	PhaseReported Phase = ""
	// PhaseSuperseded is a commit that was pending when Head changed. It gets the final status of the commit that
	// superseded it.
	PhaseSuperseded Phase = "overtaken"
	// PhaseSettled is a commit that got its own final status before Head changed, and keeps it. It stays recorded while
	// it is in the history since the last applied revision.
	PhaseSettled Phase = "settled"
)

// newest returns the newest commit that the verdict on Head is reported on.
func (l *Ledger) newest() *Commit {
	for i := range l.Commits {
		if l.Commits[i].Phase == PhaseReported {
			return &l.Commits[i]
		}
	}
	return nil
}

func (l *Ledger) commit(id string) *Commit {
	if i := slices.IndexFunc(l.Commits, func(c Commit) bool { return c.ID == id }); i >= 0 {
		return &l.Commits[i]
	}
	return nil
}

// lane returns the lane of a key; nil if it no longer exists.
func (l *Ledger) lane(key laneKey) *Lane {
	if i := slices.IndexFunc(l.Lanes, func(lane Lane) bool { return lane.key() == key }); i >= 0 {
		return &l.Lanes[i]
	}
	return nil
}

// mustShow reports whether a lane's host must keep showing the status of a commit: that of the newest commit, and of
// the head of each open pull request. After the final status, nothing waits for that.
func (l *Ledger) mustShow(lane *Lane, commit string) bool {
	is := func(c Commit) bool { return c.ID == commit }
	newest := l.newest()
	return l.FinalStatusAt.IsZero() && (slices.ContainsFunc(lane.Heads, is) || lane.Context == l.Context && newest != nil && is(*newest))
}

// reported returns the ledger as shown in the NodeSync's status: for each host, the status of the newest commit.
func (l *Ledger) reported() []v1alpha1.Reported {
	var list []v1alpha1.Reported
	for i := range l.Lanes {
		lane := &l.Lanes[i]
		newest := l.newest()
		if len(lane.Heads) > 0 {
			newest = &lane.Heads[0]
		} else if lane.Unlisted != "" {
			newest = &Commit{Word: Word{State: Pending}}
		}
		if newest != nil && lane.Context == l.Context {
			list = append(list, v1alpha1.Reported{
				Provider: lane.Provider, URL: lane.URL, Context: lane.Context, Commit: newest.ID,
				State: string(newest.State), Description: newest.Description, Failure: lane.trouble(),
			})
		}
	}
	return list
}

// restored returns the ledger that a NodeSync's status describes, for when the ledger itself was deleted.
func restored(from []v1alpha1.Reported) Ledger {
	l := Ledger{}
	for _, r := range from {
		l.Context, l.Head = r.Context, r.Commit
		l.Commits = []Commit{{ID: r.Commit, Word: Word{State: State(r.State), Description: r.Description}}}
		l.Lanes = append(l.Lanes, Lane{Host: Host{Provider: r.Provider, URL: r.URL}, Context: r.Context})
	}
	return l
}

// length returns how many statuses wait, and since when the oldest does.
func (l *Ledger) length() (n int, oldest time.Time) {
	for i := range l.Lanes {
		for _, e := range l.Lanes[i].Waiting {
			if n++; oldest.IsZero() || e.Since.Before(oldest) {
				oldest = e.Since
			}
		}
	}
	return n, oldest
}

// Subject is what a commit status is about. Each has its own context and ledger, so that a delay of one does not affect
// the others.
type Subject string

// The subjects.
const (
	// SubjectWhole is the progress of a commit, until its nodes match.
	SubjectWhole Subject = ""
	// SubjectApplied is whether the whole commit is applied: for pipelines that wait for nothing else.
	SubjectApplied Subject = "applied"
	// SubjectDrift is what differs from the commit in the cluster without another commit.
	SubjectDrift Subject = "drift"
	// SubjectPlan is what open pull requests would do, each on its head.
	SubjectPlan Subject = "plan"
)

// subjects returns all subjects.
func subjects() []Subject { return []Subject{SubjectWhole, SubjectApplied, SubjectDrift, SubjectPlan} }

// Of returns the context of a subject, given that of the whole.
func (s Subject) Of(context string) string {
	if s == SubjectWhole || context == "" {
		return context
	}
	return context + "/" + string(s)
}

// names reports whether a context belongs to the subject: plumbline/<cluster>/<name>, and the suffix that Of adds.
func (s Subject) names(context string) bool {
	const parts = 4
	if words := strings.SplitN(context, "/", parts); len(words) == parts {
		return words[parts-1] == string(s)
	}
	return s == SubjectWhole
}

// of returns the statuses that are about the subject.
func (s Subject) of(reported []v1alpha1.Reported) []v1alpha1.Reported {
	var found []v1alpha1.Reported
	for _, r := range reported {
		if s.names(r.Context) {
			found = append(found, r)
		}
	}
	return found
}

// ObjectName returns the name of the ConfigMap with the ledger of a NodeSync for the subject. It cannot equal that of a
// record of removals: those start with "plumbline-".
func (s Subject) ObjectName(nodeSync string) string {
	if s == SubjectWhole {
		return v1alpha1.ObjectName("plumbline.reports-", nodeSync)
	}
	return v1alpha1.ObjectName("plumbline.reports."+string(s)+"-", nodeSync)
}

// ContextOf returns plumbline/<cluster>/<name>, so that clusters that share a repository never overwrite each other's
// statuses.
func ContextOf(cluster, nodeSync string) string { return "plumbline/" + cluster + "/" + nodeSync }

// setContext sets the context once it is known. The lanes of the previous one stay until the commits with a status in
// it are released: otherwise these statuses would never change again.
func (l *Ledger) setContext(s Update) {
	context := cmp.Or(s.Context, l.Context, s.Fallback)
	if context == l.Context {
		return
	}
	for i := range l.Lanes {
		for _, c := range l.Commits {
			if lane := &l.Lanes[i]; lane.Context == l.Context && c.Phase != PhaseSettled && c.State != Success && c.State != "" {
				lane.Moved = append(lane.Moved, c)
			}
		}
	}
	l.Context = context
	l.Commits = slices.DeleteFunc(l.Commits, func(c Commit) bool { return c.Phase != PhaseReported })
	for i := range l.Commits {
		l.Commits[i].Word = Word{} // nothing was reported in the new context yet
	}
}

// releaseMoved gives the final status to commits with a status in a former context, in that context. A commit that
// still belongs to Head and has failed is followed until it succeeds.
func (l *Ledger) releaseMoved(s Update) {
	for i := range l.Lanes {
		lane := &l.Lanes[i]
		if lane.Context == l.Context || s.State == Pending {
			continue
		}
		for j := range lane.Moved {
			if c := &lane.Moved[j]; c.State != s.State {
				c.Word = Word{State: s.State, Description: Truncate(fmt.Sprintf("reported as %s now: %s", l.Context, s.Description))}
				lane.put(c.ID, c.Word, s.page(lane.Host), s.At)
			}
		}
		lane.Moved = slices.DeleteFunc(lane.Moved, func(c Commit) bool {
			known := l.commit(c.ID)
			return c.State == Success || known == nil || known.Phase != PhaseReported
		})
	}
	l.Lanes = slices.DeleteFunc(l.Lanes, func(lane Lane) bool {
		return lane.Context != l.Context && len(lane.Moved) == 0 && len(lane.Waiting) == 0
	})
}
