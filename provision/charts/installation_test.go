package charts

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/contradiction"
)

func env(variables ...string) []any {
	var list []any
	for i := 0; i < len(variables); i += 2 {
		list = append(list, map[string]any{"name": variables[i], "value": variables[i+1]})
	}
	return list
}

func TestValuesTakeTheClusterFromPlumblineYAML(t *testing.T) {
	settings := map[string]any{"clusterName": "prod-eu"}
	region := map[string]any{"env": env("AWS_REGION", "eu-west-1")}
	tests := map[string]struct {
		given, want map[string]any
	}{
		"no values": {nil, map[string]any{"settings": settings, "controller": region}},
		"others stay": {
			map[string]any{"replicas": 1, "settings": map[string]any{"interruptionQueue": "q"}, "controller": map[string]any{"env": env("A", "b")}},
			map[string]any{
				"replicas":   1,
				"settings":   map[string]any{"interruptionQueue": "q", "clusterName": "prod-eu"},
				"controller": map[string]any{"env": env("A", "b", "AWS_REGION", "eu-west-1")},
			},
		},
		"said twice, the same": {
			map[string]any{"settings": settings, "controller": region},
			map[string]any{"settings": settings, "controller": region},
		},
		"an empty name is none": {
			map[string]any{"settings": map[string]any{"clusterName": ""}, "controller": nil},
			map[string]any{"settings": settings, "controller": region},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			before, err := fingerprint(test.given)
			if err != nil {
				t.Fatal(err)
			}
			got, err := Installation{Cluster: "prod-eu", Region: "eu-west-1", Values: test.given}.values()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("values (-want +got):\n%s", diff)
			}
			if after, err := fingerprint(test.given); err != nil || after != before {
				t.Errorf("Git's own values were changed: %v, %v", test.given, err)
			}
		})
	}
}

func TestValuesTakeQueueAndRoleFromPlumblineYAML(t *testing.T) {
	given := map[string]any{"serviceAccount": map[string]any{"name": "k", "annotations": map[string]any{"a": "b"}}}
	into := Installation{Cluster: "prod-eu", Region: "eu-west-1", InterruptionQueue: "q", ControllerRole: "arn:aws:iam::111122223333:role/k", Values: given}
	got, err := into.values()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"settings":       map[string]any{"clusterName": "prod-eu", "interruptionQueue": "q"},
		"serviceAccount": map[string]any{"name": "k", "annotations": map[string]any{"a": "b", "eks.amazonaws.com/role-arn": "arn:aws:iam::111122223333:role/k"}},
		"controller":     map[string]any{"env": env("AWS_REGION", "eu-west-1")},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("values (-want +got):\n%s", diff)
	}
	if len(given["serviceAccount"].(map[string]any)["annotations"].(map[string]any)) != 1 {
		t.Errorf("Git's own values were changed: %v", given)
	}
}

// TestValuesThatContradict are never installed; which they are: package contradiction.
func TestValuesThatContradict(t *testing.T) {
	given := map[string]any{"settings": map[string]any{"clusterName": "prod-us"}}
	_, err := Installation{Cluster: "prod-eu", Region: "eu-west-1", Values: given}.values()
	var found *contradiction.Error
	if !errors.As(err, &found) || found.Path != "values.settings.clusterName" {
		t.Errorf("values() = %v, want a contradiction", err)
	}
}

func TestValuesOfAnotherShape(t *testing.T) {
	for name, given := range map[string]map[string]any{
		"settings": {"settings": "x"}, "controller": {"controller": []any{}}, "controller.env": {"controller": map[string]any{"env": "x"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Installation{Cluster: "c", Region: "r", Values: given}.values()
			var shape *ValuesError
			if !errors.As(err, &shape) || shape.Value != name {
				t.Errorf("values() = %v, want an error about %s", err, name)
			}
		})
	}
}
