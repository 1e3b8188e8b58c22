package plan_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/render"
)

// TestALabelThatIsSetAgain: an object whose label was changed by hand is ours once a person
// has set the label again, as the message asks for, but only the very object that is recorded.
func TestALabelThatIsSetAgain(t *testing.T) {
	general := poolRef("general")
	for name, c := range map[string]struct {
		recorded func(types.UID) map[render.Ref]types.UID
		want     []string
	}{
		"recorded":        {func(uid types.UID) map[render.Ref]types.UID { return map[render.Ref]types.UID{general: uid} }, []string{"NodePool/general"}},
		"another object":  {func(types.UID) map[render.Ref]types.UID { return map[render.Ref]types.UID{general: "before"} }, nil},
		"never recorded":  {func(types.UID) map[render.Ref]types.UID { return nil }, nil},
		"another's entry": {func(uid types.UID) map[render.Ref]types.UID { return map[render.Ref]types.UID{poolRef("other"): uid} }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			cl := newCluster(t)
			cl.have(t, owner, class("default"), pool("general", "default"), pool("stays", "default"))
			cl.relabel(t, general, "")
			cl.relabel(t, general, "plumbline-system.prod")
			cl.live.Recorded = c.recorded(cl.Object(general).GetUID())
			var got []string
			for _, removal := range cl.plan(t, class("default"), pool("stays", "default")).Removals {
				got = append(got, removal.Ref.String())
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("removed (-want +got):\n%s", diff)
			}
		})
	}
}
