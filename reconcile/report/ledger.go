package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// Ledger is what the Git hosts of one NodeSync get.
type Ledger struct {
	// Context names the statuses.
	Context string `json:"context"`
	// Head is the commit that was fetched.
	Head string `json:"head"`
	// Commits are those that the verdict on Head is reported on, newest first, and
	// after them older ones that are not forgotten yet.
	Commits []Commit `json:"commits,omitempty"`
	// FinalStatus is when the last state was reported, as the NodeSync is deleted; zero before.
	FinalStatusAt time.Time `json:"finalStatusAt,omitzero"`
	// Lanes lead to the hosts.
	Lanes []Lane `json:"lanes"`
}

// Word is what is reported of a commit.
type Word struct {
	State       State  `json:"state,omitempty"`
	Description string `json:"description,omitempty"`
}

// final reports whether the word ends something.
func (w Word) final() bool { return w.State != "" && w.State != Pending }

// Commit is one that something was reported of.
type Commit struct {
	ID string `json:"id"`
	Word
	Phase Phase `json:"standing,omitempty"`
	// Inputs is the fingerprint of what it is rendered from, and From of what was applied before
	// it came; empty if no reconcile has rendered it as HEAD.
	Inputs string `json:"inputs,omitempty"`
	From   string `json:"from,omitempty"`
	// Before are the first of the definitions that it changed, or was to, as they were before it.
	Before []Definition `json:"before,omitempty"`
	// Reverted says which commit took it back, and how far it had come; empty if none has.
	Reverted string `json:"reverted,omitempty"`
	// Left is what was left of it when another commit went on with that; empty if nothing was.
	Left string `json:"left,omitempty"`
}

// Phase is how a commit stands to Head's verdict.
type Phase string

// The standings of a commit.
const (
	// PhaseTold is a commit that Head's verdict is reported on.
	PhaseTold Phase = ""
	// PhaseOvertaken is one that was pending when another Head came. It gets the final
	// word of what overtook it.
	PhaseOvertaken Phase = "overtaken"
	// PhaseSettled is one that got a final word of its own before another Head came,
	// and keeps it. It is noted for as long as the history since the last applied
	// revision has it.
	PhaseSettled Phase = "settled"
)

// newest is the newest commit that Head's verdict is reported on.
func (l *Ledger) newest() *Commit {
	for i := range l.Commits {
		if l.Commits[i].Phase == PhaseTold {
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

// lane returns the lane of a key; nil if it is gone.
func (l *Ledger) lane(key laneKey) *Lane {
	if i := slices.IndexFunc(l.Lanes, func(lane Lane) bool { return lane.key() == key }); i >= 0 {
		return &l.Lanes[i]
	}
	return nil
}

// shows reports whether a lane's host is to go on showing the word on a commit: that of the newest one, and
// of the head of each open pull request. After the last word nobody waits for it.
func (l *Ledger) shows(lane *Lane, commit string) bool {
	is := func(c Commit) bool { return c.ID == commit }
	newest := l.newest()
	return l.FinalStatusAt.IsZero() && (slices.ContainsFunc(lane.Heads, is) || lane.Context == l.Context && newest != nil && is(*newest))
}

// reported is the ledger as the NodeSync's status shows it: for each host the
// word on the newest commit.
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

// restored is the ledger that a NodeSync's status tells of, where the ledger
// itself is gone.
func restored(from []v1alpha1.Reported) Ledger {
	l := Ledger{}
	for _, r := range from {
		l.Context, l.Head = r.Context, r.Commit
		l.Commits = []Commit{{ID: r.Commit, Word: Word{State: State(r.State), Description: r.Description}}}
		l.Lanes = append(l.Lanes, Lane{Host: Host{Provider: r.Provider, URL: r.URL}, Context: r.Context})
	}
	return l
}

// length is how many statuses wait, and since when the oldest does.
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

// Subject is what a commit status is about. Each has a context, and a ledger, of its own: what
// waits for one keeps no other.
type Subject string

// The subjects.
const (
	// SubjectWhole is what becomes of a commit, until its nodes match.
	SubjectWhole Subject = ""
	// SubjectApplied is whether all of it is applied: for pipelines that wait for nothing else.
	SubjectApplied Subject = "applied"
	// SubjectDrift is what differs from it in the cluster by no commit.
	SubjectDrift Subject = "drift"
	// SubjectPlan is what open pull requests would do, each on its head.
	SubjectPlan Subject = "plan"
)

// subjects are all of them.
func subjects() []Subject { return []Subject{SubjectWhole, SubjectApplied, SubjectDrift, SubjectPlan} }

// Of is the context of a subject, from that of the whole.
func (s Subject) Of(context string) string {
	if s == SubjectWhole || context == "" {
		return context
	}
	return context + "/" + string(s)
}

// names reports whether a context is of the subject: plumbline/<cluster>/<name>, and what Of adds.
func (s Subject) names(context string) bool {
	const parts = 4
	if words := strings.SplitN(context, "/", parts); len(words) == parts {
		return words[parts-1] == string(s)
	}
	return s == SubjectWhole
}

// of are those of a list of statuses that are on the subject.
func (s Subject) of(reported []v1alpha1.Reported) []v1alpha1.Reported {
	var found []v1alpha1.Reported
	for _, r := range reported {
		if s.names(r.Context) {
			found = append(found, r)
		}
	}
	return found
}

// ObjectName is the name of the ConfigMap that holds the ledger of a NodeSync on the subject.
// No record of removals can have it: those begin with "plumbline-".
func (s Subject) ObjectName(nodeSync string) string {
	if s == SubjectWhole {
		return v1alpha1.ObjectName("plumbline.reports-", nodeSync)
	}
	return v1alpha1.ObjectName("plumbline.reports."+string(s)+"-", nodeSync)
}

// ContextOf is plumbline/<cluster>/<name>, so that clusters on one repository never overwrite each
// other.
func ContextOf(cluster, nodeSync string) string { return "plumbline/" + cluster + "/" + nodeSync }

// setContext takes a context that has become known. The lanes of the former
// one stay until the commits that have a status in it are released: a status in a
// context that nobody writes any more would stay as it is for ever.
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
	l.Commits = slices.DeleteFunc(l.Commits, func(c Commit) bool { return c.Phase != PhaseTold })
	for i := range l.Commits {
		l.Commits[i].Word = Word{} // nothing of it was reported in the new one
	}
}

// letGo gives the commits that have a word in a former context the final one, in
// that context. A commit that is still Head's and has failed is followed until it
// is well.
func (l *Ledger) letGo(s Update) {
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
			return c.State == Success || known == nil || known.Phase != PhaseTold
		})
	}
	l.Lanes = slices.DeleteFunc(l.Lanes, func(lane Lane) bool {
		return lane.Context != l.Context && len(lane.Moved) == 0 && len(lane.Waiting) == 0
	})
}
