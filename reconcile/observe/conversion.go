package observe

import (
	"regexp"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// unconverted are the API server's words where a CRD's conversion webhook does not
// answer (k8s.io/apiextensions-apiserver/pkg/apiserver/conversion/webhook_converter.go).
// They are all there is: the error has neither a reason nor a type of its own.
var unconverted = regexp.MustCompile(`conversion webhook for ([a-z0-9.-]+)/(\w+), Kind=(\w+) failed`)

// Unconverted says whether a message tells of objects that nobody can convert, and
// of which kind and stored version they are. Karpenter 1.0 serves such a webhook,
// and leaves it behind in the CRDs when its controller goes.
func Unconverted(message string) (kind schema.GroupVersionKind, ok bool) {
	words := unconverted.FindStringSubmatch(message)
	if words == nil {
		return schema.GroupVersionKind{}, false
	}
	return schema.GroupVersionKind{Group: words[1], Version: words[2], Kind: words[3]}, true
}
