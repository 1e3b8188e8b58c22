package contradiction_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/contradiction"
)

func env(variables ...any) map[string]any {
	return map[string]any{"controller": map[string]any{"env": variables}}
}

func variable(name string, value any) map[string]any {
	return map[string]any{"name": name, "value": value}
}

func settings(name string, value any) map[string]any {
	return map[string]any{"settings": map[string]any{name: value}}
}

var demo = contradiction.Cluster{Name: "demo", Region: "eu-west-1", InterruptionQueue: "q", ControllerRole: "role"}

func TestValuesThatContradict(t *testing.T) {
	role := map[string]any{"serviceAccount": map[string]any{"annotations": map[string]any{contradiction.RoleAnnotation: "other"}}}
	tests := map[string]struct {
		values map[string]any
		// path and words of the expected error; empty if none is expected.
		path, words string
	}{
		"none":                      {nil, "", ""},
		"the same":                  {settings("clusterName", "demo"), "", ""},
		"an empty one":              {settings("clusterName", ""), "", ""},
		"a null":                    {settings("clusterName", nil), "", ""},
		"another shape":             {map[string]any{"settings": []any{}, "controller": 1}, "", ""},
		"another cluster":           {settings("clusterName", "other"), "values.settings.clusterName", `values.settings.clusterName is "other" and cluster.name is "demo": Karpenter identifies its instances by this name only`},
		"a number":                  {settings("clusterName", 1), "values.settings.clusterName", `is "1"`},
		"another region":            {settings("region", "us-east-1"), "values.settings.region", "cluster.region"},
		"another queue":             {settings("interruptionQueue", "x"), "values.settings.interruptionQueue", "both cannot hold; leave the value out, it comes from cluster.interruptionQueue"},
		"another role":              {role, "values.serviceAccount.annotations.eks.amazonaws.com/role-arn", "cluster.controllerRole"},
		"another name for the pod":  {env(1, variable("CLUSTER_NAME", "other")), "values.controller.env[1]", `values.controller.env[1] (CLUSTER_NAME) is "other" and cluster.name is "demo"`},
		"another queue for the pod": {env(variable("INTERRUPTION_QUEUE", "x")), "values.controller.env[0]", "INTERRUPTION_QUEUE"},
		"no name for the pod":       {env(variable("CLUSTER_NAME", "")), "values.controller.env[0]", `is "" and cluster.name`},
		"another region of the pod": {env(variable("AWS_REGION", "us-east-1")), "values.controller.env[0]", "where plumbline does not look for them"},
		"another default region":    {env(variable("AWS_DEFAULT_REGION", "us-east-1")), "values.controller.env[0]", "cluster.region"},
		"a region by reference":     {env(map[string]any{"name": "AWS_REGION", "valueFrom": map[string]any{}}), "values.controller.env[0]", "given by reference"},
		"another variable":          {env(variable("LOG_LEVEL", "debug")), "", ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			found := contradiction.Of(demo, test.values, "values.")
			if test.path == "" {
				if len(found) > 0 {
					t.Fatalf("found %v", found)
				}
				return
			}
			if len(found) != 1 || found[0].Path != test.path || !strings.Contains(found[0].Error(), test.words) {
				t.Errorf("found %v, want one at %s: …%s…", found, test.path, test.words)
			}
			if left := contradiction.Of(contradiction.Cluster{}, test.values, ""); len(left) > 0 {
				t.Errorf("a cluster that is not known contradicts %v", left)
			}
		})
	}
}

// TestWhatRunsIsWordedAsValues: messages about a running controller and about values are alike.
func TestWhatRunsIsWordedAsValues(t *testing.T) {
	if err := contradiction.Running(demo, "x", "demo"); err != nil {
		t.Errorf("the same name: %v", err)
	}
	if err := contradiction.Running(demo, "x", ""); err != nil {
		t.Errorf("no name: %v", err)
	}
	running := contradiction.Running(demo, "CLUSTER_NAME of deployment/karpenter", "other")
	value := contradiction.Of(demo, settings("clusterName", "other"), "")[0]
	value.Path, value.What, value.Remedy = "", "CLUSTER_NAME of deployment/karpenter", running.Remedy
	if diff := cmp.Diff(value, running); diff != "" {
		t.Errorf("-value +running:\n%s", diff)
	}
}
