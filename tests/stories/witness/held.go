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

// Write is one that the daemon has made, by the API server's audit.
type Write struct{ Verb, Resource, Name, URI string }

// String is "delete nodeclaims/general-x".
func (w Write) String() string { return w.Verb + " " + w.Resource + "/" + w.Name }

// Held are the removals of NodePools that were said to be Held when a witness looked last, by
// NodeSync, pool and UID.
type Held map[string]bool

// Progressed says which removals have progressed though they are said to be Held, before and since: what
// a removal does is recorded in the status before it is done. written are the daemon's writes since
// the look before, and pools are the NodePools after them.
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

// removes reports whether a write is one by which a pool is removed: it ends a node of it, stops its
// growth, or deletes it. By one that gives growth back the removal's manager has nothing left.
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

// PoolOf is the pool of a NodeClaim, by the name that Karpenter gives it.
func PoolOf(claim string) string { return claim[:max(0, strings.LastIndex(claim, "-"))] }

// removal is one that a status tells of.
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
