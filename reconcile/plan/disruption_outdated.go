package plan

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/render"
)

// outdatedBefore are the NodeClaims of the NodeSync's definitions that earlier commits have outdated, that are not
// replaced yet, and that the Plan does not make match again: they count together with those that it outdates, or a
// change that is split into several commits would get past the guard. What the Plan outdates itself is in the
// shares of its Changes.
func (m *maker) outdatedBefore() map[types.UID]bool {
	var ours []*Object
	for ref, object := range m.live.Objects {
		if m.inSet[ref] && m.owns(object) { // the nodes of a pool that is removed count with its removal
			ours = append(ours, object)
		}
	}
	match := Match{Live: m.live, Exact: true, CABundle: m.policy.CABundle, Memory: m.memo.matches}
	found := map[types.UID]bool{}
	for _, o := range match.Outdated(ours).Outdated {
		if !m.decidedAnew(o) {
			found[o.Claim.UID] = true
		}
	}
	return found
}

// outdatedByClass are the NodeClaims of a NodePool that its EC2NodeClass has outdated, although Karpenter may not have marked them
// yet, and that the Plan does not make match again. While Karpenter may still find nodes outdated by subnets, security groups or
// reservations of an earlier commit, which no object shows, it may be any of them.
func (m *maker) outdatedByClass(pool render.Ref, claims []*NodeClaim) map[types.UID]bool {
	found := map[types.UID]bool{}
	if r := m.live.Rollout; r != nil && r.Revision != "" && r.SettlesAt != nil && m.policy.Now.Before(r.SettlesAt.Time) {
		for _, c := range claims {
			found[c.UID] = true
		}
		return found
	}
	// Pools are decided on at the same time: the memory that they share is only read.
	match := Match{Live: m.live, Exact: true, CABundle: m.policy.CABundle, Memory: &MatchMemory{proven: m.memo.matches.proven}}
	for _, o := range match.Outdated([]*Object{m.live.object(pool)}).Outdated {
		if o.Reason != DriftOfPool && o.Reason != driftOfRequirements && !m.decidedAnew(o) {
			found[o.Claim.UID] = true
		}
	}
	return found
}

// decidedAnew reports whether a Change of the Plan decides whether a NodeClaim still is outdated for its reason: then it is, if
// the Change touches it.
func (m *maker) decidedAnew(o Outdated) bool {
	pool, class := poolRefOf(o.Claim.Pool), render.Ref{Kind: render.EC2NodeClass, Name: o.Claim.Class}
	switch o.Reason {
	case DriftOfPool:
		return m.writesField(pool, func(path []string) bool { return inTemplate(path) && !inRequirements(path) })
	case driftOfRequirements:
		return m.writesField(pool, inRequirements)
	case driftOfClass:
		return m.writesField(class, func(path []string) bool { return len(driftsOf(path)) == 0 })
	}
	return m.writesField(class, func(path []string) bool { return slices.Contains(driftsOf(path), o.Reason) })
}

// writesField reports whether the Plan writes such a field of the spec of an object.
func (m *maker) writesField(ref render.Ref, of func(path []string) bool) bool {
	change, ok := m.changes[ref]
	return ok && change.Action.Writes() && slices.ContainsFunc(change.differences, func(d difference) bool {
		return len(d.path) > 1 && d.path[0] == "spec" && of(d.path)
	})
}

func inTemplate(path []string) bool { return path[1] == "template" }

func inRequirements(path []string) bool {
	return inTemplate(path) && len(path) > 3 && path[2] == "spec" && path[3] == "requirements"
}

// driftsOf are Karpenter's reasons for which nodes drift by a field of an EC2NodeClass that is not in its hash.
func driftsOf(path []string) []string {
	var found []string
	for _, field := range resolvedFields() {
		if field.name == path[1] {
			found = append(found, field.reason)
		}
	}
	return found
}
