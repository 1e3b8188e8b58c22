package render_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/plumbline-dev/plumbline/internal/property"
	"github.com/plumbline-dev/plumbline/render"
)

// TestOrder: however the same definitions are spread over files and folders, the objects and their order are the same:
// EC2NodeClasses, then NodePools, each by name.
func TestOrder(t *testing.T) {
	property.Check(t, func(r *rapid.T) {
		names := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z]{1,4}`), 1, 8, rapid.ID).Draw(r, "names")
		var texts []string
		var want []render.Ref
		for _, name := range names {
			if rapid.Bool().Draw(r, "is a class") {
				texts = append(texts, class(name))
				want = append(want, render.Ref{Kind: render.EC2NodeClass, Name: name})
				continue
			}
			texts = append(texts, pool(name))
			want = append(want, render.Ref{Kind: render.NodePool, Name: name})
		}
		slices.SortFunc(want, func(a, b render.Ref) int {
			if a.Kind != b.Kind {
				return slices.Index([]string{render.EC2NodeClass, render.NodePool}, a.Kind) - slices.Index([]string{render.EC2NodeClass, render.NodePool}, b.Kind)
			}
			return slices.Compare([]byte(a.Name), []byte(b.Name))
		})
		for attempt := range 2 {
			files := map[string]string{"plumbline.yaml": plumblineYAML}
			for _, i := range rapid.Permutation(indices(len(texts))).Draw(r, "order") {
				place := fmt.Sprintf("%s%s.yaml", rapid.SampledFrom([]string{"", "a/", "b/c/"}).Draw(r, "folder"), rapid.SampledFrom([]string{"p", "q", "r"}).Draw(r, "file"))
				files[place] += "---\n" + texts[i]
			}
			set, err := renderAll(t, folder(files), ".", nil)
			if err != nil {
				r.Fatalf("attempt %d: %v", attempt, err)
			}
			var got []render.Ref
			for _, object := range set.Objects {
				got = append(got, object.Ref)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				r.Fatalf("attempt %d (-want +got):\n%s", attempt, diff)
			}
		}
	})
}

func indices(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}
