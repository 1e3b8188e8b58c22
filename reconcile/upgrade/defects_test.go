package upgrade_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/reconcile/upgrade"
	"github.com/plumbline-dev/plumbline/render"
)

// TestDefectsOfWhatGitUses: a defect of static NodePools is reported only if Git has one, and names it.
func TestDefectsOfWhatGitUses(t *testing.T) {
	set := func(specs ...map[string]any) *render.Set {
		s := &render.Set{}
		for i, spec := range specs {
			name := string(rune('a' + i))
			object := &unstructured.Unstructured{Object: map[string]any{"kind": render.NodePool, "metadata": map[string]any{"name": name}, "spec": spec}}
			s.Objects = append(s.Objects, render.Object{Ref: render.Ref{Kind: render.NodePool, Name: name}, Defaulted: object})
		}
		return s
	}
	dynamic, static := map[string]any{}, map[string]any{"replicas": int64(2)}
	for name, c := range map[string]struct {
		version string
		set     *render.Set
		want    []string
	}{
		"static pools":            {"1.14.1", set(dynamic, static), []string{"Karpenter 1.14.1 has a known defect that concerns NodePool/b: ", "kubernetes-sigs/karpenter/issues/3176", "fixed in 1.14.3"}},
		"no static pool":          {"1.14.1", set(dynamic), nil},
		"any node":                {"1.14.0", set(dynamic), []string{"Karpenter 1.14.0 has a known defect: ", "aws/karpenter-provider-aws/issues/9479", "fixed in 1.14.1"}},
		"a version without":       {"1.14.3", set(static), nil},
		"the version is unknown":  {"", set(static), nil},
		"Git is unknown":          {"1.14.1", nil, nil},
		"it is no version at all": {"latest", set(static), nil},
	} {
		got := upgrade.Defects(c.version, c.set)
		if c.want == nil && got != "" {
			t.Errorf("%s: %s", name, got)
		}
		for _, words := range c.want {
			if !strings.Contains(got, words) {
				t.Errorf("%s: %q, want %q", name, got, words)
			}
		}
	}
}
