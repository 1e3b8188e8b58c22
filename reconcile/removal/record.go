package removal

import (
	"fmt"
	"slices"

	"github.com/dustin/go-humanize/english"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

// reasonVanished is that of a removal whose object another client has deleted.
const reasonVanished = "Vanished"

// recordCandidates writes down what leaves, held or not. It is acted on once the
// record is read back.
func (s *Step) recordCandidates() {
	now := s.timestamp()
	for _, c := range s.Plan.Removals {
		if c.Recorded {
			s.note(c)
			continue
		}
		removal := v1alpha1.Removal{
			Kind: c.Ref.Kind, Name: c.Ref.Name, UID: c.UID, Revision: c.Revision,
			RecordedAt: now, Phase: v1alpha1.RemovalPacing, Since: now, LastProgress: now,
			MovesTo: c.MovesTo, Remaining: int32(c.Nodes), Reason: c.Reason, Message: c.Message, Reasons: severalOf(c),
		}
		if live := s.Live.Objects[c.Ref]; live != nil && live.GetUID() == c.UID {
			removal.Definition = plan.Definition(live.Unstructured)
		}
		if c.Held {
			removal.Phase = v1alpha1.RemovalHeld
		}
		if c.Vanished {
			removal.Reason = reasonVanished
			s.Warn(reasonVanished, fmt.Sprintf("%s was deleted by hand, and Git has no entry for it: its %d %s to end, and EC2 is asked for its instances", c.Ref, c.Nodes, english.PluralWord(c.Nodes, "NodeClaim has", "NodeClaims have")))
		}
		s.Sync.Status.Removals = append(s.Sync.Status.Removals, removal)
		s.wakeNow()
	}
}

// note notes of a recorded removal what is new: which revision lacks it, where it is held since the branch was, or
// may have been, set back, and was set back once more, and where a drain takes it over, or is over; where its nodes
// move to; and the digest of what was held of it and was approved.
func (s *Step) note(c plan.Candidate) {
	for i := range s.Sync.Status.Removals {
		r := &s.Sync.Status.Removals[i]
		if r.UID != c.UID {
			continue
		}
		if decided := c.Revision == plan.RevisionDeleted != (r.Revision == plan.RevisionDeleted); decided || heldAsOlder(c) {
			r.Revision = c.Revision
		}
		r.MovesTo = c.MovesTo
		if c.Approved != "" {
			r.Approved, r.LastPool = c.Approved, c.Last
		}
	}
}

// severalOf are the reasons for which a candidate is held, if there is more than one.
func severalOf(c plan.Candidate) []string {
	if len(c.Holds) < 2 {
		return nil
	}
	var reasons []string
	for _, h := range c.Holds {
		reasons = append(reasons, h.Reason)
	}
	return reasons
}

// heldAsOlder says whether a candidate is held since HEAD is, or may be, older.
func heldAsOlder(c plan.Candidate) bool {
	return slices.Contains([]string{v1alpha1.ReasonOlderRevision, v1alpha1.ReasonHistoryUnknown}, c.Reason)
}

// predate lets no removal be younger than what this pass has made: that is new to
// each of them. The times are those of two clocks, one of which may have jumped.
func (s *Step) predate() {
	for _, w := range s.Written {
		if !w.New {
			continue
		}
		for i := range s.Sync.Status.Removals {
			if r := &s.Sync.Status.Removals[i]; w.CreatedAt.Before(&r.RecordedAt) {
				r.RecordedAt = w.CreatedAt
			}
		}
	}
}
