package plan

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/render"
)

// TestBefore returns the previous Content of what a Plan creates or changes for nodes, now or after a freeze; not of
// what is held or does not change nodes.
func TestBefore(t *testing.T) {
	pool := func(weight int64, label string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"kind": render.NodePool, "spec": map[string]any{
			"weight": weight, "template": map[string]any{"metadata": map[string]any{"labels": map[string]any{"rev": label}}},
		}}}
	}
	static := func(replicas int64) *unstructured.Unstructured {
		p := pool(1, "1")
		p.Object["spec"].(map[string]any)["replicas"] = replicas
		return p
	}
	class := func(role string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"kind": render.EC2NodeClass, "spec": map[string]any{"role": role}}}
	}
	change := func(name string, action Action, live, git *unstructured.Unstructured) Change {
		ref := render.Ref{Kind: git.GetKind(), Name: name}
		return Change{Ref: ref, Action: action, Live: live, Object: render.Object{Ref: ref, Defaulted: git}}
	}
	p := &Plan{Changes: []Change{
		change("new", Create, nil, pool(1, "1")),
		change("weight", Update, pool(1, "1"), pool(2, "1")),
		change("label", Update, pool(1, "1"), pool(1, "2")),
		change("static", Update, static(3), static(6)),
		change("class", Update, class("a"), class("b")),
		change("waits", Wait, pool(1, "1"), pool(1, "2")),
		change("held", Hold, pool(1, "1"), pool(1, "2")),
	}}
	want := []Before{
		{Ref: render.Ref{Kind: render.NodePool, Name: "new"}},
		{render.Ref{Kind: render.NodePool, Name: "label"}, Content(pool(9, "1"))},
		{render.Ref{Kind: render.NodePool, Name: "static"}, Content(static(3))},
		{render.Ref{Kind: render.EC2NodeClass, Name: "class"}, Content(class("a"))},
		{render.Ref{Kind: render.NodePool, Name: "waits"}, Content(pool(1, "1"))},
	}
	if diff := cmp.Diff(want, p.Before(20)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := p.Before(1); len(got) != 1 {
		t.Errorf("of %d definitions one was asked for", len(got))
	}
}
