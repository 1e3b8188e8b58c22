package v1alpha1

// Drains says whether all nodes of the NodeSync are ended: it is deleted with them, or keeps only its
// definitions.
func (n *NodeSync) Drains() bool {
	return n.Keeps() || !n.DeletionTimestamp.IsZero() && n.Spec.OnDelete == OnDeleteDrain
}

// Keeps says whether all nodes are ended, and the definitions stay.
func (n *NodeSync) Keeps() bool { return n.Spec.Drain && n.DeletionTimestamp.IsZero() }

// Rests says whether nothing of it is fetched or applied: it is suspended, or keeps only its definitions.
func (n *NodeSync) Rests() bool { return n.Spec.Suspend || n.Keeps() }

// Drained says whether it keeps only its definitions, and none of its NodePools has a node left.
func (n *NodeSync) Drained() bool {
	if !n.Keeps() {
		return false
	}
	for i := range n.Status.Removals {
		if r := &n.Status.Removals[i]; r.Kind == "NodePool" && !r.Drained() {
			return false
		}
	}
	return true
}

// Drained says whether no node of the NodePool is left, and it stays.
func (r *Removal) Drained() bool { return r.Reason == ReasonDrained }
