package render

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestAPoolOfAutoModeReferencesNoClass: its node class may have the name of an EC2NodeClass.
func TestAPoolOfAutoModeReferencesNoClass(t *testing.T) {
	pool := func(group string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"template": map[string]any{"spec": map[string]any{
			"nodeClassRef": map[string]any{"group": group, "name": "default"},
		}}}}}
	}
	ref := Ref{Kind: NodePool, Name: "system"}
	if class, ok := Reference(ref, pool("eks.amazonaws.com")); ok || !OfAutoMode(pool("eks.amazonaws.com")) {
		t.Errorf("a pool of Auto Mode references %s", class)
	}
	if class, ok := Reference(ref, pool("karpenter.k8s.aws")); !ok || class.Name != "default" || OfAutoMode(pool("karpenter.k8s.aws")) {
		t.Errorf("a pool of Karpenter references %s", class)
	}
}
