package reconcile

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/apply"
	"github.com/plumbline-dev/plumbline/reconcile/apply/applytest"
	"github.com/plumbline-dev/plumbline/render"
)

// TestPlanAndPassOfADeletedClass shows that, with removal.rescue, both plan and reconcile point its NodePools at a
// copy; without it, the commit to make is printed.
func TestPlanAndPassOfADeletedClass(t *testing.T) {
	shared := newPlannedShelf(t)
	for name, rescue := range map[string]bool{"rescued": true, "reported": false} {
		t.Run(name, func(t *testing.T) {
			pool := poolText("a", "default", "{key: karpenter.sh/capacity-type, operator: In, values: [spot]}")
			w := &plannedWorld{sync: nodeSync(func(n *v1alpha1.NodeSync) { n.Spec.Removal.Rescue = rescue }), server: applytest.New(t), files: fstest.MapFS{
				"prod/plumbline.yaml":   {Data: []byte(plannedYAML)},
				"prod/nodes/class.yaml": {Data: []byte(plannedClass)},
				"prod/nodes/pool.yaml":  {Data: []byte(pool)},
			}}
			w.install(shared.identity)
			w.sync.Status.LastAppliedRevision, w.sync.Status.LastAttemptedRevision = "main@sha1:0", "main@sha1:0"
			w.recorded = &apply.Record{Objects: map[render.Ref]types.UID{}, Pools: map[string]bool{"a": true}, Revision: "main@sha1:0"}
			for _, text := range []string{plannedClass, pool} {
				object := w.server.Definition(t, text)
				object.Desired.SetLabels(map[string]string{v1alpha1.OwnerLabel: namespace + ".prod"})
				if err := w.server.ApplyAs(t.Context(), object.Desired, v1alpha1.FieldManager, true); err != nil {
					t.Fatal(err)
				}
				w.recorded.Objects[object.Ref] = w.server.Object(object.Ref).GetUID()
			}
			w.server.Terminate(render.Ref{Kind: render.EC2NodeClass, Name: "default"})
			w.others = append(w.others, claimOf("a", w.server.Object(render.Ref{Kind: render.NodePool, Name: "a"}).GetUID(), 0))

			passed, diff := w.compare(t, shared)
			if diff != "" {
				t.Fatal(diff)
			}
			has := func(words string) bool {
				return slices.ContainsFunc(passed.Changes, func(change string) bool { return strings.HasPrefix(change, words) })
			}
			if has("Create EC2NodeClass/default-rescued") != rescue || has("Update NodePool/a Differs Replace") != rescue {
				t.Errorf("the pass: %q", passed.Changes)
			}
		})
	}
}
