package queue

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/report"
)

// Host is where statuses go.
type Host struct {
	Provider string `json:"provider"`
	// URL of the repository, without a user or password.
	URL string `json:"url"`
	// Secret is the name of the Secret with the token.
	Secret string `json:"secret"`
}

// HostOf is where the statuses of a NodeSync go by an entry of its spec.report.
func HostOf(sync *v1alpha1.NodeSync, to v1alpha1.Report) Host {
	return Host{Provider: to.Provider, URL: report.Clean(cmp.Or(to.URL, sync.Spec.Source.Repository())), Secret: to.SecretRef.Name}
}

// Lane leads to one host, for one context. What is in it is posted one after
// another.
type Lane struct {
	Host
	Context string `json:"context"`
	// Waiting are the entries that the host has not got, at most one for a commit.
	Waiting []Entry `json:"waiting,omitempty"`
	// Posted is when the host was last given a status, by commit, as long as another one
	// has to wait for that.
	Posted map[string]Posted `json:"posted,omitempty"`
	// Moved are commits that have a word in this context that is not the
	// ledger's any more. They get one that lets them go.
	Moved []Commit `json:"moved,omitempty"`
	// Heads are those of the open pull requests of this host, the newest first, each with its
	// own word; only on the subject Plan.
	Heads []Commit `json:"heads,omitempty"`
	// Unlisted is why the open pull requests are not known.
	Unlisted string `json:"unlisted,omitempty"`

	// Attempts is how often in a row the host as a whole has failed, and Failure
	// how; nothing is posted before NotBefore.
	Attempts  int       `json:"attempts,omitempty"`
	Failure   string    `json:"failure,omitempty"`
	NotBefore time.Time `json:"notBefore,omitzero"`
	// Silent is the one commit on whose status the host has given no answer since its last; empty where it
	// is none. It may be about that commit only: others are posted.
	Silent string `json:"silent,omitempty"`
	// Refused is the version of the Secret that the host does not take, since
	// RefusedAt.
	Refused   string    `json:"refused,omitempty"`
	RefusedAt time.Time `json:"refusedAt,omitzero"`
	// Lost says which status was given up last, and why.
	Lost string `json:"lost,omitempty"`

	// fresh lanes have not been told what is known already.
	fresh bool
}

// Posted is when a host was last given a status on a commit, and when a final one.
type Posted struct {
	At    time.Time `json:"at"`
	Final time.Time `json:"final,omitzero"`
}

// Entry is one status that waits.
type Entry struct {
	Commit string `json:"commit"`
	Word
	TargetURL string    `json:"targetURL,omitempty"`
	Since     time.Time `json:"since"`
	NotBefore time.Time `json:"notBefore,omitzero"`
	// Attempts is how often the host has failed on this very status, and Failure
	// how.
	Attempts int    `json:"attempts,omitempty"`
	Failure  string `json:"failure,omitempty"`
}

// same says whether two entries would post the same.
func (e Entry) same(as Entry) bool {
	return e.Commit == as.Commit && e.Word == as.Word && e.TargetURL == as.TargetURL
}

// laneKey names a lane of a ledger.
type laneKey struct{ provider, url, context string }

func (l *Lane) key() laneKey { return laneKey{l.Provider, l.URL, l.Context} }

// postEvery is the least time between a status on a commit and a pending that follows it,
// and between two final ones: hosts limit how many statuses they take, and nobody reads
// what lasts a second. A verdict that flaps posts two in that time at the most.
const postEvery = 5 * time.Second

// put has a word posted, in place of an older one on the same commit.
func (l *Lane) put(commit string, w Word, target string, now time.Time) {
	e := Entry{Commit: commit, Word: w, TargetURL: target, Since: now}
	if free := l.Posted[commit].free(w); now.Before(free) && !free.After(now.Add(postEvery)) {
		e.NotBefore = free // else the clock was put back
	}
	if i := l.index(commit); i >= 0 {
		l.Waiting[i] = e
		return
	}
	l.Waiting = append(l.Waiting, e)
}

// free is when a word may follow.
func (p Posted) free(w Word) time.Time {
	if w.final() {
		return p.Final.Add(postEvery)
	}
	return p.At.Add(postEvery)
}

func (l *Lane) index(commit string) int {
	return slices.IndexFunc(l.Waiting, func(e Entry) bool { return e.Commit == commit })
}

// next is the first entry that may be posted now. Those on which the host has failed often come last, so that
// they do not keep the others waiting.
func (l *Lane) next(now time.Time) (Entry, bool) {
	if now.Before(l.NotBefore) {
		return Entry{}, false
	}
	first := -1
	for i, e := range l.Waiting {
		if !now.Before(e.NotBefore) && (first < 0 || l.Waiting[first].Attempts >= tellAfter && e.Attempts < tellAfter) {
			first = i
		}
	}
	if first < 0 {
		return Entry{}, false
	}
	return l.Waiting[first], true
}

// due is when the first entry may be posted; none where nothing waits.
func (l *Lane) due() (at time.Time, any bool) {
	for _, e := range l.Waiting {
		if may := latest(e.NotBefore, l.NotBefore); !any || may.Before(at) {
			at, any = may, true
		}
	}
	return at, any
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// delivered notes that the host has an entry. What has overtaken it meanwhile
// stays.
func (l *Lane) delivered(e Entry, now time.Time) {
	if i := l.index(e.Commit); i >= 0 && l.Waiting[i].same(e) {
		l.Waiting = slices.Delete(l.Waiting, i, i+1)
	}
	l.reach()
	l.posted(e, now)
	if i := l.index(e.Commit); i >= 0 {
		next := &l.Waiting[i]
		next.NotBefore = latest(next.NotBefore, l.Posted[e.Commit].free(next.Word))
	}
}

// posted notes when the host was given an entry, and forgets what nothing waits for any more.
func (l *Lane) posted(e Entry, now time.Time) {
	if l.Posted == nil {
		l.Posted = map[string]Posted{}
	}
	p := l.Posted[e.Commit]
	if p.At = now; e.final() {
		p.Final = now
	}
	l.Posted[e.Commit] = p
	maps.DeleteFunc(l.Posted, func(_ string, p Posted) bool { return now.Sub(p.At) >= postEvery })
}

// reach forgets that the host has failed.
func (l *Lane) reach() {
	l.Attempts, l.Failure, l.NotBefore, l.Silent, l.Refused, l.RefusedAt = 0, "", time.Time{}, "", "", time.Time{}
}

// tellAfter is how many failures in a row are reported to people: the first ones
// often heal before anybody has read of them.
const tellAfter = 3

// trouble says why the host has not got what it should. It changes only with the cause.
func (l *Lane) trouble() string {
	failure := ""
	if l.Refused != "" || l.Attempts >= tellAfter {
		failure = l.Failure
	}
	for _, e := range l.Waiting {
		if failure == "" && e.Attempts >= tellAfter {
			failure = e.Failure
		}
	}
	return cmp.Or(failure, l.Unlisted, l.Lost)
}

// Short is a commit as people write it.
func Short(commit string) string {
	const digits = 7
	return commit[:min(digits, len(commit))]
}
