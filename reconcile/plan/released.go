package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// A person releases a removal for once: as soon as Git has the object, the release is used up,
// or else the same UID would release the next removal as well, which nobody was asked about.

// annotated are the UIDs in the annotation, which stand between commas.
func annotated(sync *v1alpha1.NodeSync) map[types.UID]bool {
	uids := map[types.UID]bool{}
	for uid := range strings.SplitSeq(sync.Annotations[v1alpha1.RemoveAnnotation], ",") {
		if uid = strings.TrimSpace(uid); uid != "" {
			uids[types.UID(uid)] = true
		}
	}
	return uids
}

// usedUp are the UIDs in the annotation that release nothing any more. Where the status was
// lost, nobody knows which: only a removal that is recorded since can have been released since.
func usedUp(sync *v1alpha1.NodeSync) map[types.UID]bool {
	lost := sync.Status.LastAppliedRevision == ""
	uids := annotated(sync)
	maps.DeleteFunc(uids, func(uid types.UID, _ bool) bool {
		recorded := slices.ContainsFunc(sync.Status.Removals, func(r v1alpha1.Removal) bool { return r.UID == uid })
		return !slices.Contains(sync.Status.UsedReleases, uid) && (!lost || recorded)
	})
	return uids
}

// released are the removals that a person has released by name.
func released(sync *v1alpha1.NodeSync) map[types.UID]bool {
	uids := annotated(sync)
	for uid := range usedUp(sync) {
		delete(uids, uid)
	}
	return uids
}

// usedReleases are the releases that are used up with this Plan, sorted. What the annotation
// lacks is not among them: put in again, it counts again.
func (m *maker) usedReleases(now []Used) []types.UID {
	all := map[types.UID]bool{}
	maps.Copy(all, m.policy.UsedUp)
	for _, u := range now {
		all[u.UID] = true
	}
	if len(all) == 0 {
		return nil
	}
	return slices.Sorted(maps.Keys(all))
}

// used are the released objects that Git has.
func (m *maker) used() []Used {
	if len(m.policy.Released) == 0 {
		return nil
	}
	var found []Used
	for ref := range m.inSet {
		if object := m.live.object(ref); object != nil && m.policy.Released[object.GetUID()] {
			found = append(found, Used{Ref: ref, UID: object.GetUID()})
		}
	}
	slices.SortFunc(found, func(a, b Used) int { return strings.Compare(string(a.UID), string(b.UID)) })
	return found
}

// howToRelease says how a person releases a removal.
func (p Policy) howToRelease(uid types.UID) string {
	if p.UsedUp[uid] {
		return fmt.Sprintf("take %s out of the annotation %s of the NodeSync, where its release was used up when Git had it, and put it in again once status.usedReleases lacks it",
			uid, v1alpha1.RemoveAnnotation)
	}
	return fmt.Sprintf("annotate the NodeSync with %s=%s", v1alpha1.RemoveAnnotation, uid)
}
