package rollout

import "github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"

// Governor is what decides how many nodes of a NodePool Karpenter may replace.
type Governor string

// The Governors.
const (
	// ByRemoval: the removal of the pool sets its pace.
	ByRemoval Governor = "removal"
	// ByBrake: none, because launches fail, workloads fail, a condition is true, or no commit has outdated the nodes.
	ByBrake Governor = "brake"
	// ByRevert: as many as the budgets in Git allow, because a commit or a person undoes what is being rolled out, or a
	// person has resumed it.
	ByRevert Governor = "revert"
	// ByFreeze: none, until a window of spec.guard opens.
	ByFreeze Governor = "freeze"
	// ByWave: those of the wave; in the last one, as many as the budgets in Git allow.
	ByWave Governor = "wave"
	// ByGit: as many as the budgets in Git allow.
	ByGit Governor = "Git"
)

// Rules are what applies to a NodePool.
type Rules struct{ Removal, Brake, Revert, Freeze, Wave bool }

// precedence is the order of the Governors: the first that applies decides. The budgets in Git remain the upper limit
// under each of them, except that a removal has its own pace. SPEC.md has the same table.
var precedence = []struct {
	governor Governor
	applies  func(Rules) bool
}{
	{ByRemoval, func(r Rules) bool { return r.Removal }}, // its nodes are deleted in any case
	{ByBrake, func(r Rules) bool { return r.Brake }},     // until the definition changes, or a person resumes it
	{ByRevert, func(r Rules) bool { return r.Revert }},   // what is bad is undone at once
	{ByFreeze, func(r Rules) bool { return r.Freeze }},   // a wave continues after it
	{ByWave, func(r Rules) bool { return r.Wave }},
}

// Governor returns what decides.
func (r Rules) Governor() Governor {
	for _, p := range precedence {
		if p.applies(r) {
			return p.governor
		}
	}
	return ByGit
}

// stops reports whether something decides before the wave, so that it does not proceed.
func (r Rules) stops() bool {
	r.Wave = true
	return r.Governor() != ByWave
}

// RulesOf returns what applies to a NodePool, given its state; removed reports whether its removal has started.
func RulesOf(e v1alpha1.PoolRollout, removed bool) Rules {
	return Rules{
		Removal: removed,
		Brake:   e.BrakedAt != nil && !frozen(e),
		Revert:  e.DespiteFreeze,
		Freeze:  frozen(e),
		Wave:    e.Wave != nil,
	}
}
