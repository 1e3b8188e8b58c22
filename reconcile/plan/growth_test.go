package plan

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestLimitReached: a limit that leaves no room for the smallest node counts as reached.
func TestLimitReached(t *testing.T) {
	type fields = map[string]any
	cpus := func(operator string, values ...any) []any {
		return []any{fields{"key": "karpenter.k8s.aws/instance-cpu", "operator": operator, "values": values}}
	}
	for name, c := range map[string]struct {
		limits, used fields
		requirements []any
		want         string
	}{
		"no limit":                       {used: fields{"cpu": "100"}},
		"nothing runs":                   {limits: fields{"cpu": "100"}},
		"room for a small node":          {limits: fields{"cpu": "100", "memory": "10Gi"}, used: fields{"cpu": "99", "memory": "9728Mi"}},
		"half a processor":               {limits: fields{"cpu": "100"}, used: fields{"cpu": "99500m"}, want: "cpu"},
		"a little memory":                {limits: fields{"memory": "10Gi"}, used: fields{"memory": "9900Mi"}, want: "memory"},
		"a limit of half a processor":    {limits: fields{"cpu": "500m"}, want: "cpu"},
		"one node is left":               {limits: fields{"nodes": "3"}, used: fields{"nodes": "2"}},
		"no node is left":                {limits: fields{"nodes": "3"}, used: fields{"nodes": "3"}, want: "nodes"},
		"its nodes have more processors": {limits: fields{"cpu": "100"}, used: fields{"cpu": "97"}, requirements: cpus("In", "8", "4"), want: "cpu"},
		"there is room for such a node":  {limits: fields{"cpu": "100"}, used: fields{"cpu": "96"}, requirements: cpus("In", "8", "4")},
		"more than so many":              {limits: fields{"cpu": "100"}, used: fields{"cpu": "96"}, requirements: cpus("Gt", "4"), want: "cpu"},
		"fewer than so many":             {limits: fields{"cpu": "100"}, used: fields{"cpu": "99"}, requirements: cpus("Lt", "4")},
	} {
		t.Run(name, func(t *testing.T) {
			pool := &unstructured.Unstructured{Object: fields{
				"spec":   fields{"limits": c.limits, "template": fields{"spec": fields{"requirements": c.requirements}}},
				"status": fields{"resources": c.used},
			}}
			if got := LimitReached(pool); got != c.want {
				t.Errorf("reached: %q, want %q", got, c.want)
			}
		})
	}
}
