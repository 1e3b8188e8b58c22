package witness

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// removalManager is the field manager of what a removal sets.
const removalManager = "plumbline-removal"

// Write is a write of the daemon, from the API server's audit log.
type Write struct{ Verb, Resource, Name, URI string }

// String returns the write as "delete nodeclaims/general-x".
func (w Write) String() string { return w.Verb + " " + w.Resource + "/" + w.Name }

// Held are the removals of NodePools that were reported as Held at the last check, by NodeSync, pool and UID.
type Held map[string]bool

// Progressed returns the removals that have progressed although they are, and were, reported as Held: a removal is
// recorded in the status before each step. written are the daemon's writes since the last check, and pools are the
// NodePools after them.
func (h *Held) Progressed(syncs []unstructured.Unstructured, written []Write, pools []unstructured.Unstructured) (lies []Lie) {
	now := Held{}
	for i := range syncs {
		for _, r := range removalsOf(&syncs[i]) {
			if r.phase != "Held" || r.kind != "NodePool" {
				continue
			}
			key := fmt.Sprintf("NodeSync %s: removal of NodePool/%s (%s) is Held", syncs[i].GetName(), r.name, r.uid)
			now[key] = true
			for _, w := range written {
				if (*h)[key] && removes(w, r.name, pools) {
					lies = append(lies, Lie{Words: key + ", but the daemon did " + w.String()})
				}
			}
		}
	}
	*h = now
	return lies
}

// removes reports whether a write is a step of removing a pool: it deletes a NodeClaim of the pool, stops its growth,
// or deletes it. After a write that restores growth, the removal's manager owns no field.
func removes(w Write, pool string, pools []unstructured.Unstructured) bool {
	switch {
	case w.Resource == "nodeclaims" && w.Verb == "delete":
		return PoolOf(w.Name) == pool
	case w.Resource == "nodepools" && w.Name == pool:
		return w.Verb == "delete" || strings.Contains(w.URI, "fieldManager="+removalManager) && slices.ContainsFunc(pools, func(p unstructured.Unstructured) bool {
			return p.GetName() == pool && slices.ContainsFunc(p.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool { return e.Manager == removalManager })
		})
	}
	return false
}

// PoolOf returns the pool of a NodeClaim, from the name that Karpenter generates.
func PoolOf(claim string) string { return claim[:max(0, strings.LastIndex(claim, "-"))] }

// removal is a removal in a status.
type removal struct{ kind, name, uid, phase string }

func removalsOf(sync *unstructured.Unstructured) (all []removal) {
	list, _, _ := unstructured.NestedSlice(sync.Object, "status", "removals")
	for _, r := range list {
		if fields, ok := r.(map[string]any); ok {
			text := func(key string) string { return fmt.Sprint(fields[key]) }
			all = append(all, removal{text("kind"), text("name"), text("uid"), text("phase")})
		}
	}
	return all
}
