package reconcile

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// lends makes Karpenter replace nodes of the pool for a removal that is in progress.
func (m *mirror) lends() {
	m.t.Helper()
	at := m.clock.now().Add(4 * time.Minute).UTC()
	pool := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "karpenter.sh/v1", "kind": render.NodePool, "metadata": map[string]any{"name": "a"},
		"spec": map[string]any{
			"limits":   map[string]any{"cpu": "0"},
			"template": map[string]any{"metadata": map[string]any{"labels": map[string]any{v1alpha1.LeavingLabel: "20260101T000000Z"}}},
			"disruption": map[string]any{"budgets": []any{
				map[string]any{"nodes": "0", "reasons": []any{"Drifted"}, "schedule": fmt.Sprintf("%d %d %d %d *", at.Minute(), at.Hour(), at.Day(), int(at.Month())), "duration": "8640h"},
				map[string]any{"nodes": "1", "reasons": []any{"Drifted"}},
			}},
		},
	}}
	err := m.Cluster.Client.Apply(m.t.Context(), client.ApplyConfigurationFromUnstructured(pool), client.FieldOwner(v1alpha1.RemovalFieldManager), client.ForceOwnership)
	if err != nil {
		m.t.Fatal(err)
	}
	sync := m.read()
	sync.Status.Removals = []v1alpha1.Removal{{Kind: render.NodePool, Name: "a", UID: m.livePool().GetUID(), Phase: v1alpha1.RemovalDraining, RecordedAt: metav1.NewTime(m.clock.now())}}
	if err := m.client.Status().Update(m.t.Context(), sync); err != nil {
		m.t.Fatal(err)
	}
}

const leasedOne = "map[nodes:1 reasons:[Drifted]]"

// TestWhatIsLentIsCalledBack shows that each reconcile that does not proceed with the removals revokes the budgets:
// otherwise Karpenter would replace one node after another, whatever has started since.
func TestWhatIsLentIsCalledBack(t *testing.T) {
	for name, stops := range map[string]func(m *mirror) fstest.MapFS{
		"HEAD is broken": func(*mirror) fstest.MapFS { return fstest.MapFS{"prod/plumbline.yaml": {Data: []byte("nope: [")}} },
		"Git does not answer after a restart": func(m *mirror) fstest.MapFS {
			m.forget(m.pass().name())
			m.source.err = errors.New("no route to host")
			return m.before
		},
		"it is unsigned": func(m *mirror) fstest.MapFS { m.change(verifying(v1alpha1.VerifyHEAD)); return m.before },
		"it is suspended": func(m *mirror) fstest.MapFS {
			m.change(func(n *v1alpha1.NodeSync) { n.Spec.Suspend = true })
			return m.before
		},
		"a window is no window": func(m *mirror) fstest.MapFS {
			m.change(func(n *v1alpha1.NodeSync) {
				n.Spec.Guard.Windows = []v1alpha1.GuardWindow{{Schedule: "0 9 * * *", TimeZone: "Nowhere/Land"}}
			})
			return m.before
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMirror(t)
			m.lends()
			if !strings.Contains(m.budgets(), leasedOne) {
				t.Fatalf("budgets %s", m.budgets())
			}
			m.passes(stops(m))
			if !strings.Contains(m.budgets(), "map[nodes:0 reasons:[Drifted]]") || strings.Contains(m.budgets(), leasedOne) || !strings.Contains(fmt.Sprint(m.livePool()), v1alpha1.LeavingLabel) {
				t.Errorf("budgets %s of %v", m.budgets(), m.livePool())
			}
		})
	}
}

// TestARefusedChangeRestoresThePool shows that a pool whose removal is in progress, and which is in Git again with a class
// that does not exist, is as before its removal, although its change is refused.
func TestARefusedChangeRestoresThePool(t *testing.T) {
	m := newMirror(t)
	m.lends()
	typo := maps.Clone(m.before)
	typo["prod/nodes/pool.yaml"] = &fstest.MapFile{Data: []byte(poolText("a", "defualt", "{key: karpenter.sh/capacity-type, operator: In, values: [spot]}"))}
	p := m.passes(typo)
	pool := fmt.Sprint(m.livePool())
	if p.Unwritten == nil || strings.Contains(m.budgets(), "Drifted") || strings.Contains(pool, v1alpha1.LeavingLabel) || strings.Contains(pool, "cpu:0") {
		t.Errorf("unwritten %v, budgets %s of %s", p.Unwritten, m.budgets(), pool)
	}
	if removals := m.read().Status.Removals; len(removals) != 1 || !removals[0].Returned() || removals[0].Stalled != nil {
		t.Errorf("removals %+v", removals)
	}
}

// TestWhatIsLentIsCalledBackWhereNoPassIsMade shows the same if other NodeSyncs of the repository use all lanes.
func TestWhatIsLentIsCalledBackWhereNoPassIsMade(t *testing.T) {
	m := newMirror(t)
	m.lends()
	m.lanes.Among(2)
	m.lanes.Enter(m.read().Spec.Source.Address(), types.NamespacedName{Name: "other"})
	m.reconcile()
	if strings.Contains(m.budgets(), leasedOne) {
		t.Errorf("budgets %s", m.budgets())
	}
}

// TestWhatIsLentIsCalledBackAmidASlowPass shows that a slow reconcile revokes the budgets, and a fast one does not.
func TestWhatIsLentIsCalledBackAmidASlowPass(t *testing.T) {
	m := newMirror(t)
	m.lends()
	synctest.Test(t, func(t *testing.T) {
		p := m.pass()
		ended := p.leasedBudgets().unless(t.Context())
		time.Sleep(10 * time.Second) //nolint:forbidigo // the bubble's time
		if synctest.Wait(); !strings.Contains(m.budgets(), leasedOne) {
			t.Errorf("after 10 s budgets are %s", m.budgets())
		}
		time.Sleep(10 * time.Second) //nolint:forbidigo // the bubble's time
		synctest.Wait()
		ended()
		if strings.Contains(m.budgets(), leasedOne) {
			t.Errorf("after 20 s budgets are %s", m.budgets())
		}
	})
}

// opensWave has a wave of one node in progress in the pool, with its lease.
func (m *mirror) opensWave() {
	m.t.Helper()
	m.passes(m.with(map[string]string{"pool.yaml": poolText("a", "default", onDemandOnly)}))
	if w := m.wave(); w == nil || w.State != v1alpha1.WaveOpen || !strings.Contains(m.budgets(), leasedOne) {
		m.t.Fatalf("budgets %s in wave %+v", m.budgets(), w)
	}
}

// TestALeaseOfAWaveIsRevoked shows that each reconcile that does not supervise an open wave closes it, also one that cannot
// read the cluster, and one that finds no free lane.
func TestALeaseOfAWaveIsRevoked(t *testing.T) {
	for name, stops := range map[string]func(m *mirror){
		"HEAD is broken": func(m *mirror) { m.passes(fstest.MapFS{"prod/plumbline.yaml": {Data: []byte("nope: [")}}) },
		"it is suspended": func(m *mirror) {
			m.change(func(n *v1alpha1.NodeSync) { n.Spec.Suspend = true })
			m.passes(m.source.files)
		},
		"other NodeSyncs of the repository use all lanes": func(m *mirror) {
			m.lanes.Among(2)
			m.lanes.Enter(m.read().Spec.Source.Address(), types.NamespacedName{Name: "other"})
			m.reconcile()
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := newWaving(t)
			m.opensWave()
			stops(m)
			if budgets := m.budgets(); strings.Contains(budgets, leasedOne) || !strings.Contains(budgets, "map[nodes:0 reasons:[Drifted]]") {
				t.Errorf("budgets %s", budgets)
			}
		})
	}
}

// TestALeaseOfAWaveIsRevokedAmidASlowReconcile shows that a slow reconcile closes an open wave, and a fast one does not.
func TestALeaseOfAWaveIsRevokedAmidASlowReconcile(t *testing.T) {
	m := newWaving(t)
	m.opensWave()
	synctest.Test(t, func(t *testing.T) {
		ended := m.pass().leasedBudgets().unless(t.Context())
		time.Sleep(10 * time.Second) //nolint:forbidigo // the bubble's time
		if synctest.Wait(); !strings.Contains(m.budgets(), leasedOne) {
			t.Errorf("after 10 s budgets are %s", m.budgets())
		}
		time.Sleep(10 * time.Second) //nolint:forbidigo // the bubble's time
		synctest.Wait()
		ended()
		if strings.Contains(m.budgets(), leasedOne) {
			t.Errorf("after 20 s budgets are %s", m.budgets())
		}
	})
	m.passes(m.source.files)
	if !strings.Contains(m.budgets(), leasedOne) {
		t.Errorf("once reconciles supervise the wave again, budgets are %s", m.budgets())
	}
}

// TestARevertSettles shows that nodes that Karpenter has not started to replace stay, even if it takes a while until it
// finds that they match. The pool matches Git at once except for its disruption budgets, which are restored afterwards.
func TestARevertSettles(t *testing.T) {
	for name, matches := range map[string]bool{"nodes that match": true, "nodes that have drifted by themselves": false} {
		t.Run(name, func(t *testing.T) {
			m := newMirror(t)
			git := m.budgets()
			pool := &karpv1.NodePool{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(m.world.server.Object(render.Ref{Kind: render.NodePool, Name: "a"}).Object, pool); err != nil {
				t.Fatal(err)
			}
			claim := driftedClaim("a-1", "a", m.clock.now())
			claim.Annotations = map[string]string{karpv1.NodePoolHashAnnotationKey: pool.Hash(), karpv1.NodePoolHashVersionAnnotationKey: karpv1.NodePoolHashVersion}
			if !matches {
				claim.Annotations[karpv1.NodePoolHashAnnotationKey] = "1"
			}
			if err := m.client.Create(t.Context(), claim); err != nil {
				t.Fatal(err)
			}
			m.lends()
			m.reconcile()
			if left := fmt.Sprint(m.livePool()); strings.Contains(left, v1alpha1.LeavingLabel) || !strings.Contains(m.budgets(), "map[nodes:0 reasons:[Drifted]]") || strings.Contains(m.budgets(), leasedOne) {
				t.Errorf("budgets %s of %s", m.budgets(), left)
			}
			for range 3 {
				m.clock.forward(2 * time.Second)
				m.reconcile()
			}
			if settles := m.budgets() != git; settles != matches {
				t.Errorf("after 6 s budgets are %s, and in Git %s", m.budgets(), git)
			}
			p := m.pass()
			p.take(t.Context(), nil)
			waits := slices.ContainsFunc(p.plan.Changes, func(c plan.Change) bool { return c.Action == plan.Wait && c.Reason == plan.ReasonSettling })
			if waits != matches || len(p.sync.Status.Removals) > 0 {
				t.Errorf("changes %+v, removals %+v", p.plan.Changes, p.sync.Status.Removals)
			}
			claim.Status.Conditions = nil
			if err := m.client.Update(t.Context(), claim); err != nil {
				t.Fatal(err)
			}
			m.clock.forward(2 * time.Second)
			m.reconcile()
			m.reconcile()
			if fields := fmt.Sprint(m.livePool()); m.budgets() != git || strings.Contains(fields, v1alpha1.RemovalFieldManager) {
				t.Errorf("in the end budgets are %s of %s", m.budgets(), fields)
			}
		})
	}
}
