package plan

import (
	"fmt"
	"time"

	"github.com/dustin/go-humanize/english"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/plumbline-dev/plumbline/render"
)

// percentOf is what a percentage is of: NodeClaims, without those that a recent commit may have added to raise the limit.
type percentOf struct{ of, added int }

// nodesFor are the NodeClaims that percentages are of when a group is weighed. If all NodePools are new, all of their NodeClaims
// count: a new cluster has no others.
func (m *maker) nodesFor(group []share) percentOf {
	var found percentOf
	since, allNew := m.spanOf(removalsOf(group)).after, true
	for ref, object := range m.live.Objects {
		if ref.Kind == render.NodePool && (m.owns(object) || m.live.recorded(object.Unstructured)) {
			added := m.added(ref, object, since)
			found.of += len(m.claims()[ref]) - added
			found.added += added
			allNew = allNew && m.isNew(object.GetCreationTimestamp().Time, since)
		}
	}
	if allNew {
		return percentOf{of: found.of + found.added}
	}
	return found
}

// nodesOfPoolFor are those of one NodePool; of a new one, all of its NodeClaims.
func (m *maker) nodesOfPoolFor(pool string, group []share) percentOf {
	ref := poolRefOf(pool)
	object, since := m.live.object(ref), m.spanOf(removalsOf(group)).after
	found := percentOf{of: len(m.claims()[ref])}
	if object == nil || m.isNew(object.GetCreationTimestamp().Time, since) {
		return found
	}
	found.added = m.added(ref, object, since)
	found.of -= found.added
	return found
}

// added is how many NodeClaims of a NodePool were created since a time and may be there because a commit added the NodePool or
// raised its replicas. Other NodePools launch nodes for pods, or to replace nodes.
func (m *maker) added(ref render.Ref, pool *Object, since time.Time) int {
	if specField(pool.Unstructured, "replicas") == nil && !m.isNew(pool.GetCreationTimestamp().Time, since) {
		return 0
	}
	n := 0
	for _, c := range m.claims()[ref] {
		if m.isNew(c.Created, since) {
			n++
		}
	}
	return n
}

// isNew reports whether something was created after a time; false if either is unknown.
func (m *maker) isNew(created, since time.Time) bool {
	return !m.policy.Now.IsZero() && !created.IsZero() && created.After(since)
}

// shareOf says what a limit is of.
func shareOf(limit *intstr.IntOrString, nodes percentOf) string {
	if limit.Type == intstr.Int {
		return limit.String()
	}
	without := ""
	if nodes.added > 0 {
		without = fmt.Sprintf(" without %d that earlier commits within guard.removalPeriod may have added", nodes.added)
	}
	return fmt.Sprintf("%s of %s%s, at least %d", limit, english.Plural(nodes.of, "node", ""), without, leastDisrupted)
}
