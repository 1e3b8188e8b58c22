package charts

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/contradiction"
)

func TestRefIsChecked(t *testing.T) {
	tests := map[string]struct {
		ref   Ref
		valid bool
	}{
		"a registry":        {Ref{Repository: "oci://public.ecr.aws/karpenter", Version: "1.14.1"}, true},
		"build metadata":    {Ref{Repository: "oci://public.ecr.aws/karpenter", Version: "1.14.1+own.2"}, true},
		"a trailing slash":  {Ref{Repository: "oci://public.ecr.aws/karpenter/", Version: "1.14.1"}, true},
		"a leading v":       {Ref{Repository: "oci://public.ecr.aws/karpenter", Version: "v1.14.1"}, false},
		"a range":           {Ref{Repository: "oci://public.ecr.aws/karpenter", Version: "1.14.x"}, false},
		"no patch number":   {Ref{Repository: "oci://public.ecr.aws/karpenter", Version: "1.14"}, false},
		"a Helm repository": {Ref{Repository: "https://charts.karpenter.sh", Version: "1.14.1"}, true},
		"on loopback":       {Ref{Repository: "http://127.0.0.1:8080/charts", Version: "1.14.1"}, true},
		"a folder":          {Ref{Repository: "clusters/prod/charts", Version: "1.14.1"}, true},
		"the root":          {Ref{Repository: ".", Version: "1.14.1"}, true},
		"a pin":             {Ref{Repository: "charts", Version: "1.14.1", Digests: Digests{CRD: "sha256:" + strings.Repeat("a", 64)}}, true},
		"plain HTTP":        {Ref{Repository: "http://charts.example.com", Version: "1.14.1"}, false},
		"another scheme":    {Ref{Repository: "git://charts.karpenter.sh", Version: "1.14.1"}, false},
		"a password":        {Ref{Repository: "https://ada:secret@charts.example.com", Version: "1.14.1"}, false},
		"a query":           {Ref{Repository: "https://charts.example.com/?token=x", Version: "1.14.1"}, false},
		"a way out":         {Ref{Repository: "../charts", Version: "1.14.1"}, false},
		"an absolute path":  {Ref{Repository: "/charts", Version: "1.14.1"}, false},
		"half a pin":        {Ref{Repository: "charts", Version: "1.14.1", Digests: Digests{Controller: "sha256:abc"}}, false},
		"another algorithm": {Ref{Repository: "charts", Version: "1.14.1", Digests: Digests{CRD: "sha512:" + strings.Repeat("a", 128)}}, false},
		"no host":           {Ref{Repository: "oci://", Version: "1.14.1"}, false},
		"no repository":     {Ref{Version: "1.14.1"}, false},
		"no version either": {Ref{}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			err := test.ref.check()
			var invalid *InvalidRefError
			if test.valid != (err == nil) || (err != nil && !errors.As(err, &invalid)) {
				t.Errorf("check() = %v, want valid: %v", err, test.valid)
			}
			if err != nil && strings.Contains(err.Error(), "secret@") {
				t.Errorf("it tells the password: %v", err)
			}
		})
	}
}

func TestPlainHTTPIsForLoopbackAlone(t *testing.T) {
	tests := map[string]struct {
		repository, want string
		plain            bool
	}{
		"public":             {"oci://public.ecr.aws/karpenter", "public.ecr.aws/karpenter/karpenter", false},
		"a port":             {"oci://registry.example.com:5000/a/b/", "registry.example.com:5000/a/b/karpenter", false},
		"IPv4 loopback":      {"oci://127.0.0.1:5000/karpenter", "127.0.0.1:5000/karpenter/karpenter", true},
		"another loopback":   {"oci://127.3.2.1/karpenter", "127.3.2.1/karpenter/karpenter", true},
		"IPv6 loopback":      {"oci://[::1]:5000/karpenter", "[::1]:5000/karpenter/karpenter", true},
		"localhost":          {"oci://localhost:5000/karpenter", "localhost:5000/karpenter/karpenter", true},
		"a private address":  {"oci://10.0.0.1:5000/karpenter", "10.0.0.1:5000/karpenter/karpenter", false},
		"localhost's cousin": {"oci://localhost.example.com/karpenter", "localhost.example.com/karpenter/karpenter", false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, plain := Ref{Repository: test.repository}.registry(ControllerChart)
			if got != test.want || plain != test.plain {
				t.Errorf("registry() = %s, plain %v; want %s, plain %v", got, plain, test.want, test.plain)
			}
		})
	}
}

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

// TestValuesThatContradict: they are never installed. Package contradiction tests which values contradict.
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
