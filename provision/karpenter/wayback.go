package karpenter

import (
	"fmt"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// Blocker is a reason why an older controller could not run on the new CRDs.
type Blocker struct {
	CRD    string `json:"crd"`
	Reason string `json:"reason"`
}

// String names the CRD and the reason.
func (b Blocker) String() string { return fmt.Sprintf("crd %s: %s", b.CRD, b.Reason) }

// WayBack says what stands against running the old controller again once the new
// CRDs are written, for CRDs stay new in a rollback. None: there is a way back, as
// far as versions go; whether each object passes the old schema is the caller's to
// ask. A kind that does not live yet has no object, and an old controller that has
// no CRD of a kind does not ask for it: neither blocks.
func WayBack(live, next, old []*apiextensionsv1.CustomResourceDefinition) []Blocker {
	var found []Blocker
	for _, before := range old {
		if named(live, before.Name) == nil {
			continue
		}
		after := named(next, before.Name)
		if after == nil {
			continue // the new charts leave it as it is
		}
		// A controller asks for the version that its own CRDs store.
		asks, stores := storageOf(before), storageOf(after)
		switch {
		case !slices.Contains(served(after), asks):
			found = append(found, Blocker{CRD: before.Name, Reason: fmt.Sprintf("the old controller asks for %s, which the new one no longer serves", asks)})
		case !slices.Contains(served(before), stores):
			found = append(found, Blocker{CRD: before.Name, Reason: fmt.Sprintf("the new one stores objects as %s, which the old one does not serve", stores)})
		}
	}
	return found
}
