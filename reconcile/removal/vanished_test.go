package removal

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/apply"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// TestAPoolThatVanishedBecomesARemoval checks this for kubectl delete followed by git rm.
func TestAPoolThatVanishedBecomesARemoval(t *testing.T) {
	b := living(t)
	if s := b.looks(); len(s.Live.Vanished) > 0 {
		t.Errorf("it lives, and counts as vanished: %v", s.Live.Vanished)
	}
	if err := b.client.Delete(t.Context(), b.livePool()); err != nil {
		t.Fatal(err)
	}
	s := b.looks(render.Ref{Kind: render.NodePool, Name: "other"})
	if diff := cmp.Diff([]plan.Vanished{{Ref: general, UID: "p1"}}, s.Live.Vanished); diff != "" {
		t.Fatalf("vanished (-want +got):\n%s", diff)
	}
	s.Plan = &plan.Plan{Removals: []plan.Candidate{{Ref: general, UID: "p1", Revision: "main@sha1:2", Nodes: 1, Vanished: true}}}
	s.recordCandidates()
	if open := s.Sync.Status.Removals; len(open) != 1 || open[0].UID != "p1" || open[0].Phase != v1alpha1.RemovalPacing || open[0].Reason != "Vanished" {
		t.Errorf("removals: %+v", open)
	}
	if got := warnings(s); !strings.Contains(got, "Vanished: NodePool/general was deleted by hand") {
		t.Errorf("it tells %q", got)
	}
	if s := b.looks(general); len(s.Live.Vanished) > 0 {
		t.Errorf("Git has it, and its removal is begun: %v", s.Live.Vanished)
	}
}

// TestTheCacheIsNotBelieved checks that an object that was just applied and is not in the cache yet does not count as
// deleted.
func TestTheCacheIsNotBelieved(t *testing.T) {
	b := living(t)
	s := b.step()
	s.Live = plan.Live{}
	if vanished, err := s.Vanished(t.Context()); err != nil || len(vanished) > 0 {
		t.Errorf("the API server has it, and it counts as vanished: %v, error %v", vanished, err)
	}
}

// TestNodesThatGoWithAPoolAreNamed checks that they are reported once, whatever is done about the pool.
func TestNodesThatGoWithAPoolAreNamed(t *testing.T) {
	for name, c := range map[string]struct {
		drift v1alpha1.DriftPolicy
		want  string
	}{
		"corrected": {v1alpha1.DriftCorrect, "plumbline recreates it from Git"},
		"reported":  {v1alpha1.DriftReport, "plumbline does not recreate it, because drift is Report"},
	} {
		t.Run(name, func(t *testing.T) {
			b := living(t)
			b.sync.Spec.Drift = c.drift
			if got := warnings(b.looks(general)); got != "" {
				t.Errorf("all is there, and it tells %q", got)
			}
			if err := b.client.Delete(t.Context(), b.livePool()); err != nil {
				t.Fatal(err)
			}
			got := warnings(b.looks(general))
			for _, want := range []string{"NodesLost: ", "so 1 NodeClaim terminates", "NodePool/general: general-1 (node-1)", c.want} {
				if !strings.Contains(got, want) {
					t.Errorf("it tells %q, want %q", got, want)
				}
			}
			if again := warnings(b.looks(general)); again != "" {
				t.Errorf("it tells again: %q", again)
			}
		})
	}
}

// TestNodesOfATerminatingPoolAreNamed checks this for a pool that is deleted in the foreground, and exists until its
// nodes are gone.
func TestNodesOfATerminatingPoolAreNamed(t *testing.T) {
	b := living(t)
	pool := b.livePool()
	pool.SetFinalizers([]string{metav1.FinalizerDeleteDependents})
	if err := b.client.Update(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	if err := b.client.Delete(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	if got := warnings(b.looks(general)); !strings.Contains(got, "NodePool/general: general-1 (node-1)") {
		t.Errorf("it tells %q", got)
	}
	removal := b.looks(general)
	removal.Memory.lost = nil
	removal.Sync.Status.Removals = []v1alpha1.Removal{{Kind: render.NodePool, Name: "general", UID: "p1", Phase: v1alpha1.RemovalFinalizing}}
	if len(removal.terminating()) > 0 {
		t.Error("a removal's own delete counts as one by hand")
	}
}

// TestTheRecordFollowsWhatLives checks that the record is written only when an object is added or removed.
func TestTheRecordFollowsWhatLives(t *testing.T) {
	b := newBed(t)
	records := func(what string, want map[string]string, written bool) {
		t.Helper()
		before := b.appliedVersion()
		s := b.looks(general)
		if _, err := s.RecordApplied(t.Context()); err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for ref, uid := range b.record().Record.Objects {
			got[ref.String()] = string(uid)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
		if b.appliedVersion() != before != written {
			t.Errorf("%s: written %t, want %t", what, !written, written)
		}
	}
	one := map[string]string{"NodePool/general": "p1"}
	records("it is applied", one, true)
	records("nothing moved", one, false)
	pool := b.livePool()
	pool.SetAnnotations(map[string]string{"edited": "yes"})
	if err := b.client.Update(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	records("it was edited", one, false)
	if err := b.client.Delete(t.Context(), b.livePool()); err != nil {
		t.Fatal(err)
	}
	records("it vanished", one, false)
	s := b.looks()
	if err := s.forgetGone(t.Context(), []v1alpha1.Removal{{UID: "p1", Phase: v1alpha1.RemovalGone}}); err != nil {
		t.Fatal(err)
	}
	records("it was verified gone", map[string]string{}, false)
	copied := ownedPool()
	copied.SetUID("p2")
	copied.SetManagedFields(nil)
	if err := b.client.Create(t.Context(), copied); err != nil {
		t.Fatal(err)
	}
	records("a copied file bears the label", map[string]string{}, false)
}

// appliedVersion returns the resourceVersion of the record.
func (b *bed) appliedVersion() string {
	b.t.Helper()
	object := &corev1.ConfigMap{}
	err := b.client.Get(b.t.Context(), client.ObjectKey{Namespace: namespace, Name: v1alpha1.AppliedName("prod")}, object)
	if client.IgnoreNotFound(err) != nil {
		b.t.Fatal(err)
	}
	return object.ResourceVersion
}

// TestNodesThatAPoolLeavesBehind checks that nodes that lose their owner because of --cascade=orphan are reported,
// since they keep running.
func TestNodesThatAPoolLeavesBehind(t *testing.T) {
	deleted := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "general", "uid": "p1", "finalizers": []any{"orphan"}}}}
	for name, c := range map[string]struct {
		pool  *unstructured.Unstructured
		claim plan.NodeClaim
		want  string
	}{
		"while it is deleted":      {deleted, plan.NodeClaim{Name: "a", Pool: "general", PoolUID: "p1"}, "NodesOrphaned"},
		"when it is gone":          {nil, plan.NodeClaim{Name: "a", Pool: "general"}, "NodesOrphaned"},
		"that end with the others": {nil, plan.NodeClaim{Name: "a", Pool: "general", PoolUID: "p1", Deleting: true}, "NodesLost"},
	} {
		t.Run(name, func(t *testing.T) {
			s := living(t).step()
			s.Live.Objects = nil
			s.Live.NodeClaims = []plan.NodeClaim{c.claim}
			if c.pool != nil {
				s.Live.Objects = map[render.Ref]*plan.Object{general: plan.NewObject(c.pool)}
			}
			for range 2 {
				if err := s.reportLostPools(t.Context(), []apply.RecordEntry{{Ref: general, UID: "p1"}}); err != nil {
					t.Fatal(err)
				}
			}
			if got := warnings(s); !strings.HasPrefix(got, c.want+": ") || strings.Count(got, "\n") != 0 {
				t.Errorf("it tells %q, want %s", got, c.want)
			}
		})
	}
}
