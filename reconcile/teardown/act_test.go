package teardown

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestGrowthThatAWebhookGivesBack is an error that names it: the pool would make nodes
// while its own are ended.
func TestGrowthThatAWebhookGivesBack(t *testing.T) {
	for name, c := range map[string]struct {
		limits any
		want   string
	}{
		"as it was written": {map[string]any{"cpu": "0"}, ""},
		"as a number":       {map[string]any{"cpu": int64(0)}, ""},
		"beside others":     {map[string]any{"cpu": "0", "memory": "1Gi"}, ""},
		"otherwise":         {map[string]any{"cpu": "77"}, "stop growth of NodePool/batch: spec.limits.cpu is written as 0 and comes back as 77: a mutating webhook or policy"},
	} {
		answer := &unstructured.Unstructured{Object: map[string]any{
			"kind": "NodePool", "metadata": map[string]any{"name": "batch"}, "spec": map[string]any{"limits": c.limits},
		}}
		err := growthStopped(answer)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.HasPrefix(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
