package removal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

// counting counts the requests to the API server about definitions and nodes.
type counting struct {
	client.Reader
	gets  atomic.Int32
	lists int
}

func (c *counting) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	if _, definition := object.(*unstructured.Unstructured); definition {
		c.gets.Add(1)
	}
	return c.Reader.Get(ctx, key, object, options...)
}

func (c *counting) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	c.lists++
	return c.Reader.List(ctx, list, options...)
}

// TestDriveManyPools checks that a reconcile reads all removed pools once, however many there are, and that a pool
// stays if only the API server knows that it has a node.
func TestDriveManyPools(t *testing.T) {
	const pools, busy = namesAtOnce + manyObjects, namesAtOnce + 3
	s := newStage(t)
	for i := range pools {
		name := fmt.Sprintf("pool-%d", i)
		made := pool(name, types.UID(name+"-uid"), map[string]any{"limits": map[string]any{"cpu": "0"}})
		if i == 0 {
			made.SetLabels(nil) // another client removed plumbline's label; the pool still exists
		}
		if err := s.client.Create(t.Context(), made); err != nil {
			t.Fatal(err)
		}
		s.find(render.NodePool, name, types.UID(name+"-uid"))
	}
	s.pass()
	s.cache = blind{s.client}
	name := fmt.Sprintf("pool-%d", busy)
	s.launch("late", name, types.UID(name+"-uid"))
	delete(s.instances, "i-late") // EC2 does not return it yet either
	live := &counting{Reader: s.client}
	s.live = live
	gone := map[string]bool{}
	for range 4 {
		live.gets.Store(0)
		live.lists = 0
		s.pass()
		for _, r := range s.last.Removals {
			gone[r.Name] = gone[r.Name] || r.Phase == v1alpha1.RemovalGone
		}
		if live.gets.Load() > 1 || live.lists > 1+pools/namesAtOnce+1 {
			t.Errorf("a pass made %d GETs and %d LISTs; want one LIST of the pools, and one of the NodeClaims for each %d of them", live.gets.Load(), live.lists, namesAtOnce)
		}
	}
	for i := range pools {
		name := fmt.Sprintf("pool-%d", i)
		if stays, want := s.exists(pool(name, "", nil)), i == busy; stays != want || gone[name] == want {
			t.Errorf("%s: exists %t, gone %t; want it gone but for the one with a node", name, stays, gone[name])
		}
	}
}

// TestDriveManyClasses checks that the references to all classes are read once.
func TestDriveManyClasses(t *testing.T) {
	s := newStage(t, pool("batch", "batch-uid", map[string]any{"template": map[string]any{"spec": map[string]any{"nodeClassRef": map[string]any{"name": "class-1"}}}}))
	for _, name := range []string{"class-0", "class-1", "default"} {
		if err := s.client.Create(t.Context(), nodeClass(name, types.UID(name+"-uid"))); err != nil {
			t.Fatal(err)
		}
		s.find(render.EC2NodeClass, name, types.UID(name+"-uid"))
	}
	s.launch("a", "batch", "batch-uid") // its class is "default"
	live := &counting{Reader: s.client}
	s.live = live
	for range 4 {
		live.lists = 0
		s.pass()
		if live.lists > 2 {
			t.Errorf("a pass made %d LISTs; want one of the pools and one of the NodeClaims", live.lists)
		}
	}
	for name, want := range map[string]bool{"class-0": false, "class-1": true, "default": true} {
		if got := s.exists(nodeClass(name, "")); got != want {
			t.Errorf("%s: exists %t, want %t", name, got, want)
		}
	}
}

// TestOlderRecordsAreRead checks that a record of an older daemon, which only records whether EC2 has returned an
// instance, proves no termination.
func TestOlderRecordsAreRead(t *testing.T) {
	old := `{"kind":"NodePool","name":"batch","notedAt":"2026-01-01T12:00:00Z","instances":{"i-a":true,"i-b":false},"growth":{}}`
	var got record
	if err := json.Unmarshal([]byte(old), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]Seen{"i-a": seenOnce, "i-b": ""}, got.Instances); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if seenOnce.isTerminating() || seenOnce.rank() != Seen("running").rank() {
		t.Error("an instance that was shown counts as ending")
	}
	written, err := json.Marshal(record{Instances: map[string]Seen{"i-a": seenShuttingDown, "i-b": ""}})
	if err != nil {
		t.Fatal(err)
	}
	var back record
	if err := json.Unmarshal(written, &back); err != nil || back.Instances["i-a"] != seenShuttingDown || back.Instances["i-b"] != "" {
		t.Errorf("%s comes back as %v, error %v", written, back.Instances, err)
	}
}

// TestARecordedStateOnlyRises checks that a stale response does not undo that an instance was seen shutting down.
func TestARecordedStateOnlyRises(t *testing.T) {
	r := &records{entries: map[types.UID]record{}}
	it := &item{before: v1alpha1.Removal{UID: "1"}}
	for _, state := range []string{"pending", "shutting-down", "running"} {
		r.note(it, Note{Seen: []Instance{{ProviderID: "i-a", State: state}}})
	}
	if got := r.entries["1"].Instances["i-a"]; got != seenShuttingDown {
		t.Errorf("it is recorded as %q", got)
	}
}

// TestDriveNamesARelabelledNodeClaim checks that a removal that waits for the instance of a NodeClaim names the
// NodeClaim while its label is changed by hand.
func TestDriveNamesARelabelledNodeClaim(t *testing.T) {
	s := newStage(t, pool("batch", "batch-uid", map[string]any{"limits": map[string]any{"cpu": "0"}}))
	s.launch("a", "batch", "batch-uid")
	s.launch("b", "batch", "batch-uid")
	s.find(render.NodePool, "batch", "batch-uid")
	s.pass()
	label := func(pool string) {
		t.Helper()
		for _, claim := range s.claims() {
			if claim.Name == "b" {
				claim.Labels[karpv1.NodePoolLabelKey] = pool
				if err := s.client.Update(t.Context(), &claim); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	label("other")
	s.expect("its nodes are ended", "batch Draining", "delete NodeClaim/a")
	s.karpenter("terminated")
	s.pass()
	s.pass()
	const stray = `NodeClaim/b (i-b) has its label karpenter.sh/nodepool changed by another client to "other": set it back to batch, or delete the NodeClaim to terminate its node; `
	said := func(what string, want bool) {
		t.Helper()
		if r := s.sync.Status.Removals[0]; r.Reason != ReasonInstancesLeaving || strings.HasPrefix(r.Message, stray) != want || strings.Count(r.Message, "NodeClaim/b") > 1 {
			t.Errorf("%s: it says %s: %s", what, r.Reason, r.Message)
		}
	}
	said("EC2 shows the instance", true)
	s.silence = errors.New("throttled")
	s.pass()
	s.pass()
	said("EC2 gives no answer", true)
	s.silence = nil
	label("batch")
	s.expect("it is the pool's again", "batch Draining", "delete NodeClaim/b")
}

// TestDriveNamesNoNodeClaimOfANewPool checks that NodeClaims of a pool that was recreated under the name are not named,
// because their label is right.
func TestDriveNamesNoNodeClaimOfANewPool(t *testing.T) {
	s := newStage(t, pool("batch", "new-uid", dynamic()))
	s.launch("a", "batch", "batch-uid")
	s.find(render.NodePool, "batch", "batch-uid")
	s.pass()
	for _, claim := range s.claims() {
		claim.OwnerReferences[0].UID = "new-uid"
		if err := s.client.Update(t.Context(), &claim); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		s.pass()
	}
	if r := s.sync.Status.Removals[0]; r.Reason != ReasonInstancesLeaving || strings.Contains(r.Message, "changed by hand") {
		t.Errorf("it says %s: %s", r.Reason, r.Message)
	}
}

// TestDriveNamesWhatAClassWaitsFor checks that a NodePool that is not removed automatically is named before the others,
// with what to do.
func TestDriveNamesWhatAClassWaitsFor(t *testing.T) {
	naming := func(name string) map[string]any {
		return map[string]any{"template": map[string]any{"spec": map[string]any{"nodeClassRef": map[string]any{"name": name}}}}
	}
	s := newStage(t, nodeClass("default", "class-uid"), pool("a", "a-uid", naming("default")), pool("b", "b-uid", naming("default")))
	s.unremoved = map[string]string{"NodePool/b": "its label was changed by hand: set it again"}
	s.find(render.EC2NodeClass, "default", "class-uid")
	s.pass()
	s.pass()
	if r := s.sync.Status.Removals[0]; r.Reason != ReasonReferenced || r.Message != "NodePool/b references it, but its label was changed by hand: set it again" {
		t.Errorf("it says %s: %s", r.Reason, r.Message)
	}
	s.unremoved = nil
	s.pass()
	if r := s.sync.Status.Removals[0]; r.Message != "still referenced by NodePool/a, NodePool/b" {
		t.Errorf("it says %s: %s", r.Reason, r.Message)
	}
}

// TestDriveNoClassStallsBeforeItsPool checks that a class waits while the pool that references it waits for a window or
// a person, and stalls when the pool does.
func TestDriveNoClassStallsBeforeItsPool(t *testing.T) {
	for reason, wait := range map[string]func(s *stage, waits bool){
		ReasonFrozen: func(s *stage, waits bool) {
			if s.frozen = ""; waits {
				s.frozen = "no node is removed or replaced before ten"
			}
		},
		ReasonNodePoolHeld: func(s *stage, waits bool) {
			if s.holds = nil; waits {
				s.holds = map[types.UID]Hold{"a-uid": {Reason: "MaxDisruptedNodes", Message: "too many"}}
			}
		},
	} {
		t.Run(reason, func(t *testing.T) {
			s := newStage(t, nodeClass("default", "class-uid"), pool("a", "a-uid", map[string]any{"template": map[string]any{"spec": map[string]any{"nodeClassRef": map[string]any{"name": "default"}}}}))
			s.launch("n", "a", "a-uid")
			s.find(render.NodePool, "a", "a-uid")
			s.find(render.EC2NodeClass, "default", "class-uid")
			after := func(passed time.Duration) v1alpha1.Removal {
				for range 3 {
					s.pass()
				}
				s.now = s.now.Add(passed)
				s.pass()
				return s.sync.Status.Removals[1]
			}
			wait(s, true)
			if r := after(72 * time.Hour); r.Stalled != nil || r.Reason != reason || r.Message != "still referenced by NodePool/a, NodeClaim/n" {
				t.Errorf("while the pool waits: %s: %s, stalled %v", r.Reason, r.Message, r.Stalled)
			}
			wait(s, false)
			s.controller = Gate{Message: "the controller does not run"}
			if r := after(0); r.Stalled != nil || r.Reason != ReasonReferenced {
				t.Errorf("after it: %s: %s, stalled %v", r.Reason, r.Message, r.Stalled)
			}
			if r := after(11 * time.Minute); r.Stalled == nil {
				t.Errorf("when the pool stands still: %s: %s", r.Reason, r.Message)
			}
		})
	}
}
