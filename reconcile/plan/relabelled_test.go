package plan_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// TestALabelThatIsSetAgain: an object whose label was changed by hand is ours once a person has restored the label, as
// the message says, but only the recorded object.
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

// TestALabelThatIsTakenFromWhatIsHeld: a held removal stays held, and counts as before, while the object has no mark;
// deleting the record keeps the object.
func TestALabelThatIsTakenFromWhatIsHeld(t *testing.T) {
	general, batch := poolRef("general"), poolRef("batch")
	for name, c := range map[string]struct {
		take     func(t *testing.T, cl *drawnCluster)
		phase    v1alpha1.RemovalPhase
		recorded bool
		// held are the reasons of held removals, and returned is the number of reverted ones.
		held     map[render.Ref]string
		returned int
	}{
		"nothing is taken": {func(*testing.T, *drawnCluster) {}, v1alpha1.RemovalHeld, true, map[render.Ref]string{general: plan.ReasonMaxRemovedPools, batch: plan.ReasonMaxRemovedPools}, 0},
		"the label": {
			func(t *testing.T, cl *drawnCluster) { cl.relabel(t, general, "") }, v1alpha1.RemovalHeld, true,
			map[render.Ref]string{general: plan.ReasonLabelChanged, batch: plan.ReasonMaxRemovedPools},
			0,
		},
		"the label, before a node was ended": {
			func(t *testing.T, cl *drawnCluster) { cl.relabel(t, general, "") }, v1alpha1.RemovalPacing, true,
			map[render.Ref]string{general: plan.ReasonLabelChanged, batch: plan.ReasonMaxRemovedPools},
			0,
		},
		"the managedFields": {
			func(t *testing.T, cl *drawnCluster) { cl.disown(t, general, v1alpha1.FieldManager) }, v1alpha1.RemovalHeld, true,
			map[render.Ref]string{general: plan.ReasonLabelChanged, batch: plan.ReasonMaxRemovedPools},
			0,
		},
		"the label, and the record": {func(t *testing.T, cl *drawnCluster) { cl.relabel(t, general, "") }, v1alpha1.RemovalHeld, false, map[render.Ref]string{}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			cl := newCluster(t)
			cl.have(t, owner, class("default"), pool("general", "default"), pool("batch", "default"), pool("stays", "default"))
			cl.live.Recorded = map[render.Ref]types.UID{batch: cl.Object(batch).GetUID()}
			if c.recorded {
				cl.live.Recorded[general] = cl.Object(general).GetUID()
			}
			for _, ref := range []render.Ref{general, batch} {
				cl.removal(ref, c.phase, "main@sha1:0")
			}
			c.take(t, cl)
			p := cl.plan(t, class("default"), pool("stays", "default"))
			held := map[render.Ref]string{}
			for _, removal := range p.Removals {
				if removal.Held {
					held[removal.Ref] = removal.Reason
				}
			}
			if diff := cmp.Diff(c.held, held); diff != "" {
				t.Errorf("held (-want +got):\n%s", diff)
			}
			if len(p.Returned) != c.returned {
				t.Errorf("%d removals are taken back, want %d", len(p.Returned), c.returned)
			}
		})
	}
}
