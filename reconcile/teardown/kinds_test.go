package teardown

import (
	"testing"

	"github.com/google/go-cmp/cmp"

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

func TestDriveAClassInUse(t *testing.T) {
	user := pool("batch", "batch-uid", map[string]any{"template": map[string]any{"spec": map[string]any{"nodeClassRef": map[string]any{"name": "default"}}}})
	s := newStage(t, nodeClass("default", "class-uid"), user)
	s.launch("a", "batch", "batch-uid")
	s.find(render.EC2NodeClass, "default", "class-uid")
	s.pass()
	s.pass()
	if r := s.sync.Status.Removals[0]; r.Message != "still named by NodePool/batch, NodeClaim/a" {
		t.Errorf("removal %+v", r)
	}
	if err := s.client.Delete(t.Context(), user, exactly(user.GetUID(), user.GetResourceVersion())); err != nil {
		t.Fatal(err)
	}
	claims := s.claims()
	if err := s.client.Delete(t.Context(), &claims[0], exactly(claims[0].UID, claims[0].ResourceVersion)); err != nil {
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
