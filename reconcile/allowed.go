package reconcile

// allowed is what a reconcile still does after its phases have ended, with an error or without:
//
//	how the phases ended                        | definitions, removals     | brake, look at nodes | leased budgets
//	--------------------------------------------|---------------------------|----------------------|---------------
//	without an error                            | as Git wants              | in the phases        | kept
//	a change of the charts is refused or held,  | as Git wants, under the   | in the phases        | kept
//	and a release is installed¹                 | installed release         |                      |
//	an error before definitions were written    | no                        | by what is in force  | revoked
//	an error after definitions were written     | no more                   | only the look, if it | revoked
//	                                            |                           | was not taken        |
//	suspended, or Karpenter's CRDs not served   | no                        | no                   | revoked
//
// ¹ upgrade.StaysInForce.
//
// The class of an error does not matter here: it decides when the next reconcile comes, and what is reported
// (reconcile/fault).
type allowed struct {
	// brake reports whether failing rollouts are stopped, by what is in force.
	brake bool
	// check reports whether instances and terminations are compared with what is in force.
	check bool
	// leases reports whether Karpenter keeps the disruption budgets that removals and waves have lent to it.
	leases bool
}

// actionsAfter returns what is still done after the phases have ended with this outcome.
func actionsAfter(out outcome) allowed {
	failed := out.fault != nil
	brake := failed && !out.Nodes.SawRollout && len(out.Work.Written) == 0
	return allowed{
		brake:  brake,
		check:  brake || failed && out.Nodes.Terminations == nil,
		leases: !failed && out.mode != suspended && out.Charts.CRDs.Ready,
	}
}
