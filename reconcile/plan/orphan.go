package plan

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/plumbline-dev/plumbline/provision/owners"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

// ReasonOrphan is the reason of what is left to itself, and waits for people to approve that.
const ReasonOrphan = "Orphan"

// orphans holds what is left to itself until people have approved that: nobody would manage its nodes.
// No node ends, so that no limit of the guard is about it.
func orphans(c Candidate, w weighing) (reason, message string, hold bool) {
	if c.approved.covers(ReasonOrphan) {
		return "", "", false
	}
	if c.Keeper != "" {
		return ReasonOrphan, fmt.Sprintf("%s has left Git, and %s: no node of it is ended; approve that it stays without a NodeSync, or put it back into Git", c.Ref, c.Keeper), true
	}
	return ReasonOrphan, fmt.Sprintf("removal.strategy is Orphan: %s stays in the cluster with its nodes, and no NodeSync manages it: approve that, or put it back into Git, or set another strategy", c.Ref), true
}

// keeper says of an object that Flux or Argo CD applies it as well, or that it is annotated to stay when
// it leaves a source: it is being handed over, or back, and is not ours to remove. Empty where neither is so.
func keeper(object *Object) string {
	if by, ok := appliedBesides(object); ok {
		return "is applied by " + by.String()
	}
	if mark, ok := owners.Kept(object); ok {
		return fmt.Sprintf("is annotated with %q", mark)
	}
	return ""
}

// appliedBesides is the tool whose labels or annotations an object has.
func appliedBesides(object *Object) (owners.Owner, bool) {
	owner := owners.Of(object)
	return owner, owner.Reconciles() && owner.Kind != ""
}

// unorphan has an object that is adopted again lose the label of one that was left to itself.
func (c *Change) unorphan() {
	if c.Action == Adopt && c.Live.GetLabels()[v1alpha1.OrphanedLabel] != "" {
		c.Takeover, c.Taken = true, append(c.Taken, []string{"metadata", "labels", v1alpha1.OrphanedLabel})
	}
}

// OrphanedPool is a NodePool that a NodeSync has left to itself, and how many NodeClaims it has.
type OrphanedPool struct {
	Name  string
	Nodes int
}

// IsOrphaned says whether an owner has left an object to itself, and nobody has adopted it since.
func (o *Object) IsOrphaned(by Owner) bool {
	label, _ := by.Label()
	return o.owner == "" && o.GetLabels()[v1alpha1.OrphanedLabel] == label
}

// Orphaned are the NodePools with nodes that an owner has left to themselves, and that no other tool
// applies, by name.
func (l Live) Orphaned(by Owner) []OrphanedPool {
	var found []OrphanedPool
	var claims map[render.Ref][]*NodeClaim
	for ref, object := range l.Objects {
		if ref.Kind != render.NodePool || !object.IsOrphaned(by) {
			continue
		}
		if _, applied := appliedBesides(object); applied {
			continue
		}
		if claims == nil {
			claims = l.claims()
		}
		if n := len(claims[ref]); n > 0 {
			found = append(found, OrphanedPool{Name: ref.Name, Nodes: n})
		}
	}
	slices.SortFunc(found, func(a, b OrphanedPool) int { return cmp.Compare(a.Name, b.Name) })
	return found
}
