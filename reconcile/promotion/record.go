package promotion

import (
	"slices"
	"time"
)

// State is the result of a commit on a cluster.
type State string

// The values of State.
const (
	// InProgress: the cluster has taken the commit, and its rollout is not complete.
	InProgress State = "InProgress"
	// Succeeded: rolled out, every wave was judged good, and nothing is braked.
	Succeeded State = "Succeeded"
	// Failed: the commit was refused or braked, its rollout failed, or another controller uses the cluster's name.
	Failed State = "Failed"
)

// Kind is what a commit changes, as far as the soak depends on it.
type Kind string

// The values of Kind.
const (
	// KindOther is any change of definitions, such as labels and limits.
	KindOther Kind = ""
	// KindImage is a change of the AMI of nodes.
	KindImage Kind = "Image"
	// KindKarpenter is a change of Karpenter's version.
	KindKarpenter Kind = "Karpenter"
)

// Effect is what a commit does to the nodes of a cluster.
type Effect struct {
	Kind Kind `json:"kind,omitempty"`
	// Nodes are those that the commit replaces or removes, of all nodes of the NodeSync.
	Nodes int `json:"nodes"`
	Of    int `json:"of"`
}

// soak returns how long a commit with an effect on a cluster must have been good there before a ring takes it.
func (r *Ring) soak(e Effect) time.Duration {
	switch {
	case e.Kind == KindKarpenter:
		return r.Soak
	case e.Nodes == 0:
		return 0
	case e.Kind == KindImage || 100*e.Nodes >= r.LongFrom*e.Of:
		return r.Soak
	}
	return r.ShortSoak
}

// with returns the effect of two commits that count as one.
func (e Effect) with(other Effect) Effect {
	if other.Kind == KindKarpenter || e.Kind == KindOther {
		e.Kind = other.Kind
	}
	e.Nodes, e.Of = max(e.Nodes, other.Nodes), max(e.Of, other.Of)
	return e
}

// Verdict is the result of one commit on one cluster.
type Verdict struct {
	// Commit is its full hash.
	Commit string `json:"commit"`
	State  State  `json:"state"`
	// Reason says why it failed, in one line.
	Reason string `json:"reason,omitempty"`
	Effect Effect `json:"effect"`
	// Since is when the commit got this State, by the clock of the cluster. Corrected drift does not change it.
	Since time.Time `json:"since"`
	// Took is how long the rollout took, in seconds, if the commit succeeded.
	Took int64 `json:"took,omitempty"`
	// Emergency is who signed the commit, if its soak and windows were bypassed.
	Emergency string `json:"emergency,omitempty"`
	// Reverted reports that the cluster took the commit at once, because it returns to what the cluster had before. The
	// cluster may never have succeeded on what it undoes.
	Reverted bool `json:"reverted,omitempty"`
}

// Record is what a member tells the others: its verdicts on the newest commits.
type Record struct {
	Cluster  string `json:"cluster"`
	NodeSync string `json:"nodeSync"`
	// Serial increases with each record, so that an older one is not taken for the newest.
	Serial int64 `json:"serial"`
	// At is when the record was made, by the clock of the cluster. It is repeated while nothing changes.
	At time.Time `json:"at"`
	// Verdicts are sorted by Since, newest first.
	Verdicts []Verdict `json:"verdicts"`
	// Unlisted are commits that failed and are not listed any more, the oldest first. They and their ancestors count as
	// succeeded only if they are listed themselves.
	Unlisted []string `json:"unlisted,omitempty"`
}

// Member returns whose record it is.
func (r Record) Member() Member { return Member{Cluster: r.Cluster, NodeSync: r.NodeSync} }

// Of returns the verdict on a commit; nil if the record does not list it.
func (r Record) Of(commit string) *Verdict {
	for i := range r.Verdicts {
		if r.Verdicts[i].Commit == commit {
			return &r.Verdicts[i]
		}
	}
	return nil
}

// Next returns the record after a verdict at a time. A verdict with an unchanged state keeps its Since, so that the soak
// of the commit continues. v.Since is ignored. A commit that was replaced before its rollout was complete is dropped, and
// its effect counts for v.
func (r Record) Next(v Verdict, now time.Time) Record {
	v.Since = now
	kept := make([]Verdict, 0, len(r.Verdicts)+1)
	for _, old := range r.Verdicts {
		switch {
		case old.Commit == v.Commit:
			v.Effect = v.Effect.with(old.Effect) // of a rollout that is complete, no node is left to count
			if v.Emergency == "" {
				v.Emergency = old.Emergency
			}
			v.Reverted = v.Reverted || old.Reverted
			switch {
			case old.State == v.State:
				v.Since, v.Took = old.Since, old.Took
			case old.State == InProgress && v.State == Succeeded:
				v.Took = int64(now.Sub(old.Since).Seconds())
			}
		case old.State == InProgress:
			v.Effect = v.Effect.with(old.Effect)
		default:
			kept = append(kept, old)
		}
	}
	r.Verdicts = append(kept, v)
	slices.SortStableFunc(r.Verdicts, func(a, b Verdict) int { return b.Since.Compare(a.Since) })
	r.thin(now)
	return r.Again(now)
}

// Observed is what a reconcile has found out about the commit that its cluster has taken.
type Observed struct {
	Commit string
	// RolledOut reports that it is applied, each node matches, every wave was judged good, and nothing waits or is held.
	RolledOut bool
	// Failed is why it failed, in one line: a person has to act, a rollout is braked, or another controller uses the
	// cluster's name. It is empty if it did not.
	Failed string
	// Effect is what is known of its effect by now.
	Effect Effect
	// Emergency is who signed it, if it was taken as an emergency. Reverted reports that it was taken as a revert.
	Emergency string
	Reverted  bool
}

// Observe returns the record after an observation, and whether it has changed. A commit that succeeded stays successful
// until it fails: drift that is corrected, and a host or an API server that is unavailable, do not start its soak again.
func (r Record) Observe(o Observed, now time.Time) (Record, bool) {
	v := Verdict{Commit: o.Commit, State: InProgress, Effect: o.Effect, Emergency: o.Emergency, Reverted: o.Reverted}
	old := r.Of(o.Commit)
	if old != nil && old.State == Succeeded {
		v.Effect = old.Effect // what a plan still contains is drift
	}
	switch {
	case o.Failed != "":
		v.State, v.Reason = Failed, o.Failed
	case o.RolledOut || old != nil && old.State == Succeeded:
		v.State = Succeeded
	}
	if old != nil && old.State == v.State && old.Reason == v.Reason && old.Effect.with(v.Effect) == old.Effect &&
		(v.Emergency == "" || v.Emergency == old.Emergency) {
		return r, false
	}
	return r.Next(v, now), true
}

// Again returns the same record at a later time. The serial follows the clock, so that a cluster whose own record was
// deleted continues above the serials that others have seen.
func (r Record) Again(now time.Time) Record {
	r.Serial = max(r.Serial+1, now.Unix())
	r.At = now
	return r
}

// maxFailed limits the failed commits that a record lists.
const maxFailed = 50

// maxUnlisted limits the failed commits of which a record keeps only the hash.
const maxUnlisted = 1000

// slots thin the commits that succeeded: of those up to an age, the first one of each slot of absolute time is listed. A
// listed commit is listed until it is older than the last slot, so the soak of a commit never starts again because newer
// ones follow it. With a commit each minute, a record lists about 150.
var slots = []struct{ upTo, slot time.Duration }{
	{30 * time.Minute, time.Minute},
	{6 * time.Hour, 15 * time.Minute},
	{48 * time.Hour, time.Hour},
	{30 * 24 * time.Hour, 12 * time.Hour},
}

// slotOf returns the length of the slot of an age; zero for an age that is not listed any more.
func slotOf(age time.Duration) time.Duration {
	for _, s := range slots {
		if age <= s.upTo {
			return s.slot
		}
	}
	return 0
}

// thin drops verdicts that are not needed any more. The newest one always remains, and so does what is in progress. The
// effect of a dropped commit counts for the next newer one that succeeded: a cluster that takes that takes both.
func (r *Record) thin(now time.Time) {
	var kept []Verdict
	var dropped Effect
	taken := map[time.Time]bool{}
	for i, v := range slices.Backward(r.Verdicts) {
		if v.State != Succeeded {
			kept = append(kept, v)
			continue
		}
		slot := slotOf(now.Sub(v.Since))
		at := v.Since.Truncate(max(slot, 1))
		switch {
		case i > 0 && slot == 0:
			continue
		case i > 0 && taken[at]:
			dropped = dropped.with(v.Effect)
			continue
		}
		taken[at] = true
		v.Effect, dropped = v.Effect.with(dropped), Effect{}
		kept = append(kept, v)
	}
	slices.Reverse(kept)
	failed := 0
	var unlisted []string
	r.Verdicts = slices.DeleteFunc(kept, func(v Verdict) bool {
		if v.State != Failed {
			return false
		}
		if failed++; failed > maxFailed {
			unlisted = append(unlisted, v.Commit)
		}
		return failed > maxFailed
	})
	slices.Reverse(unlisted)
	r.Unlisted = append(slices.Clone(r.Unlisted), unlisted...)
	r.Unlisted = r.Unlisted[max(0, len(r.Unlisted)-maxUnlisted):]
	if len(r.Unlisted) == 0 {
		r.Unlisted = nil
	}
}

// The pace of the pushes of a record.
const (
	// MinPushInterval is the shortest time between two pushes of one cluster.
	MinPushInterval = time.Minute
	// heartbeats is how many records a cluster makes while nothing changes, in the time after which it counts as silent.
	heartbeats = 4
)

// PushDue returns when a record must be pushed again: a changed one as soon as the pace allows, an unchanged one often
// enough that the cluster does not count as silent.
func PushDue(last time.Time, changed bool, silentAfter time.Duration) time.Time {
	if changed {
		return last.Add(MinPushInterval)
	}
	return last.Add(max(silentAfter/heartbeats, MinPushInterval))
}
