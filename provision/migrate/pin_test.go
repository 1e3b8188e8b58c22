package migrate

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

func affinityFrom(t *testing.T, text string) *corev1.Affinity {
	t.Helper()
	if text == "" {
		return nil
	}
	a := &corev1.Affinity{}
	if err := yaml.UnmarshalStrict([]byte(text), a); err != nil {
		t.Fatal(err)
	}
	return a
}

const linux = `{nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/os, operator: In, values: [linux]}]}, {matchExpressions: [{key: a, operator: Exists}]}]}}, podAntiAffinity: {}}`

// TestPin: each term gets the expression, once, and Unpin removes just that.
func TestPin(t *testing.T) {
	for _, text := range []string{"", "{}", linux, `{podAntiAffinity: {}}`, `{nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: {}}]}}`} {
		before := affinityFrom(t, text)
		pinned := Pin(before)
		if !IsPinned(pinned) || IsPinned(before) {
			t.Errorf("%s: %+v", text, pinned)
		}
		if diff := cmp.Diff(pinned, Pin(pinned)); diff != "" {
			t.Errorf("%s, twice:\n%s", text, diff)
		}
		want := before
		if text == "{}" {
			want = nil
		}
		if diff := cmp.Diff(want, Unpin(pinned)); diff != "" {
			t.Errorf("%s, unpinned (-want +got):\n%s", text, diff)
		}
	}
	if Unpin(nil) != nil {
		t.Error("none, unpinned")
	}
}

func TestPinned(t *testing.T) {
	f := &Facts{PoolKeys: []string{"team"}}
	for name, c := range map[string]struct {
		spec string
		want bool
	}{
		"nothing":                         {`{}`, false},
		"the pin":                         {`affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: karpenter.sh/nodepool, operator: DoesNotExist}]}]}}}`, true},
		"the pin in one of two terms":     {`affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: karpenter.sh/nodepool, operator: DoesNotExist}]}, {matchExpressions: [{key: kubernetes.io/os, operator: Exists}]}]}}}`, false},
		"a node group":                    {`nodeSelector: {eks.amazonaws.com/nodegroup: system}`, true},
		"a label that no pool has":        {`nodeSelector: {role: system}`, true},
		"a label of a pool":               {`nodeSelector: {team: shop}`, false},
		"a label that all nodes have":     {`nodeSelector: {kubernetes.io/os: linux}`, false},
		"a type of Karpenter":             {`nodeSelector: {karpenter.k8s.aws/instance-category: m}`, false},
		"eksctl's label":                  {`nodeSelector: {alpha.eksctl.io/nodegroup-name: system}`, true},
		"a label that no pool has, not":   {`affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: role, operator: NotIn, values: [web]}]}]}}}`, false},
		"only preferred, is not required": {`affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: {matchExpressions: [{key: karpenter.sh/nodepool, operator: DoesNotExist}]}}]}}`, false},
	} {
		spec := &corev1.PodSpec{}
		if err := yaml.Unmarshal([]byte(c.spec), spec); err != nil {
			t.Fatal(err)
		}
		if got := f.pinned(spec); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestAffinityPath: the schemas of add-ons have it at the top, or at their controller, by reference or not.
func TestAffinityPath(t *testing.T) {
	for name, c := range map[string]struct {
		schema string
		want   []string
	}{
		"coredns":        {`{"$ref":"#/definitions/Coredns","definitions":{"Coredns":{"properties":{"affinity":{"type":["object","null"]}}}}}`, []string{"affinity"}},
		"an EBS driver":  {`{"properties":{"controller":{"properties":{"affinity":{"default":{}}}},"node":{}}}`, []string{"controller", "affinity"}},
		"by reference":   {`{"properties":{"controller":{"$ref":"#/$defs/c"}},"$defs":{"c":{"properties":{"affinity":{}}}}}`, []string{"controller", "affinity"}},
		"a DaemonSet":    {`{"properties":{"env":{}}}`, nil},
		"none":           {"", nil},
		"a circle":       {`{"$ref":"#/definitions/a","definitions":{"a":{"$ref":"#/definitions/a"}}}`, nil},
		"unknown to all": {`{"$ref":"#/definitions/b"}`, nil},
	} {
		got, err := AffinityPath(c.schema)
		if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
	if _, err := AffinityPath("{"); err == nil {
		t.Error("no JSON is a schema")
	}
}

// TestValues: values that are in force stay, as YAML or JSON, and are what they were after the pin is removed.
func TestValues(t *testing.T) {
	for name, c := range map[string]struct {
		values, live, mode, after string
		at                        []string
	}{
		"none":                      {"", "", Added, `{}`, []string{"affinity"}},
		"none, and a live affinity": {"", linux, Added, `{}`, []string{"affinity"}},
		"others":                    {"replicaCount: 3", "", Added, `{"replicaCount":3}`, []string{"affinity"}},
		"an affinity":               {`{"affinity":{"podAntiAffinity":{}}}`, linux, Merged, `{"affinity":{"podAntiAffinity":{}}}`, []string{"affinity"}},
		"of a controller":           {`{"controller":{"replicas":2},"node":{}}`, "", Added, `{"controller":{"replicas":2},"node":{}}`, []string{"controller", "affinity"}},
		"no controller":             {`{"node":{}}`, "", Added, `{"node":{}}`, []string{"controller", "affinity"}},
	} {
		pinned, mode, err := PinValues(c.values, c.at, affinityFrom(t, c.live))
		if err != nil || mode != c.mode || !ValuesPinned(pinned, c.at) || ValuesPinned(c.values, c.at) {
			t.Errorf("%s: %s, %s, %v", name, pinned, mode, err)
		}
		if after, err := UnpinValues(pinned, c.at, mode); err != nil || after != c.after {
			t.Errorf("%s, unpinned: %s, %v", name, after, err)
		}
	}
	if _, _, err := PinValues("[", []string{"affinity"}, nil); err == nil {
		t.Error("values that are no YAML were changed")
	}
}
