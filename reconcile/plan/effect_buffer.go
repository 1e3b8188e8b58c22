package plan

import (
	"fmt"
	"math"

	"github.com/dustin/go-humanize/english"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/render"
)

// unknownChunks is more placeholder pods than there are nodes: it is unknown how many a buffer has.
const unknownChunks = math.MaxInt

// effectOfBuffer determines how many nodes a changed CapacityBuffer may release. Each of its placeholder pods keeps
// capacity on one node; without the pod, Karpenter may consolidate that node. Which one is unknown: no object shows
// where Karpenter places these pods.
func (m *maker) effectOfBuffer(change *Change) {
	if change.Live == nil {
		return
	}
	chunks := releasedChunks(change.Live, change.Wanted())
	change.Nodes = m.releasedNodes(chunks)
	if change.Nodes == 0 {
		return
	}
	change.Effect, change.UpTo, change.unnamed = EffectConsolidate, true, change.Nodes
	change.Notes = append(change.Notes, fmt.Sprintf("%s: %s: Karpenter may consolidate up to %s, if no other pods need them",
		change.Ref, chunkWords(chunks), english.Plural(change.Nodes, "node", "")))
}

// releasedBy returns how many nodes the removal of a CapacityBuffer may release.
func (m *maker) releasedBy(buffer *unstructured.Unstructured) int {
	return m.releasedNodes(releasedChunks(buffer, nil))
}

// releasedNodes returns how many nodes Karpenter may consolidate at most because this many placeholder pods are gone:
// one for each, and no more than those that it considers for consolidation at all.
func (m *maker) releasedNodes(chunks int) int {
	if chunks == 0 || m.policy.Ignored[render.CapacityBuffer] {
		return 0
	}
	considered := 0
	for _, object := range m.live.OfKind(render.NodePool) {
		claims := m.claims()[poolRefOf(object.GetName())]
		pool, err := typed[karpv1.NodePool](unbraked(object))
		if err != nil || !consolidationOf(pool, len(claims), m.policy.Now).any() {
			continue
		}
		considered += len(notTerminating(claims))
	}
	return min(chunks, considered)
}

// releasedChunks returns how many placeholder pods a CapacityBuffer has less after a change at most; after is nil if it
// is removed. Karpenter takes the larger one of replicas and the percentage, within limits (computeReplicas in karpenter
// pkg/controllers/capacitybuffer/controller.go, 1.14.1).
func releasedChunks(before, after *unstructured.Unstructured) int {
	now := chunksOf(before)
	if after == nil {
		return now
	}
	same := func(field string) bool { return equal(specField(before, field), specField(after, field)) }
	if !same("podTemplateRef") || !same("scalableRef") {
		return now // the new pods may need other nodes
	}
	if !same("percentage") || !same("limits") {
		return now
	}
	replicas, given := replicasOf(after)
	switch {
	case same("replicas"):
		return 0
	case !given || now == unknownChunks:
		return now
	}
	return max(0, now-replicas)
}

// chunksOf returns how many placeholder pods Karpenter has for a CapacityBuffer, or is about to have: its status may be
// older than its spec. With spec.limits, which may allow fewer, its status counts.
func chunksOf(buffer *unstructured.Unstructured) int {
	chunks, found, err := unstructured.NestedInt64(buffer.Object, "status", "replicas")
	reported := err == nil && found
	replicas, given := replicasOf(buffer)
	switch {
	case !given || specField(buffer, "percentage") != nil:
		if !reported {
			return unknownChunks
		}
		return int(chunks)
	case !reported:
		return replicas
	case specField(buffer, "limits") != nil:
		return int(chunks)
	}
	return max(int(chunks), replicas)
}

// replicasOf returns spec.replicas.
func replicasOf(buffer *unstructured.Unstructured) (replicas int, given bool) {
	switch n := specField(buffer, "replicas").(type) {
	case int64:
		return int(n), true
	case float64:
		return int(n), true
	}
	return 0, false
}

func chunkWords(chunks int) string {
	if chunks == unknownChunks {
		return "an unknown number of placeholder pods fewer"
	}
	return english.Plural(chunks, "placeholder pod", "") + " fewer"
}
