package observe

import (
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// Ends hears of NodeClaims as the cache has them. What it does with them is quick: the watch
// waits for it.
type Ends interface {
	// See is called with each one that there is news of.
	See(claim *karpv1.NodeClaim)
	// Gone is called with each one that is gone, as it was seen last; missed says that its last
	// changes were not watched.
	Gone(claim *karpv1.NodeClaim, missed bool)
}

// Tell has Ends hear of all events of a watch, and lets them through. Nil hears nothing.
func Tell(ends Ends) predicate.Predicate {
	if ends == nil {
		return predicate.Funcs{}
	}
	see := func(object client.Object) bool {
		if claim, ok := object.(*karpv1.NodeClaim); ok {
			ends.See(claim)
		}
		return true
	}
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return see(e.Object) },
		UpdateFunc: func(e event.UpdateEvent) bool { return see(e.ObjectNew) },
		DeleteFunc: func(e event.DeleteEvent) bool {
			if claim, ok := e.Object.(*karpv1.NodeClaim); ok {
				ends.Gone(claim, e.DeleteStateUnknown)
			}
			return true
		},
	}
}
