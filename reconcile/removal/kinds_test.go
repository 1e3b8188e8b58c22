package removal

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/render"
)

func TestDriveAStaticPool(t *testing.T) {
	fixed := pool("fixed", "fixed-uid", map[string]any{"replicas": int64(2)})
	s := newStage(t, fixed)
	s.launch("a", "fixed", "fixed-uid")
	s.find(render.NodePool, "fixed", "fixed-uid")
	s.pass()
	if diff := cmp.Diff([]string{"fixed Draining", "scale to 0"}, s.pass()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"fixed Draining", "delete NodeClaim/a"}, s.pass()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestDriveAStaticPoolThatIsHeld checks that a static pool that a drain has scaled to 0 gets its replicas back after
// the drain, if it is not in Git and its removal is held.
func TestDriveAStaticPoolThatIsHeld(t *testing.T) {
	s := newStage(t, pool("fixed", "fixed-uid", map[string]any{"replicas": int64(2)}))
	s.launch("a", "fixed", "fixed-uid")
	s.find(render.NodePool, "fixed", "fixed-uid")
	s.expect("recorded", "fixed Pacing")
	s.expect("drained", "fixed Draining", "scale to 0")
	s.holds = map[types.UID]Hold{"fixed-uid": {Reason: "MaxRemovedPools", Message: "held"}}
	s.expect("held", "fixed Held", "restore growth")
	live := pool("fixed", "fixed-uid", nil)
	if err := s.client.Get(t.Context(), client.ObjectKeyFromObject(live), live); err != nil {
		t.Fatal(err)
	}
	if replicas, _, err := unstructured.NestedInt64(live.Object, "spec", "replicas"); err != nil || replicas != 2 {
		t.Errorf("it has %d replicas (%v)", replicas, err)
	}
	s.expect("and stays so", "fixed Held")
}

func TestDriveAClassInUse(t *testing.T) {
	user := pool("batch", "batch-uid", map[string]any{"template": map[string]any{"spec": map[string]any{"nodeClassRef": map[string]any{"name": "default"}}}})
	s := newStage(t, nodeClass("default", "class-uid"), user)
	s.launch("a", "batch", "batch-uid")
	s.find(render.EC2NodeClass, "default", "class-uid")
	s.pass()
	s.pass()
	if r := s.sync.Status.Removals[0]; r.Message != "still referenced by NodePool/batch, NodeClaim/a" {
		t.Errorf("removal %+v", r)
	}
	if err := s.client.Delete(t.Context(), user, preconditions(user.GetUID(), user.GetResourceVersion())); err != nil {
		t.Fatal(err)
	}
	claims := s.claims()
	if err := s.client.Delete(t.Context(), &claims[0], preconditions(claims[0].UID, claims[0].ResourceVersion)); err != nil {
		t.Fatal(err)
	}
	s.karpenter("terminated")
	if diff := cmp.Diff([]string{"default Finalizing", "delete the object"}, s.pass()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"default Gone"}, s.pass()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestDrainALargeStaticPool checks that a static pool is drained in one step, however many nodes it has.
func TestDrainALargeStaticPool(t *testing.T) {
	s := newStage(t, pool("fixed", "fixed-uid", map[string]any{"replicas": int64(25)}))
	for i := range 25 {
		s.launch(fmt.Sprintf("n%02d", i), "fixed", "fixed-uid")
	}
	s.find(render.NodePool, "fixed", "fixed-uid")
	s.expect("recorded", "fixed Pacing")
	s.expect("all of it", "fixed Draining", "scale to 0")
}

// TestDriveAStaticPoolThatKarpenterPassesOver checks that the removal says why no node may be terminated.
func TestDriveAStaticPoolThatKarpenterPassesOver(t *testing.T) {
	s := pacedPool(t, pool("fixed", "fixed-uid", map[string]any{"replicas": int64(3)}))
	for _, name := range []string{"a", "b", "c"} {
		s.launch(name, "fixed", "fixed-uid")
	}
	s.find(render.NodePool, "fixed", "fixed-uid")
	s.expect("recorded", "fixed Pacing")
	s.expect("one less", "fixed Draining", "scale to 2")
	s.expect("Karpenter does nothing", "fixed Draining")
	const want = "waiting for Karpenter to terminate the nodes beyond spec.replicas: it terminates none while its feature gate StaticCapacity is off"
	if r := s.sync.Status.Removals[0]; r.Message != want {
		t.Errorf("it says %q", r.Message)
	}
}
