package promotion

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"time"
)

// Fleet is what each cluster of a fleet has taken and waits for, from what Git has.
type Fleet struct {
	// Tip is the newest commit of the branch.
	Tip string `json:"tip"`
	// Invalid is why the rings.yaml of Tip is not valid; the newest valid one is shown. Empty if it is.
	Invalid string `json:"invalid,omitempty"`
	// Rings are in their order.
	Rings []FleetRing `json:"rings"`
	// Commits are those that a cluster has taken, or that one could take, newest first.
	Commits []FleetCommit `json:"commits"`
}

// FleetRing is a ring, with its clusters in the order of rings.yaml.
type FleetRing struct {
	Name string `json:"name"`
	// Paused is why the ring is paused; empty if it is not.
	Paused string `json:"paused,omitempty"`
	// Done is when enough of its clusters had succeeded on Tip, and Expected when they will if nothing stops it: at the
	// pace of their last rollouts, if Measured, else a lower bound of soaks and windows. Both are nil if unknown.
	Done     *time.Time     `json:"done,omitempty"`
	Expected *time.Time     `json:"expected,omitempty"`
	Measured bool           `json:"measured,omitempty"`
	Clusters []FleetCluster `json:"clusters"`
}

// FleetCluster is what one cluster has taken.
type FleetCluster struct {
	Cluster  string `json:"cluster"`
	NodeSync string `json:"nodeSync"`
	// Commit is the one that it has taken last, with the result and since when; empty if it has not reported.
	Commit string     `json:"commit,omitempty"`
	State  State      `json:"state,omitempty"`
	Since  *time.Time `json:"since,omitempty"`
	// Reason is why the commit failed, or why the record proves nothing; empty if there is nothing to say.
	Reason string `json:"reason,omitempty"`
	// Effect is that of the commit on this cluster.
	Effect Effect `json:"effect"`
	// ReportedAt is the time of its newest record. Silent reports that it is too old, or that there is none.
	ReportedAt *time.Time `json:"reportedAt,omitempty"`
	Silent     bool       `json:"silent,omitempty"`
	// Waits is what the newest commit waits for on this cluster; nil if it has taken that one.
	Waits *FleetWait `json:"waits,omitempty"`
}

// FleetWait is what a commit waits for.
type FleetWait struct {
	Reason  Reason     `json:"reason"`
	Message string     `json:"message"`
	Since   *time.Time `json:"since,omitempty"`
	Until   *time.Time `json:"until,omitempty"`
}

// FleetCommit is a commit, and how far it has come in each ring.
type FleetCommit struct {
	Commit string    `json:"commit"`
	At     time.Time `json:"at"`
	// Rings has the counts of each ring, in their order.
	Rings []FleetCount `json:"rings"`
}

// FleetCount counts the clusters of a ring by what became of a commit. Of a cluster that has not taken it, none counts.
type FleetCount struct {
	Ring       string `json:"ring"`
	Clusters   int    `json:"clusters"`
	Succeeded  int    `json:"succeeded"`
	InProgress int    `json:"inProgress,omitempty"`
	Failed     int    `json:"failed,omitempty"`
	// Contained have succeeded on a newer commit that contains it.
	Contained int `json:"contained,omitempty"`
}

// maxFleetCommits limits the commits of a Fleet.
const maxFleetCommits = 20

// Overview returns a Fleet. floors are those of members whose NodeSync is known; for the others, rings.yaml is all that is
// known.
func Overview(history *History, records Records, floors map[Member]Floor, now time.Time) (Fleet, error) {
	fleet := Fleet{Tip: history.Tip, Rings: []FleetRing{}, Commits: []FleetCommit{}}
	line := history.Line("")
	at := slices.IndexFunc(line, func(c *Commit) bool { return c.Rings != nil })
	if at < 0 {
		if tip := history.Get(history.Tip); tip != nil && tip.Invalid != nil {
			return fleet, tip.Invalid
		}
		return fleet, errors.New("no commit of the branch has a " + File)
	}
	if tip := history.Get(history.Tip); tip.Rings == nil {
		fleet.Invalid = File + " is missing"
		if tip.Invalid != nil {
			fleet.Invalid = tip.Invalid.Error()
		}
	}
	rings, view := line[at].Rings, NewView(history, records, now)
	effect, foreseen := effectSoFar(rings, records, history.Tip)
	way := WayOf(rings, records, history, history.Tip, effect, Floor{}, now)
	for i, ring := range rings.Rings {
		shown := FleetRing{Name: ring.Name, Paused: ring.Paused, Clusters: []FleetCluster{}}
		for _, m := range ring.Members {
			floor, known := floors[m]
			if !known {
				floor = Floor{Ring: ring.Name}
			}
			c := view.cluster(m, floor, rings)
			foreseen = foreseen && !c.Silent && (c.State != Failed || c.Commit != history.Tip) // nothing after this ring proceeds
			shown.Clusters = append(shown.Clusters, c)
		}
		switch leg := way.Legs[i]; {
		case leg.Done:
			shown.Done = timePtr(leg.Over)
		case foreseen:
			shown.Expected, shown.Measured = timePtr(leg.Over), way.Measured
		}
		fleet.Rings = append(fleet.Rings, shown)
	}
	fleet.Commits = fleetCommits(history, line, rings, records)
	return fleet, nil
}

// effectSoFar returns the effect of a commit on the clusters that have taken it; known is false if none has.
func effectSoFar(rings *Rings, records Records, commit string) (e Effect, known bool) {
	for _, ring := range rings.Rings {
		for _, m := range ring.Members {
			if record := records[m].Record; record != nil {
				if v := record.Of(commit); v != nil {
					e, known = e.with(v.Effect), true
				}
			}
		}
	}
	return e, known
}

// cluster returns what one cluster has taken, and what the newest commit waits for there.
func (v *View) cluster(m Member, floor Floor, rings *Rings) FleetCluster {
	standing := v.records[m]
	c := FleetCluster{Cluster: m.Cluster, NodeSync: m.NodeSync, Reason: standing.Problem, Silent: true}
	if r := standing.Record; r != nil {
		c.ReportedAt, c.Silent = timePtr(r.At), v.now.Sub(r.At) > rings.SilentAfter
		if len(r.Verdicts) > 0 {
			last := r.Verdicts[0]
			c.Commit, c.State, c.Since, c.Effect = last.Commit, last.State, timePtr(last.Since), last.Effect
			if last.Reason != "" {
				c.Reason = last.Reason
			}
		}
	}
	if c.Commit == v.history.Tip {
		return c
	}
	answer, err := v.Gate(m, floor, c.Commit)
	switch {
	case err != nil:
		c.Waits = &FleetWait{Reason: RingsInvalid, Message: err.Error()}
	case len(answer.Waits) > 0:
		w := answer.Waits[0]
		c.Waits = &FleetWait{Reason: w.Reason, Message: w.Message, Since: timePtr(w.Since), Until: timePtr(w.Until)}
	default:
		c.Waits = &FleetWait{Reason: Passes, Message: "may take it now: the cluster has not reported yet that it has"}
	}
	return c
}

// Passes means that the commit may be taken, and the cluster has not reported that it has taken it.
const Passes Reason = "Passes"

func timePtr(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// fleetCommits returns how far each of the newest commits has come.
func fleetCommits(history *History, line []*Commit, rings *Rings, records Records) []FleetCommit {
	commits := []FleetCommit{}
	for _, c := range line[:min(len(line), maxFleetCommits)] {
		one := FleetCommit{Commit: c.Hash, At: c.At}
		everywhere := true
		for _, ring := range rings.Rings {
			count := FleetCount{Ring: ring.Name, Clusters: len(ring.Members)}
			for _, m := range ring.Members {
				count.add(history, records[m].Record, c.Hash)
			}
			everywhere = everywhere && count.Succeeded+count.Contained == count.Clusters
			one.Rings = append(one.Rings, count)
		}
		if commits = append(commits, one); everywhere {
			break // so are all commits that it contains
		}
	}
	return commits
}

func (n *FleetCount) add(history *History, r *Record, commit string) {
	if r == nil {
		return
	}
	if v := r.Of(commit); v != nil {
		switch v.State {
		case Succeeded:
			n.Succeeded++
		case InProgress:
			n.InProgress++
		case Failed:
			n.Failed++
		}
		return
	}
	if slices.ContainsFunc(r.Verdicts, func(v Verdict) bool { return v.State == Succeeded && history.Contains(v.Commit, commit) }) {
		n.Contained++
	}
}

// Claim returns the record in an envelope without verifying who has signed it, for display.
func (e Envelope) Claim(m Member) (Record, error) {
	if e.Problem != "" {
		return Record{}, errors.New(e.Problem)
	}
	_, message, _ := bytes.Cut(e.Data, []byte("\n\n"))
	_, text, _ := bytes.Cut(message, []byte("\n\n"))
	var r Record
	if len(e.Data) > MaxRecord || json.Unmarshal(text, &r) != nil {
		return Record{}, errors.New("the record cannot be read")
	}
	if r.Member() != m {
		return Record{}, errors.New("the record is that of " + r.Member().String())
	}
	return r, nil
}
