package fault

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/plumbline-dev/plumbline/reconcile/observe"
)

// unconverted says whether a request failed for want of a conversion.
func unconverted(err error) bool {
	_, ok := observe.Unconverted(err.Error())
	return ok
}

// conversion is what to do about a conversion webhook that a message tells of;
// empty where it tells of none.
func conversion(message string) string {
	kind, ok := observe.Unconverted(message)
	if !ok {
		return ""
	}
	resource, _ := meta.UnsafeGuessKindToResource(kind)
	crd := resource.GroupResource().String()
	return fmt.Sprintf("no controller serves the conversion webhook of crd %s, so that its objects stored as %s can be neither read nor written: "+
		"start the controller that serves it, or, where these objects are as the storage version has them, take it out: "+
		`kubectl patch crd %s --type=merge -p '{"spec":{"conversion":{"strategy":"None","webhook":null}}}'`, crd, kind.Version, crd)
}
