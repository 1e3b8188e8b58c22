package witness

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestHeldProgressed finds what the daemon does to a pool whose removal it reports as Held, but not what others do, or
// the daemon before or afterwards.
func TestHeldProgressed(t *testing.T) {
	in := func(phase string) []unstructured.Unstructured {
		removal := map[string]any{"kind": "NodePool", "name": "batch", "uid": "u", "phase": phase}
		return []unstructured.Unstructured{{Object: map[string]any{
			"metadata": map[string]any{"name": "prod"}, "status": map[string]any{"removals": []any{removal}},
		}}}
	}
	write := func(verb, resource, name, query string) Write {
		return Write{Verb: verb, Resource: resource, Name: name, URI: "/apis?" + query}
	}
	held := "NodeSync prod: removal of NodePool/batch (u) is Held, but the daemon did "
	tests := map[string]struct {
		before, after string
		write         Write
		want          string
		stopped       bool
	}{
		"ends a node":           {before: "Held", after: "Held", write: write("delete", "nodeclaims", "batch-x1", ""), want: held + "delete nodeclaims/batch-x1"},
		"deletes the pool":      {before: "Held", after: "Held", write: write("delete", "nodepools", "batch", ""), want: held + "delete nodepools/batch"},
		"stops growth":          {before: "Held", after: "Held", write: write("patch", "nodepools", "batch", "fieldManager=plumbline-removal"), want: held + "patch nodepools/batch", stopped: true},
		"gives growth back":     {before: "Held", after: "Held", write: write("patch", "nodepools", "batch", "fieldManager=plumbline-removal")},
		"applies Git's":         {before: "Held", after: "Held", write: write("patch", "nodepools", "batch", "fieldManager=plumbline")},
		"a node of another":     {before: "Held", after: "Held", write: write("delete", "nodeclaims", "batch-2-x1", "")},
		"goes on":               {before: "Held", after: "Draining", write: write("delete", "nodeclaims", "batch-x1", "")},
		"held only since":       {before: "Draining", after: "Held", write: write("delete", "nodeclaims", "batch-x1", "")},
		"was never held at all": {before: "Pacing", after: "Draining", write: write("delete", "nodeclaims", "batch-x1", "")},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			pools := []unstructured.Unstructured{{}, {}}
			pools[0].SetName("batch")
			pools[0].SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "plumbline"}})
			pools[1].SetName("another")
			pools[1].SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "plumbline-removal"}})
			if test.stopped {
				pools[0].SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "plumbline"}, {Manager: "plumbline-removal"}})
			}
			h := Held{}
			h.Progressed(in(test.before), nil, nil)
			var got, want []string
			for _, lie := range h.Progressed(in(test.after), []Write{test.write}, pools) {
				got = append(got, lie.Words)
			}
			if test.want != "" {
				want = []string{test.want}
			}
			if !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}
