package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/plumbline-dev/plumbline/internal/shortlist"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

// maxPools is how many NodePools of an owner are named.
const maxPools = 10

// PoolOwners describes whose the NodePools are, in a cluster with EKS Auto Mode: AWS's, those of a NodeSync and its Set,
// and others. served are the CRDs that EKS keeps up to date. It is empty if there is nothing of Auto Mode. set may be nil.
func PoolOwners(live Live, own Owner, set *render.Set, served []string) string {
	if len(live.AutoMode)+len(served) == 0 {
		return ""
	}
	ours, others := map[string]bool{}, map[string][]string{}
	if set != nil {
		for i := range set.Objects {
			if ref := set.Objects[i].Ref; ref.Kind == render.NodePool {
				ours[ref.Name] = true
			}
		}
	}
	for ref, object := range live.Objects {
		switch of := object.GetLabels()[v1alpha1.OwnerLabel]; {
		case ref.Kind != render.NodePool || ours[ref.Name]:
		case own.Owns(object.Unstructured):
			ours[ref.Name] = true
		case of != "":
			others["of NodeSync "+of] = append(others["of NodeSync "+of], ref.Name)
		default:
			others["of no NodeSync"] = append(others["of no NodeSync"], ref.Name)
		}
	}
	var words []string
	if len(served) > 0 {
		words = append(words, "EKS keeps crd "+strings.Join(served, " and crd "))
	}
	if len(live.AutoMode) > 0 {
		words = append(words, fmt.Sprintf("AWS manages %s", namedPools(live.AutoMode)))
	}
	words = []string{"EKS Auto Mode: " + strings.Join(words, ", and ") + ", which plumbline does not change"}
	if len(ours) > 0 {
		words = append(words, namedPools(slices.Sorted(maps.Keys(ours)))+" of this NodeSync")
	}
	for _, owner := range slices.Sorted(maps.Keys(others)) {
		slices.Sort(others[owner])
		words = append(words, namedPools(others[owner])+" "+owner)
	}
	return strings.Join(words, "; ")
}

func namedPools(names []string) string {
	return "NodePool/" + shortlist.Join(names, maxPools, ", NodePool/")
}
