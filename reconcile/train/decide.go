package train

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/plumbline-dev/plumbline/provision/images"
	"github.com/plumbline-dev/plumbline/reconcile/source"
)

// Spec is spec.images.
type Spec struct {
	MinAge time.Duration
	// MaxAge is 0 without a limit.
	MaxAge time.Duration
	// Schedule is nil if pull requests may be opened at any time.
	Schedule cron.Schedule
}

// Alias is an alias that EC2NodeClasses select.
type Alias struct {
	// Name is such as al2023@v20251103, and Classes are the names of the EC2NodeClasses.
	Name    string
	Classes []string
	// Pin is the alias that pins the same AMIs, if the alias is not pinned; empty if there is none.
	Pin string
	// Published is when its AMIs were made; zero if unknown. Deprecated reports whether AWS has deprecated one.
	Published  time.Time
	Deprecated bool
	// Withdrawn reports whether AWS publishes no AMI for it.
	Withdrawn bool
	// Releases are those that AWS publishes now for the family, the oldest first.
	Releases []images.Publication
	// Unknown is why AWS did not answer; empty if it did.
	Unknown string
}

// isLatest reports whether the alias is not pinned.
func (a *Alias) isLatest() bool { return strings.HasSuffix(a.Name, "@"+images.Latest) }

// Replacement is an alias to replace.
type Replacement struct {
	From, To string
	Classes  []string
	// Published is when the AMIs of To were made, and Before when those of From were; zero if unknown.
	Published, Before time.Time
	// Notes is the address of the release notes of To; empty if there is none.
	Notes string
	// Deprecated and Withdrawn report the state of From.
	Deprecated, Withdrawn bool
}

// Proposal is a pull request that there should be.
type Proposal struct {
	// Key identifies it in the name of its branch.
	Key string
	// Pins reports whether it pins @latest, which is proposed only once.
	Pins    bool
	Replace []Replacement
}

// Want is what there should be.
type Want struct {
	// Proposals are those to choose from, the most important first.
	Proposals []Proposal
	// Waits are sentences on releases that are not proposed yet, and Unknown is what AWS did not answer.
	Waits   []string
	Unknown []string
	// Outdated are sentences on AMIs that are too old, deprecated or withdrawn.
	Outdated []string
	// Again is when the result changes by the time that passes; zero if it does not.
	Again time.Time
}

// Wanted returns the pull requests that there should be: one with the newest release of each alias that is old enough, and
// one that pins @latest.
func Wanted(spec Spec, aliases []Alias, now time.Time) Want {
	var want Want
	newer, pins := Proposal{}, Proposal{Pins: true}
	for i := range aliases {
		a := &aliases[i]
		switch {
		case a.Unknown != "":
			want.Unknown = append(want.Unknown, fmt.Sprintf("alias %s: %s", a.Name, a.Unknown))
		case a.isLatest() && a.Pin != "":
			pins.Replace = append(pins.Replace, Replacement{From: a.Name, To: a.Pin, Classes: a.Classes, Published: a.Published, Notes: images.NotesOf(a.Pin)})
		case a.isLatest():
		default:
			want.outdated(spec, a, now)
			if r := want.next(spec, a, now); r != nil {
				newer.Replace = append(newer.Replace, *r)
			}
		}
	}
	for _, p := range []Proposal{newer, pins} {
		if len(p.Replace) > 0 {
			p.Key = p.key()
			want.Proposals = append(want.Proposals, p)
		}
	}
	return want
}

// outdated records that the AMIs of an alias are too old.
func (w *Want) outdated(spec Spec, a *Alias, now time.Time) {
	of := "EC2NodeClass/" + strings.Join(a.Classes, ", EC2NodeClass/")
	switch {
	case a.Withdrawn:
		w.Outdated = append(w.Outdated, fmt.Sprintf("%s: AWS publishes no AMI for alias %s", of, a.Name))
	case a.Deprecated:
		w.Outdated = append(w.Outdated, fmt.Sprintf("%s: AWS has deprecated AMIs of alias %s", of, a.Name))
	case spec.MaxAge == 0 || a.Published.IsZero():
	case now.Sub(a.Published) > spec.MaxAge:
		w.Outdated = append(w.Outdated, fmt.Sprintf("%s: the AMIs of alias %s are of %s, and older than spec.images.maxAge", of, a.Name, a.Published.Format(time.DateOnly)))
	default:
		w.by(a.Published.Add(spec.MaxAge + time.Second))
	}
}

// next returns the replacement of an alias by the newest release that may be proposed now; nil if there is none.
func (w *Want) next(spec Spec, a *Alias, now time.Time) *Replacement {
	urgent := a.Deprecated || a.Withdrawn || spec.MaxAge > 0 && !a.Published.IsZero() && now.Sub(a.Published) > spec.MaxAge
	var found *images.Publication
	for i := range a.Releases {
		r := &a.Releases[i]
		if r.Alias == a.Name || !r.At.After(a.Published) {
			continue
		}
		due := r.At.Add(spec.MinAge)
		if spec.Schedule != nil && !urgent {
			due = spec.Schedule.Next(due.Add(-time.Second))
		}
		if !due.After(now) {
			found = r
			continue
		}
		w.by(due)
		w.Waits = append(w.Waits, fmt.Sprintf("%s, of %s, is proposed from %s on", r.Alias, r.At.Format(time.DateOnly), due.UTC().Format("2006-01-02 15:04 UTC")))
	}
	if found == nil && a.Withdrawn && len(a.Releases) > 0 {
		found = &a.Releases[len(a.Releases)-1] // no node can be launched until it is replaced
	}
	if found == nil {
		return nil
	}
	return &Replacement{
		From: a.Name, To: found.Alias, Classes: a.Classes, Published: found.At, Before: a.Published, Notes: found.Notes,
		Deprecated: a.Deprecated, Withdrawn: a.Withdrawn,
	}
}

func (w *Want) by(at time.Time) {
	if w.Again.IsZero() || at.Before(w.Again) {
		w.Again = at
	}
}

// maxKey is the maximum length of a key: a host may store each part of a branch's name as a file.
const maxKey = 100

// key returns the key of a proposal: its new aliases, or only the families if it pins.
func (p Proposal) key() string {
	var parts []string
	for _, r := range p.Replace {
		part := strings.ReplaceAll(r.To, "@", "-")
		if p.Pins {
			part, _, _ = strings.Cut(r.To, "@")
		}
		parts = append(parts, part)
	}
	slices.Sort(parts)
	key := strings.Join(slices.Compact(parts), "_")
	if p.Pins {
		key = "pin-" + key
	}
	if len(key) > maxKey {
		key = fmt.Sprintf("%s-%.4x", key[:maxKey], sha256.Sum256([]byte(key)))
	}
	return key
}

// Names identify a train among those of all clusters.
type Names struct {
	// Group is shared by all that have one pull request at a time, and Own is only this NodeSync's.
	Group, Own string
}

// NamesOf returns the names of the train of a NodeSync in a cluster. No two NodeSyncs share Own: the name of a NodeSync has
// no underscore. A group has none either, so it is no other NodeSync's Own.
func NamesOf(cluster, nodeSync, group string) Names {
	own := strings.Map(plain, cluster) + "_" + nodeSync
	if len(own) > maxKey {
		own = fmt.Sprintf("%s-%.4x", own[:maxKey], sha256.Sum256([]byte(own)))
	}
	return Names{Group: cmp.Or(group, own), Own: own}
}

// plain keeps the characters of a cluster's name that are allowed anywhere in the name of a branch.
func plain(r rune) rune {
	if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' {
		return r
	}
	return '-'
}

// Prefix is that of the branches of the group.
func (n Names) Prefix() string { return source.Proposals + "images/" + n.Group + "/" }

// Branch is that of a proposal.
func (n Names) Branch(p Proposal) string { return n.Prefix() + n.Own + "/" + p.Key }

// owns reports whether a branch is one of this NodeSync.
func (n Names) owns(branch string) bool { return strings.HasPrefix(branch, n.Prefix()+n.Own+"/") }

// Opened is an open pull request of the group.
type Opened struct {
	Number             int
	Branch, URL, Title string
}

// Earlier is the newest pull request of a branch that is not open.
type Earlier string

// The values of Earlier.
const (
	// EarlierNone: there was none, or plumbline has closed it itself.
	EarlierNone Earlier = ""
	// EarlierClosed: a person has closed it.
	EarlierClosed Earlier = "Closed"
	EarlierMerged Earlier = "Merged"
)

// Action is what to do.
type Action string

// The actions.
const (
	Nothing Action = "Nothing"
	// Open pushes the branch, and opens the pull request.
	Open Action = "Open"
	// Rebase pushes the branch again if the files have changed since, and updates the title.
	Rebase Action = "Rebase"
	// Close closes a pull request and deletes its branch. The next decision may open another one.
	Close Action = "Close"
)

// Decision is the result of Decide.
type Decision struct {
	Action Action
	// Proposal is the one to open or rebase.
	Proposal Proposal
	// Of is the open pull request to rebase or close, or the one that is waited for.
	Of *Opened
	// Why is a sentence on why one is closed, or why nothing is done.
	Why string
}

// Decide returns what to do next, given the open pull requests of the group, the oldest first, and what happened to earlier
// ones by their branches.
func Decide(names Names, want Want, open []Opened, earlier map[string]Earlier) Decision {
	var mine []*Opened
	var other *Opened
	for i := range open {
		switch {
		case names.owns(open[i].Branch):
			mine = append(mine, &open[i])
		case other == nil:
			other = &open[i]
		}
	}
	next, refused := want.choose(names, mine, earlier)
	if len(mine) > 0 {
		return decideOpen(names, want, next, mine, other)
	}
	switch {
	case next == nil && refused != "":
		return Decision{Action: Nothing, Why: refused}
	case next == nil:
		return Decision{Action: Nothing, Why: strings.Join(slices.Concat(want.Unknown, want.Waits), "; ")}
	case other != nil:
		return Decision{Action: Nothing, Of: other, Why: fmt.Sprintf("%s of the same group is open: it is merged or closed first", other.URL)}
	}
	return Decision{Action: Open, Proposal: *next}
}

// choose returns the proposal to make; nil if there is none. An open one that is still wanted stays, so that it is not
// replaced by one of another kind. refused is why an existing one is not made.
func (w *Want) choose(names Names, mine []*Opened, earlier map[string]Earlier) (next *Proposal, refused string) {
	isOpen := func(p Proposal) bool {
		return slices.ContainsFunc(mine, func(o *Opened) bool { return o.Branch == names.Branch(p) })
	}
	if i := slices.IndexFunc(w.Proposals, isOpen); i >= 0 {
		return &w.Proposals[i], ""
	}
	for i := range w.Proposals {
		p := &w.Proposals[i]
		switch earlier[names.Branch(*p)] {
		case EarlierNone:
			return p, ""
		case EarlierClosed:
			refused = cmp.Or(refused, fmt.Sprintf("the pull request of branch %s was closed, and is not opened again", names.Branch(*p)))
		case EarlierMerged:
			refused = cmp.Or(refused, fmt.Sprintf("the pull request of branch %s was merged, and is not opened again", names.Branch(*p)))
		}
	}
	return nil, refused
}

// decideOpen returns what to do while pull requests of this NodeSync are open.
func decideOpen(names Names, want Want, next *Proposal, mine []*Opened, other *Opened) Decision {
	for i, o := range mine {
		is := next != nil && o.Branch == names.Branch(*next)
		switch {
		case other != nil && other.Number < o.Number:
			return Decision{Action: Close, Of: o, Why: fmt.Sprintf("%s of the same group was opened before", other.URL)}
		case len(want.Unknown) > 0 && i == 0: // what is wanted is not known
			if is {
				return Decision{Action: Rebase, Proposal: *next, Of: o}
			}
			return Decision{Action: Nothing, Of: o, Why: strings.Join(want.Unknown, "; ")}
		case next == nil:
			return Decision{Action: Close, Of: o, Why: "no EC2NodeClass of the branch needs it any more, or AWS does not publish these AMIs any more, or they are not old enough"}
		case !is:
			return Decision{Action: Close, Of: o, Why: "superseded by " + next.title()}
		case len(mine) == 1:
			return Decision{Action: Rebase, Proposal: *next, Of: o}
		}
	}
	for _, o := range mine {
		if next != nil && o.Branch == names.Branch(*next) {
			return Decision{Action: Rebase, Proposal: *next, Of: o}
		}
	}
	return Decision{Action: Nothing}
}

// title returns the new aliases.
func (p Proposal) title() string {
	var to []string
	for _, r := range p.Replace {
		if !slices.Contains(to, r.To) {
			to = append(to, r.To)
		}
	}
	slices.Sort(to)
	return strings.Join(to, ", ")
}
