package capture

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// digest is what stands in the place of user data, which may have secrets in it.
const digest = "sha256:"

// trimDefinition keeps of a definition all but its user data, of which the digest stays, foreign
// annotations, and messages of conditions.
func trimDefinition(object *unstructured.Unstructured) map[string]any {
	trimmed := object.DeepCopy()
	annotations := trimmed.GetAnnotations()
	maps.DeleteFunc(annotations, func(key, _ string) bool { return !karpenterAnnotation(key) })
	if len(annotations) == 0 {
		annotations = nil
	}
	trimmed.SetAnnotations(annotations)
	if data, found, _ := unstructured.NestedString(trimmed.Object, "spec", "userData"); found && data != "" {
		setUserData(trimmed.Object, digestOf(data))
	}
	conditions, _, _ := unstructured.NestedFieldNoCopy(trimmed.Object, "status", "conditions")
	listed, _ := conditions.([]any)
	for _, c := range listed {
		if fields, ok := c.(map[string]any); ok && fields["message"] != nil {
			fields["message"] = ""
		}
	}
	return trimmed.Object
}

func digestOf(data string) string {
	sum := sha256.Sum256([]byte(data))
	return digest + hex.EncodeToString(sum[:])
}

func setUserData(definition map[string]any, data string) {
	if spec, ok := definition["spec"].(map[string]any); ok {
		spec["userData"] = data
	}
}

// WithUserData are the Definitions with the user data that Git has for a class in the place of
// its digest, where it is the same: they can be compared then as those of a cluster can.
func (c *Capture) WithUserData(inGit func(class string) string) []map[string]any {
	var definitions []map[string]any
	for _, definition := range c.Definitions {
		object := (&unstructured.Unstructured{Object: definition}).DeepCopy()
		noted, _, _ := unstructured.NestedString(object.Object, "spec", "userData")
		if data := inGit(object.GetName()); strings.HasPrefix(noted, digest) && data != "" && digestOf(data) == noted {
			setUserData(object.Object, data)
		}
		definitions = append(definitions, object.Object)
	}
	return definitions
}
