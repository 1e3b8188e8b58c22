package watch

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// DiscoveryLag is how long the API server's discovery may take to list a kind whose
// CRD is Established before it counts as a fault. It takes milliseconds on an idle
// API server.
const DiscoveryLag = 10 * time.Second

// discovered says whether the API server's discovery lists Karpenter's kinds, which
// it does a moment after their CRDs are Established. A watch that begins earlier
// fails, and controller-runtime tries it again after ten seconds.
func (w *Watches) discovered() (bool, error) {
	if w.karpenter {
		return true, nil
	}
	for _, each := range w.definitions() {
		unlisted, err := w.unlisted(w.Nodes, each.object)
		if unlisted != nil {
			return false, w.missing(unlisted)
		}
		if err != nil {
			return false, err
		}
	}
	w.missingSince = time.Time{}
	return true, nil
}

// unlisted says why discovery does not list the kind of an object; nil where it does.
func (w *Watches) unlisted(at Side, object client.Object) (unlisted, err error) {
	gvk, err := apiutil.GVKForObject(object, w.Scheme)
	if err != nil {
		return nil, fmt.Errorf("find the kind of %T: %w", object, err)
	}
	_, err = at.Kinds.RESTMapping(gvk.GroupKind(), gvk.Version)
	if meta.IsNoMatchError(err) {
		return err, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look up %s in the API server's discovery: %w", gvk.Kind, err)
	}
	return nil, nil
}

// missing is an error once a kind has been missing from discovery for too long.
func (w *Watches) missing(err error) error {
	now := w.Now()
	if w.missingSince.IsZero() {
		w.missingSince = now
	}
	if now.Sub(w.missingSince) < DiscoveryLag {
		return nil
	}
	return fmt.Errorf("the CRD is Established, but the API server's discovery does not list its kind: check the API server's log: %w", err)
}
