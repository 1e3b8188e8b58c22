package removal

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

// TestWhatIsGoneIsNamed checks that a pool is not reported as deleted if a live one has its name.
func TestWhatIsGoneIsNamed(t *testing.T) {
	for uid, want := range map[types.UID]string{"p1": "NodePool/general is deleted, and", "p0": "the former NodePool/general is deleted, and"} {
		s := newBed(t).step(general)
		s.reportDriven(DriveResult{Removals: []v1alpha1.Removal{{Kind: general.Kind, Name: general.Name, UID: uid, Phase: v1alpha1.RemovalGone}}})
		if len(s.Notes) != 1 || !strings.HasPrefix(s.Notes[0].Message, want) {
			t.Errorf("of %s it says %v", uid, s.Notes)
		}
	}
}

// TestManyRemovalsShareEvents checks that the removal of many pools results in a few events, each of which names some
// of them.
func TestManyRemovalsShareEvents(t *testing.T) {
	s, result := newBed(t).step(general), DriveResult{}
	for i := range 180 {
		name := fmt.Sprintf("p-%03d", i)
		result.Writes = append(result.Writes, Write{Kind: render.NodePool, Name: name, Action: StopGrowth{}})
		result.Removals = append(result.Removals, v1alpha1.Removal{Kind: render.NodePool, Name: name, UID: types.UID(name), Phase: v1alpha1.RemovalGone})
	}
	result.Writes = append(result.Writes, Write{Kind: render.NodePool, Name: "one", Action: DeleteObject{}})
	s.reportDriven(result)
	const names = "NodePool/p-000, NodePool/p-001, NodePool/p-002, NodePool/p-003, NodePool/p-004 and 175 more"
	var got []string
	for _, n := range s.Notes {
		got = append(got, n.Reason+" "+n.Message)
	}
	want := []string{
		"Removing NodePool/one: delete the object", "Removing " + names + ": stop growth",
		"Removed " + names + " are deleted, and EC2 has terminated all instances of them",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}
