package removal

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/render"
)

// TestDriveHeldWithoutItsRecord checks that a pool may grow if its growth was stopped, another client deleted its
// record, and its removal is then held.
func TestDriveHeldWithoutItsRecord(t *testing.T) {
	batch := pool("batch", "batch-uid", dynamic())
	s := pacedPool(t, batch)
	s.launch("a", "batch", "batch-uid")
	s.find(render.NodePool, "batch", "batch-uid")
	s.expect("recorded", "batch Pacing")
	s.expect("growth is stopped", "batch Pacing", "stop growth")
	record := s.recorded()
	if err := s.client.Delete(t.Context(), record, preconditions(record.UID, record.ResourceVersion)); err != nil {
		t.Fatal(err)
	}
	s.holds = map[types.UID]Hold{"batch-uid": {Reason: "Held", Message: "the last pool"}}
	s.expect("it is recorded again", "batch Held")
	s.expect("growth is restored", "batch Held", "restore growth")
	s.exists(batch)
	if limits(t, batch)["cpu"] == "0" {
		t.Error("its growth is stopped still")
	}
	s.expect("nothing is to be done", "batch Held")
}

// TestDriveCountsWhatIsHeldNoMore checks that terminating NodeClaims of a pool that another client deleted while its
// removal was held count against the next turn, from the first reconcile on.
func TestDriveCountsWhatIsHeldNoMore(t *testing.T) {
	restrained := map[string]any{"limits": map[string]any{"cpu": "0"}}
	spot := pool("spot", "spot-uid", restrained)
	s := pacedPool(t, pool("batch", "batch-uid", restrained), spot)
	s.launch("a", "batch", "batch-uid")
	s.launch("b", "spot", "spot-uid")
	s.find(render.NodePool, "batch", "batch-uid")
	s.find(render.NodePool, "spot", "spot-uid")
	s.holds = map[types.UID]Hold{"spot-uid": {Reason: "Held", Message: "too many"}}
	s.successor = Gate{Message: "no pool could take the pods"}
	s.expect("one is recorded", "batch Pacing", "spot Held")
	s.exists(spot)
	claims := s.claims()
	for i := range claims {
		if claims[i].Name == "b" {
			if err := s.client.Delete(t.Context(), &claims[i], preconditions(claims[i].UID, claims[i].ResourceVersion)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := s.client.Delete(t.Context(), spot, preconditions(spot.GetUID(), spot.GetResourceVersion())); err != nil {
		t.Fatal(err)
	}
	s.holds, s.successor = nil, Gate{Open: true}
	for _, line := range s.pass() {
		if line == "delete NodeClaim/a" {
			t.Fatal("two leave where one may")
		}
	}
}
