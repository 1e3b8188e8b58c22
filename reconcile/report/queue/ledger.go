package queue

import (
	"slices"
	"time"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/report"
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
	// Farewell is when the last state was reported, as the NodeSync is deleted; zero before.
	Farewell time.Time `json:"farewell,omitzero"`
	// Lanes lead to the hosts.
	Lanes []Lane `json:"lanes"`
}

// Word is what is reported of a commit.
type Word struct {
	State       report.State `json:"state,omitempty"`
	Description string       `json:"description,omitempty"`
}

// final says whether the word ends something.
func (w Word) final() bool { return w.State != "" && w.State != report.Pending }

// Commit is one that something was reported of.
type Commit struct {
	ID string `json:"id"`
	Word
	Phase Phase `json:"standing,omitempty"`
	// Inputs is the fingerprint of what it is rendered from, and From of what was applied before
	// it came; empty where no pass has rendered it as HEAD.
	Inputs string `json:"inputs,omitempty"`
	From   string `json:"from,omitempty"`
	// Before are the first of the definitions that it changed, or was to, as they were before it.
	Before []Definition `json:"before,omitempty"`
	// Reverted says which commit took it back, and how far it had come; empty where none has.
	Reverted string `json:"reverted,omitempty"`
	// Left is what was left of it when another commit went on with that; empty where nothing was.
	Left string `json:"left,omitempty"`
}

// Phase is how a commit stands to Head's verdict.
type Phase string

// The standings of a commit.
const (
	// Told is a commit that Head's verdict is reported on.
	Told Phase = ""
	// Overtaken is one that was pending when another Head came. It gets the final
	// word of what overtook it.
	Overtaken Phase = "overtaken"
	// Settled is one that got a final word of its own before another Head came,
	// and keeps it. It is noted for as long as the history since the last applied
	// revision has it.
	Settled Phase = "settled"
)

// newest is the newest commit that Head's verdict is reported on.
func (l *Ledger) newest() *Commit {
	for i := range l.Commits {
		if l.Commits[i].Phase == Told {
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

// lane returns the lane of a key; nil where it is gone.
func (l *Ledger) lane(key laneKey) *Lane {
	if i := slices.IndexFunc(l.Lanes, func(lane Lane) bool { return lane.key() == key }); i >= 0 {
		return &l.Lanes[i]
	}
	return nil
}

// shows says whether a lane's host is to go on showing the word on a commit: that of the newest one, and
// of the head of each open pull request. After the last word nobody waits for it.
func (l *Ledger) shows(lane *Lane, commit string) bool {
	is := func(c Commit) bool { return c.ID == commit }
	newest := l.newest()
	return l.Farewell.IsZero() && (slices.ContainsFunc(lane.Heads, is) || lane.Context == l.Context && newest != nil && is(*newest))
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
			newest = &Commit{Word: Word{State: report.Pending}}
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
		l.Commits = []Commit{{ID: r.Commit, Word: Word{State: report.State(r.State), Description: r.Description}}}
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
