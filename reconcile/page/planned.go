package page

import (
	"fmt"
	"strings"
	"time"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/summary"
	"github.com/plumbline-dev/plumbline/render"
)

// planned is what is about to be done, as far as the status has it: removals that are open and the
// rollout stand by themselves.
type planned struct {
	// Commit is the one that is not applied yet; empty where there is none, or it is refused.
	Commit string
	// Waits is why nothing goes on, Summary what is held does to nodes, and Approvals who has approved it.
	Waits, Summary, Approvals string
	Since                     when
	Rows                      []plannedEntry
}

// plannedEntry is an object that is about to be changed or removed.
type plannedEntry struct {
	Object, Does, State string
	Held                bool
	Nodes               int32
}

// plannedOf shows what is left to do; nil where that is nothing.
func plannedOf(s v1alpha1.NodeSyncStatus, state summary.State, now time.Time) *planned {
	p := &planned{}
	if s.LastAttemptedRevision != s.LastAppliedRevision && state != summary.Failed {
		p.Commit = render.ShortRevision(s.LastAttemptedRevision)
	}
	if w := s.Waiting; w != nil {
		p.Waits, p.Since = strings.TrimSuffix(w.For+": "+w.Message, ": "), ago(&w.Since, now)
	}
	if held := s.Held; held != nil {
		p.Summary, p.Approvals = held.Summary, approvals(held)
		for _, e := range held.Entries {
			state := "held"
			if len(e.Policies) > 0 {
				state += " by policy " + strings.Join(e.Policies, ", ")
			}
			p.Rows = append(p.Rows, entryOf(e, state, true))
		}
	}
	for _, approved := range s.Approved {
		for _, e := range approved.Entries {
			p.Rows = append(p.Rows, entryOf(e, "approved by "+strings.Join(approved.By, ", ")+", not done yet", false))
		}
	}
	if p.Commit == "" && p.Waits == "" && len(p.Rows) == 0 {
		return nil
	}
	return p
}

func entryOf(e v1alpha1.ApprovedEntry, state string, held bool) plannedEntry {
	does := "changed"
	switch {
	case e.Orphan:
		does = "left to itself, with its nodes"
	case e.Definition == "":
		does = "removed"
	}
	return plannedEntry{Object: plan.Moved(e.Kind+"/"+e.Name, e.MovesTo), Does: does, State: state, Held: held, Nodes: e.Nodes}
}

// approvals says who has approved what is held, and why that does not count.
func approvals(held *v1alpha1.HeldPlan) string {
	words := fmt.Sprintf("%d of %d", len(held.Approvers), held.Needed)
	if len(held.Approvers) > 0 {
		words += " (" + strings.Join(held.Approvers, ", ") + ")"
	}
	if held.Message != "" {
		words += "; " + held.Message
	}
	return words
}
