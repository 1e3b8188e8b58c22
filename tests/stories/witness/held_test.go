package witness

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestHeldProgressed: what the daemon does to a pool whose removal it says is Held is seen, and what
// others do, or the daemon before and afterwards, is none of that.
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
	}{
		"ends a node":           {"Held", "Held", write("delete", "nodeclaims", "batch-x1", ""), held + "delete nodeclaims/batch-x1"},
		"deletes the pool":      {"Held", "Held", write("delete", "nodepools", "batch", ""), held + "delete nodepools/batch"},
		"stops growth":          {"Held", "Held", write("patch", "nodepools", "batch", "fieldManager=plumbline-removal"), held + "patch nodepools/batch"},
		"applies Git's":         {"Held", "Held", write("patch", "nodepools", "batch", "fieldManager=plumbline"), ""},
		"a node of another":     {"Held", "Held", write("delete", "nodeclaims", "batch-2-x1", ""), ""},
		"goes on":               {"Held", "Draining", write("delete", "nodeclaims", "batch-x1", ""), ""},
		"held only since":       {"Draining", "Held", write("delete", "nodeclaims", "batch-x1", ""), ""},
		"was never held at all": {"Pacing", "Draining", write("delete", "nodeclaims", "batch-x1", ""), ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			h := Held{}
			h.Progressed(in(test.before), nil)
			var got, want []string
			for _, lie := range h.Progressed(in(test.after), []Write{test.write}) {
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
