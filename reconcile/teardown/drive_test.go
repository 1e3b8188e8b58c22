package teardown

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/render"
)

func dynamic() map[string]any {
	return map[string]any{"limits": map[string]any{"cpu": "100", "memory": "1Ti"}}
}

func limits(t *testing.T, object *unstructured.Unstructured) map[string]any {
	t.Helper()
	found, _, err := unstructured.NestedMap(object.Object, "spec", "limits")
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestDriveAWholeRemoval(t *testing.T) {
	batch := pool("batch", "batch-uid", dynamic())
	s := newStage(t, batch, pool("general", "general-uid", dynamic()))
	s.launch("a", "batch", "batch-uid")
	s.launch("b", "batch", "batch-uid")
	s.launch("other", "general", "general-uid")
	s.find(render.NodePool, "batch", "batch-uid")

	expect := func(what string, want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, s.pass()); diff != "" {
			t.Fatalf("%s (-want +got):\n%s", what, diff)
		}
	}
	expect("the record is written, and nothing else", "batch Pacing")
	if !strings.Contains(s.record()["batch-uid"], "aws:///eu-west-1a/i-a") || s.last.Again != s.now {
		t.Fatalf("record %v, next pass %v", s.record(), s.last.Again)
	}
	expect("growth is stopped", "batch Pacing", "stop growth")
	s.exists(batch)
	if diff := cmp.Diff(map[string]any{"cpu": "0", "memory": "1Ti"}, limits(t, batch)); diff != "" {
		t.Errorf("limits (-want +got):\n%s", diff)
	}
	expect("NodeClaims are ended", "batch Draining", "delete NodeClaim/a", "delete NodeClaim/b")
	expect("they drain", "batch Draining")
	s.karpenter("shutting-down")
	expect("EC2 has not ended them", "batch VerifyingCloud")
	s.become("i-a", "terminated")
	expect("nor this one", "batch VerifyingCloud")
	delete(s.instances, "i-a")
	s.become("i-b", "terminated")
	expect("EC2 has", "batch Finalizing", "delete the object")
	expect("it is gone", "batch Gone")
	if s.exists(batch) || s.record() != nil {
		t.Errorf("left: pool %v, record %v", s.exists(batch), s.record())
	}
	if claims := s.claims(); len(claims) != 1 || claims[0].Name != "other" || !claims[0].DeletionTimestamp.IsZero() {
		t.Errorf("the other pool's nodes were touched: %v", claims)
	}
}

// What the cache still has is not what counts for a deletion.
func TestDriveOnAStaleCache(t *testing.T) {
	stopped := map[string]any{"limits": map[string]any{"cpu": "0"}}
	s := newStage(t, pool("batch", "batch-uid", stopped))
	s.find(render.NodePool, "batch", "batch-uid")
	s.pass()
	s.cache = blind{s.client}
	s.launch("late", "batch", "batch-uid")
	delete(s.instances, "i-late") // EC2 does not show it yet either.
	for range 3 {
		s.pass()
	}
	if !s.exists(pool("batch", "", nil)) {
		t.Error("the pool was deleted while it has a NodeClaim that the cache has not")
	}
}

// blind is a cache that no NodeClaim has come to.
type blind struct{ client.Reader }

func (b blind) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if _, ok := list.(*karpv1.NodeClaimList); ok {
		return nil
	}
	return b.Reader.List(ctx, list, options...)
}

// A removal that the status has no more was reverted, whatever this pass believes.
func TestDriveAfterARevert(t *testing.T) {
	s := newStage(t, pool("batch", "batch-uid", dynamic()))
	s.launch("a", "batch", "batch-uid")
	s.find(render.NodePool, "batch", "batch-uid")
	s.pass()
	believed := s.sync.DeepCopy()
	s.sync.Status.Removals = nil
	s.write()
	s.sync = believed
	if err := s.drive(); err != nil || len(s.last.Writes) > 0 {
		t.Errorf("done after a revert: %v, error %v", s.last.Writes, err)
	}
}

// A spec that is another one by now is not acted for.
func TestDriveOnAnOldSpec(t *testing.T) {
	s := newStage(t, pool("batch", "batch-uid", dynamic()))
	s.find(render.NodePool, "batch", "batch-uid")
	s.pass()
	s.sync = s.sync.DeepCopy()
	s.sync.Generation = 0
	if err := s.drive(); err != nil || len(s.last.Writes) > 0 {
		t.Errorf("done by an old spec: %v, error %v", s.last.Writes, err)
	}
}

func TestDriveWithoutTheLease(t *testing.T) {
	s := newStage(t, pool("batch", "batch-uid", map[string]any{"limits": map[string]any{"cpu": "0"}}))
	s.launch("a", "batch", "batch-uid")
	s.find(render.NodePool, "batch", "batch-uid")
	s.pass()
	s.leader = errors.New("the lease is another's")
	if err := s.drive(); !errors.Is(err, s.leader) || len(s.last.Writes) > 0 {
		t.Errorf("done without the lease: %v, error %v", s.last.Writes, err)
	}
	if claims := s.claims(); !claims[0].DeletionTimestamp.IsZero() {
		t.Error("a NodeClaim was deleted without the lease")
	}
}

// NodeClaims that have lost their pool by --cascade=orphan leave as Git says.
func TestDriveEndsOrphans(t *testing.T) {
	s := newStage(t)
	s.launch("a", "batch", "batch-uid")
	claims := s.claims()
	claims[0].OwnerReferences = nil
	if err := s.client.Update(t.Context(), &claims[0]); err != nil {
		t.Fatal(err)
	}
	s.find(render.NodePool, "batch", "batch-uid")
	for range 3 {
		s.pass()
		s.karpenter("terminated")
	}
	for range 3 {
		s.pass()
	}
	if len(s.claims()) > 0 || len(s.sync.Status.Removals) > 0 {
		t.Errorf("left: NodeClaims %v, removals %+v", s.claims(), s.sync.Status.Removals)
	}
}

func TestDriveAsksOnceForAll(t *testing.T) {
	stopped := map[string]any{"limits": map[string]any{"cpu": "0"}}
	s := newStage(t, pool("batch", "batch-uid", stopped), pool("spot", "spot-uid", stopped))
	s.find(render.NodePool, "batch", "batch-uid")
	s.find(render.NodePool, "spot", "spot-uid")
	s.instances["i-x"] = instanceOf("i-x", "batch")
	s.instances["i-y"] = instanceOf("i-y", "spot")
	s.pass()
	s.pass()
	if s.questions != 1 {
		t.Errorf("EC2 was asked %d times in a pass over two removals", s.questions)
	}
	if want := s.now.Add(10 * time.Second); s.last.Again != want {
		t.Errorf("next pass at %v, want %v", s.last.Again, want)
	}
	s.now = s.now.Add(9 * time.Second)
	before := s.last.Removals
	if err := s.drive(); err != nil || s.questions != 1 {
		t.Errorf("EC2 was asked again before its time: %d questions, error %v", s.questions, err)
	}
	if diff := cmp.Diff(before, s.last.Removals); diff != "" {
		t.Errorf("a pass in between writes (-want +got):\n%s", diff)
	}
}

func TestDriveWithoutAnAnswer(t *testing.T) {
	s := newStage(t, pool("batch", "batch-uid", map[string]any{"limits": map[string]any{"cpu": "0"}}))
	s.find(render.NodePool, "batch", "batch-uid")
	s.pass()
	s.silence = errors.New("AWS throttles ec2:DescribeInstances")
	s.pass()
	r := s.sync.Status.Removals[0]
	if r.Reason != ReasonEC2NotAnswering || r.Message != s.silence.Error() || !s.exists(pool("batch", "", nil)) {
		t.Errorf("without EC2's answer: %+v", r)
	}
}

func instanceOf(id, pool string) cloud.Instance {
	return cloud.Instance{ID: id, Zone: "eu-west-1a", State: "running", Pool: pool}
}
