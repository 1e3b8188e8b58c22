package conclude

import (
	"fmt"

	"github.com/dustin/go-humanize/english"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
)

// setOrphaned tells of NodePools that were left to themselves, as long as they have nodes: nobody manages
// these, and they cost. A pass that has not come so far leaves what was reported.
func (s *Step) setOrphaned() {
	if !s.Planned {
		return
	}
	s.Sync.Status.OrphanedNodes = 0
	words, named := "", make([]string, 0, len(s.Orphaned))
	for _, pool := range s.Orphaned {
		s.Sync.Status.OrphanedNodes += int32(pool.Nodes)
		named = append(named, "NodePool/"+pool.Name)
	}
	if len(named) > 0 {
		words = fmt.Sprintf("%s %s left to %s with nodes, and no NodeSync manages %s: put %s back into Git, or delete %s with kubectl",
			finding.Some(named), english.PluralWord(len(named), "was", "were"), english.PluralWord(len(named), "itself", "themselves"),
			english.PluralWord(len(named), "it", "them"), english.PluralWord(len(named), "it", "them"), english.PluralWord(len(named), "it", "them"))
	}
	s.setTrouble(v1alpha1.OrphanedCondition, v1alpha1.ReasonOrphaned, words)
}

// setOtherAppliers names, while a NodeSync is deleted with its nodes, the other clients that apply something of it: what they
// create again nobody drains. A pass that has not come so far leaves what was reported.
func (s *Step) setOtherAppliers() {
	if !s.Planned {
		return
	}
	words := ""
	if len(s.Appliers) > 0 {
		words = fmt.Sprintf("other clients apply what this drain ends, and create it again: %s: take it out there, or suspend that", finding.Few(s.Appliers, "; "))
	}
	s.setTrouble(v1alpha1.OtherAppliersCondition, v1alpha1.ReasonOtherAppliers, words)
}
