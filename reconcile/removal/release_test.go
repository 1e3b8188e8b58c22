package removal

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

// prod is the owner in these tests.
type prod struct{}

func (prod) Label() (label, annotation string) { return "plumbline-system.prod", "" }
func (prod) Owns(o metav1.Object) bool {
	return o.GetLabels()[v1alpha1.OwnerLabel] == "plumbline-system.prod"
}

func TestLetGo(t *testing.T) {
	batch, class := pool("batch", "batch-uid", dynamic()), nodeClass("default", "class-uid")
	foreign := pool("foreign", "foreign-uid", dynamic())
	foreign.SetLabels(map[string]string{v1alpha1.OwnerLabel: "plumbline-system.other"})
	s := newStage(t, batch, class, foreign)
	s.launch("a", "batch", "batch-uid")
	s.find(render.NodePool, "batch", "batch-uid")
	s.pass()
	if got := s.pass(); len(got) != 2 || got[1] != "stop growth" {
		t.Fatalf("growth was not stopped: %v", got)
	}
	if done, err := OrphanAll(t.Context(), s.world(), s.sync, prod{}); !done || err != nil {
		t.Fatalf("done %v, error %v", done, err)
	}
	for _, object := range []*unstructured.Unstructured{batch, class} {
		if !s.exists(object) || object.GetLabels()[v1alpha1.OwnerLabel] != "" {
			t.Errorf("%s after: %v", object.GetName(), object.GetLabels())
		}
	}
	if diff := cmp.Diff(dynamic()["limits"], any(limits(t, batch))); diff != "" {
		t.Errorf("limits (-want +got):\n%s", diff)
	}
	if restrained(batch) >= 0 {
		t.Errorf("the removal still owns fields: %v", batch.GetManagedFields())
	}
	if !s.exists(foreign) || foreign.GetLabels()[v1alpha1.OwnerLabel] == "" {
		t.Error("another NodeSync's pool was let go")
	}
	if claims := s.claims(); !claims[0].DeletionTimestamp.IsZero() || s.record() != nil {
		t.Errorf("NodeClaim %v, record %v", claims[0].DeletionTimestamp, s.record())
	}
	if done, err := OrphanAll(t.Context(), s.world(), s.sync, prod{}); !done || err != nil {
		t.Errorf("once more: done %v, error %v", done, err)
	}
}

// TestRestore checks that a held pool that is in Git again gets its growth back once and stays managed, and that a
// brake that is on stays.
func TestRestore(t *testing.T) {
	batch := pool("batch", "batch-uid", dynamic())
	s := newStage(t, batch)
	s.launch("a", "batch", "batch-uid")
	s.find(render.NodePool, "batch", "batch-uid")
	s.pass()
	s.pass()
	if !s.exists(batch) || restrained(batch) < 0 {
		t.Fatal("growth was not stopped")
	}
	for range 2 {
		if again, err := Restore(t.Context(), s.world(), s.sync, s.now, []*unstructured.Unstructured{batch}, nil); !again.IsZero() || err != nil {
			t.Fatalf("again %v, error %v", again, err)
		}
		if !s.exists(batch) || restrained(batch) >= 0 || batch.GetLabels()[v1alpha1.OwnerLabel] == "" {
			t.Errorf("after: labels %v, managers %v", batch.GetLabels(), batch.GetManagedFields())
		}
		if diff := cmp.Diff(dynamic()["limits"], any(limits(t, batch))); diff != "" {
			t.Errorf("limits (-want +got):\n%s", diff)
		}
	}
	batch.SetManagedFields(append(batch.GetManagedFields(), metav1.ManagedFieldsEntry{Manager: v1alpha1.BrakeFieldManager, Operation: metav1.ManagedFieldsOperationApply}))
	for braked, want := range map[bool]int{true: 0, false: 1} {
		if got := Restores([]*unstructured.Unstructured{batch}, nil, map[string]bool{"batch": braked}); len(got) != want {
			t.Errorf("braked %t: %v", braked, got)
		}
	}
}

// TestScaledPoolGetsItsReplicasBack checks that a static pool that was scaled down, not only to 0, gets its replicas back.
func TestScaledPoolGetsItsReplicasBack(t *testing.T) {
	for name, c := range map[string]struct {
		now    int64
		before Growth
		want   []Operation
	}{
		"to 0":            {0, Growth{Replicas: new(int64(5))}, []Operation{{Op: "replace", Path: "/spec/replicas", Value: int64(5)}}},
		"to 3":            {3, Growth{Replicas: new(int64(5))}, []Operation{{Op: "replace", Path: "/spec/replicas", Value: int64(5)}}},
		"not":             {5, Growth{Replicas: new(int64(5))}, nil},
		"from an unknown": {3, Growth{}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, regrow(Growth{Replicas: &c.now}, c.before, c.before.Replicas != nil)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestLetGoTakesTheBrakeOff checks that a brake is removed together with the label: the previous budgets are restored,
// and only Git's manager has applied them.
func TestLetGoTakesTheBrakeOff(t *testing.T) {
	own, brake := map[string]any{"nodes": "2"}, map[string]any{"nodes": "0", "reasons": []any{"Drifted"}}
	for name, removing := range map[string]bool{"alone": false, "beside a removal": true} {
		t.Run(name, func(t *testing.T) {
			batch := pool("batch", "batch-uid", map[string]any{"limits": map[string]any{"cpu": "0"}, "disruption": map[string]any{"budgets": []any{own, brake}}})
			fields := batch.GetManagedFields()
			managers := []string{v1alpha1.FieldManager, v1alpha1.BrakeFieldManager}
			if removing {
				managers = append(managers, v1alpha1.RemovalFieldManager)
			}
			for _, manager := range managers {
				entry := metav1.ManagedFieldsEntry{Manager: manager, Operation: metav1.ManagedFieldsOperationApply}
				if manager == v1alpha1.BrakeFieldManager {
					entry.FieldsType, entry.FieldsV1 = "FieldsV1", metav1.NewFieldsV1(`{"f:spec":{"f:disruption":{"f:budgets":{}}}}`)
				}
				fields = append(fields, entry)
			}
			batch.SetManagedFields(fields)
			patch := Releases([]*unstructured.Unstructured{batch}, nil)[0].Patch
			at := len(fields) - len(managers)
			want := []Operation{
				{Op: "replace", Path: "/spec/disruption/budgets", Value: []any{own}},
				{Op: "remove", Path: fmt.Sprintf("/metadata/managedFields/%d", at+1)},
			}
			if removing {
				want = []Operation{{Op: "remove", Path: "/spec/limits/cpu"}, want[0], {Op: "remove", Path: fmt.Sprintf("/metadata/managedFields/%d", at+2)}, want[1]}
			}
			if diff := cmp.Diff(want, patch[len(patch)-len(want):]); diff != "" {
				t.Errorf("patch (-want +got):\n%s", diff)
			}
		})
	}
}

// TestLetGoAfterTheRecordWasLost checks that a record that is lost after growth was stopped, as when the NodeSync is
// deleted in the foreground, neither makes the stopped state count as the previous one, nor removes what the status
// contains.
func TestLetGoAfterTheRecordWasLost(t *testing.T) {
	for name, c := range map[string]struct {
		again, statusToo bool
		want             any
	}{
		"at once":                  {want: dynamic()["limits"]},
		"and is recorded again":    {again: true, want: dynamic()["limits"]},
		"an older daemon's status": {again: true, statusToo: true, want: map[string]any{"memory": "1Ti"}},
	} {
		t.Run(name, func(t *testing.T) {
			batch := pool("batch", "batch-uid", dynamic())
			s := newStage(t, batch)
			s.find(render.NodePool, "batch", "batch-uid")
			s.pass()
			s.pass()
			if err := s.client.Delete(t.Context(), s.recorded(), preconditions(s.recorded().UID, s.recorded().ResourceVersion)); err != nil {
				t.Fatal(err)
			}
			for i := range s.sync.Status.Removals {
				if c.statusToo {
					s.sync.Status.Removals[i].Growth = nil
				}
			}
			if c.again {
				s.pass()
				if s.record() == nil {
					t.Fatal("the record was not written again")
				}
			}
			if done, err := OrphanAll(t.Context(), s.world(), s.sync, prod{}); !done || err != nil {
				t.Fatalf("done %v, error %v", done, err)
			}
			s.exists(batch)
			if diff := cmp.Diff(c.want, any(limits(t, batch))); diff != "" {
				t.Errorf("limits (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLetGoWithoutTheLease(t *testing.T) {
	batch := pool("batch", "batch-uid", dynamic())
	s := newStage(t, batch)
	s.leader = errors.New("the lease is another's")
	if done, err := OrphanAll(t.Context(), s.world(), s.sync, prod{}); done || !errors.Is(err, s.leader) {
		t.Errorf("done %v, error %v", done, err)
	}
	if s.exists(batch); batch.GetLabels()[v1alpha1.OwnerLabel] == "" {
		t.Error("a label was taken off without the lease")
	}
}

// TestReleaseOfAChangedObject checks that an object that was written since it was read is read again, not patched.
func TestReleaseOfAChangedObject(t *testing.T) {
	batch := pool("batch", "batch-uid", dynamic())
	s := newStage(t, batch)
	s.exists(batch)
	stale := Releases([]*unstructured.Unstructured{batch}, nil)[0]
	batch.SetAnnotations(map[string]string{"edited": "by hand"})
	if err := s.client.Update(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	if released, err := s.world().release(t.Context(), stale); released || err != nil {
		t.Errorf("released %v, error %v", released, err)
	}
	if s.exists(batch); batch.GetLabels()[v1alpha1.OwnerLabel] == "" {
		t.Error("the label was taken off an object that had changed")
	}
	if err := s.client.Delete(t.Context(), batch, preconditions(batch.GetUID(), batch.GetResourceVersion())); err != nil {
		t.Fatal(err)
	}
	if released, err := s.world().release(t.Context(), stale); !released || err != nil {
		t.Errorf("of one that is gone: released %v, error %v", released, err)
	}
}

func TestRegrow(t *testing.T) {
	zero, two := int64(0), int64(2)
	cases := map[string]struct {
		now, before Growth
		known       bool
		want        []Operation
	}{
		"it grows already":            {now: Growth{CPU: "10"}},
		"its limit is known":          {now: Growth{CPU: "0"}, before: Growth{CPU: "100"}, known: true, want: []Operation{{Op: "replace", Path: "/spec/limits/cpu", Value: "100"}}},
		"it had none":                 {now: Growth{CPU: "0"}, known: true, want: []Operation{{Op: "remove", Path: "/spec/limits/cpu"}}},
		"nobody knows":                {now: Growth{CPU: "0"}, want: []Operation{{Op: "remove", Path: "/spec/limits/cpu"}}},
		"its replicas are known":      {now: Growth{Replicas: &zero}, before: Growth{Replicas: &two}, known: true, want: []Operation{{Op: "replace", Path: "/spec/replicas", Value: two}}},
		"nobody knows its replicas":   {now: Growth{Replicas: &zero}},
		"it has its replicas already": {now: Growth{Replicas: &two}, before: Growth{Replicas: &two}, known: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, regrow(c.now, c.before, c.known)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestRecordName(t *testing.T) {
	long := ""
	for range 250 {
		long += "a"
	}
	if got := RecordName("prod"); got != "plumbline-prod" {
		t.Errorf("got %s", got)
	}
	if a, b := RecordName(long), RecordName(long+"b"); len(a) > 253 || a == b {
		t.Errorf("names %d long, equal %v", len(a), a == b)
	}
}

// TestLetGoOfAPoolWithoutItsLabel checks that a pool whose label another client has removed grows again, too, because
// its removal had stopped it. A pool of another NodeSync is not changed.
func TestLetGoOfAPoolWithoutItsLabel(t *testing.T) {
	for label, want := range map[string]map[string]any{
		"":                        dynamic()["limits"].(map[string]any),
		"plumbline-system.theirs": {"cpu": "0", "memory": "1Ti"},
	} {
		t.Run("label "+label, func(t *testing.T) {
			batch := pool("batch", "batch-uid", dynamic())
			s := newStage(t, batch)
			s.find(render.NodePool, "batch", "batch-uid")
			s.launch("a", "batch", "batch-uid")
			s.pass()
			s.pass()
			if !s.exists(batch) || restrained(batch) < 0 {
				t.Fatal("growth was not stopped")
			}
			labels := map[string]string{}
			if label != "" {
				labels[v1alpha1.OwnerLabel] = label
			}
			batch.SetLabels(labels)
			if err := s.client.Update(t.Context(), batch); err != nil {
				t.Fatal(err)
			}
			if done, err := OrphanAll(t.Context(), s.world(), s.sync, prod{}); !done || err != nil {
				t.Fatalf("done %v, error %v", done, err)
			}
			s.exists(batch)
			if diff := cmp.Diff(want, limits(t, batch)); diff != "" {
				t.Errorf("limits (-want +got):\n%s", diff)
			}
		})
	}
}
