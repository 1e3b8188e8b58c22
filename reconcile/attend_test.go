package reconcile

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/fluxcd/pkg/runtime/conditions"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

// TestABrokenHEADKeepsTheBrake shows that a failing rollout is stopped as the spec says whatever is wrong with HEAD,
// even by a daemon that has rendered nothing since it started. Nothing else is written.
func TestABrokenHEADKeepsTheBrake(t *testing.T) {
	for name, breaks := range map[string]func(m *mirror) fstest.MapFS{
		"a file": func(m *mirror) fstest.MapFS { return fstest.MapFS{"prod/plumbline.yaml": {Data: []byte("nope: [")}} },
		"a file beside another version": func(m *mirror) fstest.MapFS {
			files := maps.Clone(m.before)
			files["prod/plumbline.yaml"] = &fstest.MapFile{Data: []byte(strings.Replace(plannedYAML, "1.14.1", "1.8.6", 1))}
			files["prod/nodes/broken.yaml"] = &fstest.MapFile{Data: []byte("nope: [")}
			return files
		},
		"unsigned":  func(m *mirror) fstest.MapFS { m.change(verifying(v1alpha1.VerifyHEAD)); return m.before },
		"no answer": func(m *mirror) fstest.MapFS { m.source.err = errors.New("no route to host"); return m.before },
		"no path":   func(m *mirror) fstest.MapFS { return fstest.MapFS{"README.md": {}} },
	} {
		for _, restarted := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, restarted %t", name, restarted), func(t *testing.T) {
				m := newMirror(t)
				m.changeController(func(d *appsv1.Deployment) { d.Status.ReadyReplicas, d.Status.Replicas = 1, 1 })
				m.passes(m.before)
				if err := m.client.Create(t.Context(), driftedClaim("a-1", "a", m.clock.now())); err != nil {
					t.Fatal(err)
				}
				m.passes(m.before)
				if rollout := m.read().Status.Rollout; rollout == nil || strings.Contains(m.budgets(), "Drifted") {
					t.Fatalf("rollout %+v, budgets %s", rollout, m.budgets())
				}
				m.change(func(n *v1alpha1.NodeSync) {
					n.Spec.Guard.Freeze = []v1alpha1.GuardFreeze{{From: "2000-01-01", To: "2999-12-31", Reason: "audit"}}
				})
				if restarted {
					m.forget(m.pass().name())
				}
				before := m.livePool().GetUID()
				p := m.passes(breaks(m))
				if p.Fault == nil && p.Unfetched == nil {
					t.Fatal("HEAD is not broken")
				}
				sync := m.read()
				if !strings.Contains(m.budgets(), "Drifted") || len(sync.Status.PoolRollouts) != 1 || sync.Status.PoolRollouts[0].Reason != v1alpha1.BrakeFrozen {
					t.Errorf("budgets %s, pools %+v, fault %v", m.budgets(), sync.Status.PoolRollouts, p.Fault)
				}
				if conditions.IsTrue(sync, v1alpha1.RolledOutCondition) || m.livePool().GetUID() != before || !m.is("spot") {
					t.Errorf("RolledOut %+v, pool %v", conditions.Get(sync, v1alpha1.RolledOutCondition), m.livePool())
				}
				m.source.err = nil
				m.change(func(n *v1alpha1.NodeSync) { n.Spec.Guard.Freeze, n.Spec.Source.Git.Verify = nil, nil })
				if m.passes(m.before); strings.Contains(m.budgets(), "Drifted") {
					t.Errorf("after it budgets are %s", m.budgets())
				}
			})
		}
	}
}

// TestABrokenHEADKeepsTheTerminations shows that what is terminating for longer than expected is reported while it is,
// whatever is wrong with HEAD.
func TestABrokenHEADKeepsTheTerminations(t *testing.T) {
	for name, breaks := range map[string]func(m *mirror) fstest.MapFS{
		"a file":    func(*mirror) fstest.MapFS { return fstest.MapFS{"prod/plumbline.yaml": {Data: []byte("nope: [")}} },
		"no path":   func(*mirror) fstest.MapFS { return fstest.MapFS{"README.md": {}} },
		"no answer": func(m *mirror) fstest.MapFS { m.source.err = errors.New("no route to host"); return m.before },
	} {
		t.Run(name, func(t *testing.T) {
			m := newMirror(t)
			m.changeController(func(d *appsv1.Deployment) { d.Status.ReadyReplicas, d.Status.Replicas = 1, 1 })
			claim := driftedClaim("a-1", "a", m.clock.now())
			claim.Finalizers = []string{karpv1.TerminationFinalizer}
			if err := m.client.Create(t.Context(), claim); err != nil {
				t.Fatal(err)
			}
			if err := m.client.Delete(t.Context(), claim); err != nil {
				t.Fatal(err)
			}
			if err := m.client.Get(t.Context(), client.ObjectKeyFromObject(claim), claim); err != nil {
				t.Fatal(err)
			}
			m.clock.at = claim.DeletionTimestamp.Add(time.Hour)
			m.forget(m.pass().name())
			if p := m.passes(breaks(m)); p.Fault == nil && p.Unfetched == nil {
				t.Fatal("HEAD is not broken")
			}
			if status := m.read().Status; len(status.Terminations) != 1 || status.Terminations[0].Name != "a-1" {
				t.Errorf("while it is terminating: %+v", status.Terminations)
			}
			claim.Finalizers = nil
			if err := m.client.Update(t.Context(), claim); err != nil {
				t.Fatal(err)
			}
			m.passes(breaks(m))
			if status := m.read().Status; len(status.Terminations) != 0 || status.StalledTerminations != 0 {
				t.Errorf("once it is gone: %+v", status.Terminations)
			}
		})
	}
}

// TestABrakeThatFailsIsReported shows that a failed brake is reported if HEAD is broken and what is in force cannot be
// read either.
func TestABrakeThatFailsIsReported(t *testing.T) {
	m := newMirror(t)
	c, away := m.Cluster.Client, errors.New("the cache is gone")
	m.Cluster.Client = interceptor.NewClient(m.client, interceptor.Funcs{
		Get: func(ctx context.Context, _ client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			return c.Get(ctx, key, object, options...)
		},
		List: func(ctx context.Context, _ client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if _, is := list.(*appsv1.DeploymentList); is {
				return away
			}
			return c.List(ctx, list, options...)
		},
	})
	m.told()
	p := m.passes(fstest.MapFS{"prod/plumbline.yaml": {Data: []byte("nope: [")}})
	if events := strings.Join(m.told(), "\n"); !strings.Contains(events, "Warning BrakeFailed") || !strings.Contains(events, away.Error()) {
		t.Errorf("events: %s", events)
	}
	if p.Fault == nil || strings.Contains(p.Fault.Error(), away.Error()) {
		t.Errorf("the pass has failed by %v", p.Fault)
	}
	if wake := p.WakeAt.Sub(p.now); wake > time.Minute {
		t.Errorf("it is tried again in %s", wake)
	}
}

// budgets returns the disruption budgets of the live pool.
func (m *mirror) budgets() string {
	budgets, _, err := unstructured.NestedSlice(m.world.server.Object(render.Ref{Kind: render.NodePool, Name: "a"}).Object, "spec", "disruption", "budgets")
	if err != nil {
		m.t.Fatal(err)
	}
	return fmt.Sprint(budgets)
}
