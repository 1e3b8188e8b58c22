package reconcile

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/apply"
	"github.com/plumbline-dev/plumbline/reconcile/apply/applytest"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/source"
	"github.com/plumbline-dev/plumbline/render"
)

// mirror is a Git host whose replicas serve a commit, and the one before it.
type mirror struct {
	*bed
	world         *plannedWorld
	shared        *plannedShelf
	before, after fstest.MapFS
}

// newMirror has the previous commit applied in the cluster. The new one changes a value of the chart and a template.
func newMirror(t *testing.T) *mirror {
	t.Helper()
	shared := newPlannedShelf(t)
	commitWith := func(values, capacity string) fstest.MapFS {
		return fstest.MapFS{
			"prod/plumbline.yaml":   {Data: []byte(plannedYAML + values)},
			"prod/nodes/class.yaml": {Data: []byte(plannedClass)},
			"prod/nodes/pool.yaml":  {Data: []byte(poolText("a", "default", "{key: karpenter.sh/capacity-type, operator: In, values: ["+capacity+"]}"))},
		}
	}
	m := &mirror{shared: shared, before: commitWith("", "spot"), after: commitWith("values: {replicas: 3}\n", "on-demand")}
	m.world = &plannedWorld{server: applytest.New(t), files: m.before, sync: nodeSync(func(n *v1alpha1.NodeSync) {
		n.Spec.Guard.AllowUnverifiedAccount, n.Spec.Timeout = true, &metav1.Duration{Duration: time.Hour}
	})}
	m.world.install(shared.identity)
	m.bed = m.world.bed(t, shared)
	m.changeController(func(d *appsv1.Deployment) {
		d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "controller", Env: []corev1.EnvVar{{Name: "DISABLE_LEADER_ELECTION", Value: "true"}}}}
	})
	m.passes(m.before)
	return m
}

func (m *mirror) changeController(change func(*appsv1.Deployment)) {
	m.t.Helper()
	d := running("1.14.1")
	err := m.client.Get(m.t.Context(), client.ObjectKeyFromObject(d), d)
	if err == nil {
		change(d)
		err = m.client.Update(m.t.Context(), d)
	}
	if err != nil {
		m.t.Fatal(err)
	}
}

// passes runs some reconciles of a commit, which is newer than all but those listed, and returns the last one.
func (m *mirror) passes(files fstest.MapFS, olderThan ...string) *pass {
	m.t.Helper()
	m.source.files, m.source.orders = files, nil
	for _, revision := range olderThan {
		m.source.orders = map[string]source.Order{render.CommitOf(revision): source.OrderOlder}
	}
	m.clock.forward(m.read().Spec.Interval.Duration)
	var p *pass
	for range 6 {
		m.clock.forward(time.Second)
		p = m.pass()
		p.take(m.t.Context(), nil)
		if _, err := p.conclude(m.t.Context()); err != nil {
			m.t.Fatal(err)
		}
	}
	return p
}

func (m *mirror) livePool() client.Object {
	return m.world.server.Object(render.Ref{Kind: render.NodePool, Name: "a"})
}

// is reports whether the pool has a capacity type.
func (m *mirror) is(capacity string) bool {
	return strings.Contains(fmt.Sprint(m.livePool()), capacity)
}

// TestPlanAndPassOfAnOlderCommit shows that both hold its charts and its template, and what it does not contain if the
// record is lost.
func TestPlanAndPassOfAnOlderCommit(t *testing.T) {
	m := newMirror(t)
	const older = "HEAD is, or may be, older than the applied revision"
	for name, c := range map[string]struct {
		withheld *v1alpha1.Withheld
		recorded *apply.Record
		charts   string
		pool     string
	}{
		"older":                {withheld: &v1alpha1.Withheld{Reason: v1alpha1.ReasonOlderRevision, Revision: nextRevision, From: "main@sha1:0"}, recorded: &apply.Record{Pools: map[string]bool{"d": true}, Revision: "main@sha1:0"}, charts: older, pool: "Remove NodePool/d " + v1alpha1.ReasonOlderRevision},
		"newer":                {recorded: &apply.Record{Pools: map[string]bool{"d": true}, Revision: "main@sha1:0"}, pool: "Remove NodePool/d :"},
		"the record is lost":   {pool: "Remove NodePool/d " + v1alpha1.ReasonStatusLost},
		"the record is before": {recorded: &apply.Record{Revision: "main@sha1:0"}, pool: "Remove NodePool/d " + v1alpha1.ReasonStatusLost},
	} {
		t.Run(name, func(t *testing.T) {
			w := &plannedWorld{server: applytest.New(t), files: m.after, recorded: c.recorded, sync: nodeSync(func(n *v1alpha1.NodeSync) {
				n.Spec.Guard.AllowUnverifiedAccount = true
				n.Status.LastAppliedRevision, n.Status.Withheld = "main@sha1:0", c.withheld
			})}
			w.install(m.shared.identity)
			object := w.server.Definition(t, poolText("d", "default", "{key: karpenter.sh/capacity-type, operator: In, values: [spot]}")).Desired
			object.SetLabels(map[string]string{v1alpha1.OwnerLabel: namespace + ".prod"})
			if err := w.server.ApplyAs(t.Context(), object, v1alpha1.FieldManager, true); err != nil {
				t.Fatal(err)
			}
			passed, diff := w.compare(t, m.shared)
			if diff != "" {
				t.Fatal(diff)
			}
			if c.charts == "" != (passed.ChartsRefused == "") || !strings.Contains(passed.ChartsRefused, c.charts) {
				t.Errorf("charts refused: %q, want %q", passed.ChartsRefused, c.charts)
			}
			if !slices.ContainsFunc(passed.Changes, func(line string) bool { return strings.HasPrefix(line, c.pool) }) {
				t.Errorf("changes %q, want %q", passed.Changes, c.pool)
			}
		})
	}
}

// TestAMirrorThatAlternates shows that a mirror that alternates between two commits changes charts and templates only
// once. A newer commit that reverts the change is applied at once.
func TestAMirrorThatAlternates(t *testing.T) {
	m := newMirror(t)
	m.passes(m.after)
	claim := claimOf("a", m.livePool().GetUID(), 0)
	claim.Labels["karpenter.sh/capacity-type"] = "on-demand"
	if err := m.client.Create(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	changed := m.install.Asked[charts.ControllerChart]
	if changed == 0 || !m.is("on-demand") {
		t.Fatalf("the charts were installed %d times, and the pool is %v", changed, m.livePool())
	}
	for range 3 {
		p := m.passes(m.before, m.read().Status.LastAppliedRevision)
		if p.Fault != nil || p.NotUpgraded == nil || !strings.Contains(p.NotUpgraded.Error(), "HEAD is, or may be, older") {
			t.Fatalf("fault %v, charts %v", p.Fault, p.NotUpgraded)
		}
		if got := p.plan.Changes; len(got) != 1 || got[0].Action != plan.Hold || got[0].Reason != v1alpha1.ReasonOlderRevision {
			t.Fatalf("changes %+v", got)
		}
		if p := m.passes(m.after); p.Fault != nil || p.NotUpgraded != nil || len(p.plan.Changes) > 0 {
			t.Fatalf("fault %v, charts %v, changes %+v", p.Fault, p.NotUpgraded, p.plan.Changes)
		}
	}
	if got := m.install.Asked[charts.ControllerChart]; got != changed || !m.is("on-demand") {
		t.Errorf("the charts were installed %d times more, and the pool is %v", got-changed, m.livePool())
	}
	m.passes(m.before) // git revert
	if m.install.Asked[charts.ControllerChart] == changed || !m.is("spot") {
		t.Errorf("the charts were installed %d times, and the pool is %v", m.install.Asked[charts.ControllerChart], m.livePool())
	}
}

// TestAMirrorThatAlternatesAmidARollout shows that only the charts of the newer commit are applied.
func TestAMirrorThatAlternatesAmidARollout(t *testing.T) {
	m := newMirror(t)
	m.changeController(func(d *appsv1.Deployment) { d.Generation = 2 })
	p := m.passes(m.after)
	target, changed := m.read().Status.Karpenter.Target, m.install.Asked[charts.ControllerChart]
	if target == nil || target.Step != v1alpha1.ChartRollingOut || changed == 0 {
		t.Fatalf("the change is at %+v: %v", target, p.Fault)
	}
	if got := m.read().Status.PartlyAppliedRevision; got != p.snapshot.Revision {
		t.Fatalf("partly applied: %q, want %s", got, p.snapshot.Revision)
	}
	p = m.passes(m.before, p.snapshot.Revision)
	if p.Fault == nil || p.Fault.Reason != v1alpha1.ReasonHeld || !strings.Contains(p.Fault.Error(), "HEAD is, or may be, older") {
		t.Errorf("fault %v", p.Fault)
	}
	if got := m.read().Status.Karpenter.Target; got == nil || got.Identity != target.Identity || got.Step == v1alpha1.ChartChecking || m.install.Asked[charts.ControllerChart] != changed {
		t.Errorf("the change is at %+v, and the charts were installed %d times more", got, m.install.Asked[charts.ControllerChart]-changed)
	}
}
