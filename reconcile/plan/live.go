package plan

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

// Live is what the cluster has.
type Live struct {
	// Objects are all objects of the kinds that are ours, whoever owns them,
	// with their managedFields.
	Objects    map[render.Ref]*unstructured.Unstructured
	NodeClaims []NodeClaim
	// Removals are the recorded ones, from the NodeSync's status.
	Removals []v1alpha1.Removal
	// Vanished are NodePools that were applied, that the Set lacks, and that
	// somebody else has deleted.
	Vanished []Vanished
	// Memo is of the last Plan for the same NodeSync; the zero value where there
	// was none.
	Memo Memo
}

// Vanished is an object that was applied and is not there any more.
type Vanished struct {
	Ref render.Ref
	UID types.UID
}

// NodeClaim is one node as Karpenter claims it.
type NodeClaim struct {
	Name string
	UID  types.UID
	// Pool is the NodePool that it is labelled with, and PoolUID the one that
	// owns it.
	Pool    string
	PoolUID types.UID
	// Class is the EC2NodeClass that it names.
	Class      string
	ProviderID string
	Node       string
	Deleting   bool
}

// object returns the live object of a Ref; nil where there is none.
func (l Live) object(ref render.Ref) *unstructured.Unstructured { return l.Objects[ref] }

// OfKind are the live objects of a kind, whoever owns them, by name.
func (l Live) OfKind(kind string) []*unstructured.Unstructured {
	var found []*unstructured.Unstructured
	for ref, object := range l.Objects {
		if ref.Kind == kind {
			found = append(found, object)
		}
	}
	slices.SortFunc(found, func(a, b *unstructured.Unstructured) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return found
}

// nodes counts the NodeClaims that hang on each object.
func (l Live) nodes() map[render.Ref]int {
	counts := map[render.Ref]int{}
	for i := range l.NodeClaims {
		counts[render.Ref{Kind: render.NodePool, Name: l.NodeClaims[i].Pool}]++
		counts[render.Ref{Kind: render.EC2NodeClass, Name: l.NodeClaims[i].Class}]++
	}
	return counts
}

// removal finds the record of an object's removal.
func (l Live) removal(uid types.UID) (v1alpha1.Removal, bool) {
	for _, r := range l.Removals {
		if r.UID == uid && r.Phase != v1alpha1.RemovalGone {
			return r, true
		}
	}
	return v1alpha1.Removal{}, false
}

func refOf(r v1alpha1.Removal) render.Ref { return render.Ref{Kind: r.Kind, Name: r.Name} }

func terminating(object *unstructured.Unstructured) bool {
	return object.GetDeletionTimestamp() != nil
}
