package reconcile

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// writing returns a reconcile of a NodeSync that is Ready, with a number of changes of a new commit.
func (b *bed) writing(action plan.Action, changes int) *pass {
	p := b.pass()
	p.stages.CRDs.Ready, p.stages.Controller.Ready = true, true
	p.want.Set = &render.Set{}
	p.snapshot = &render.Snapshot{Revision: "main@sha1:" + commit, Commit: commit}
	p.sync.Status.LastAttemptedRevision = p.snapshot.Revision
	p.plan.Plan = &plan.Plan{}
	for i := range changes {
		p.plan.Changes = append(p.plan.Changes, plan.Change{Ref: render.Ref{Kind: render.NodePool, Name: fmt.Sprint("pool-", i)}, Action: action})
	}
	return p
}

// readyBefore makes a NodeSync Ready at another revision.
func readyBefore(n *v1alpha1.NodeSync) {
	n.Status.LastAttemptedRevision = "main@sha1:" + applied
	conditions.MarkTrue(n, meta.ReadyCondition, v1alpha1.ReasonSucceeded, "applied")
}

// TestManyChangesAreAnnounced shows that while many changes are written, the status does not report Ready for the
// previous commit, and the commit status is pending. A few changes are written at once.
func TestManyChangesAreAnnounced(t *testing.T) {
	for name, c := range map[string]struct {
		action    plan.Action
		changes   int
		controls  bool
		announced bool
	}{
		"many":                          {plan.Update, 9, true, true},
		"a few":                         {plan.Update, 8, true, false},
		"many that write nothing":       {plan.Hold, 300, true, false},
		"arrivals without a controller": {plan.Create, 300, false, false},
		"arrivals":                      {plan.Create, 300, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, reporting(readyBefore))
			p := b.writing(c.action, c.changes)
			p.stages.Controller.Ready = c.controls
			if err := p.announce(t.Context()); err != nil {
				t.Fatal(err)
			}
			ready := conditions.Get(b.read(), meta.ReadyCondition)
			if !c.announced {
				if ready.Status != metav1.ConditionTrue || *b.patches != 0 {
					t.Errorf("%d writes: %v", *b.patches, ready)
				}
				return
			}
			want := fmt.Sprintf("applying %d changes of main@sha1:%s", c.changes, commit[:8])
			if ready.Status != metav1.ConditionUnknown || ready.Reason != meta.ProgressingReason || ready.Message != want || !conditions.IsTrue(b.read(), meta.ReconcilingCondition) {
				t.Errorf("Ready = %v", ready)
			}
			if got := b.read().Status.LastAttemptedRevision; got != p.snapshot.Revision {
				t.Errorf("attempted: %s", got)
			}
			if got := b.read().Status.PartlyAppliedRevision; got != p.snapshot.Revision {
				t.Errorf("about to be applied in part: %q", got)
			}
			if got := b.ledger().Commits; len(got) != 1 || got[0].ID != commit || got[0].State != "pending" {
				t.Errorf("the Git hosts are told %+v", got)
			}
			writes := *b.patches
			b.concluded(p)
			if after := b.read(); !conditions.IsTrue(after, meta.ReadyCondition) || *b.patches != writes+1 {
				t.Errorf("after %d writes: %v", *b.patches-writes, after.Status.Conditions)
			}
		})
	}
}

// TestAnOldPassAnnouncesNothing shows that a reconcile writes nothing if another client has changed the NodeSync
// meanwhile.
func TestAnOldPassAnnouncesNothing(t *testing.T) {
	b := newBed(t, nodeSync(readyBefore))
	p := b.writing(plan.Update, 9)
	other := b.read()
	other.Labels = map[string]string{"a": "b"}
	if err := b.client.Update(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	if err := p.announce(t.Context()); err == nil || fault.Classify(err).Class != fault.Superseded {
		t.Errorf("announce() = %v", err)
	}
}

// TestTerminationsAreRecordedBeforeTheyAreWritten shows that nodes that a change lets Karpenter terminate without a
// replacement count for later commits, even if the daemon is killed after the write.
func TestTerminationsAreRecordedBeforeTheyAreWritten(t *testing.T) {
	for name, c := range map[string]struct {
		effect plan.Effect
		period *metav1.Duration
		want   int
	}{
		"fewer replicas":   {effect: plan.EffectDrain, want: 1},
		"replacements":     {effect: plan.EffectReplace},
		"without a period": {effect: plan.EffectDrain, period: &metav1.Duration{}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, nodeSync(func(n *v1alpha1.NodeSync) { n.Spec.Guard.RemovalPeriod = c.period }))
			p := b.writing(plan.Update, 1)
			change := &p.plan.Changes[0]
			change.Effect, change.Nodes, change.Live = c.effect, 3, &unstructured.Unstructured{Object: map[string]any{"kind": render.NodePool}}
			change.Live.SetUID("1")
			change.Object.Defaulted = change.Live
			if err := p.announce(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := b.read().Status.RecentTerminations; len(got) != c.want || c.want > 0 && (got[0].Nodes != 3 || got[0].Revision != p.snapshot.Revision) {
				t.Errorf("status has %+v", got)
			}
		})
	}
}

// TestDisruptionsWaitForTheirRecord shows that changes that disrupt nodes wait while the API server denies the status,
// which records them first. A status that is only too long is recorded without its messages.
func TestDisruptionsWaitForTheirRecord(t *testing.T) {
	for name, c := range map[string]struct {
		refused error
		longer  int // than so many bytes
		want    []string
	}{
		"it is recorded":  {want: []string{"pool-0", "pool-1"}},
		"it is denied":    {refused: apierrors.NewForbidden(schema.GroupResource{Resource: "nodesyncs"}, "prod", errors.New("no")), want: []string{"pool-1"}},
		"it is too long":  {refused: refusals()["etcd"], longer: 3000, want: []string{"pool-0", "pool-1"}},
		"even the record": {refused: refusals()["etcd"], want: []string{"pool-1"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, nodeSync(readyBefore))
			p := b.writing(plan.Update, 2)
			p.plan.Changes[0].Effect, p.plan.Changes[0].Nodes = plan.EffectReplace, 3
			p.sync.Status.Stages = []v1alpha1.StageStatus{{Message: strings.Repeat("long ", 1000)}}
			if c.refused != nil {
				b.refuses(c.longer, c.refused)
			}
			d, err := p.reconciliation.announce(t.Context(), p.outcome().done)
			if err != nil {
				t.Fatal(err)
			}
			var due []string
			for _, change := range p.reconciliation.changesStep(&d).Due() {
				due = append(due, change.Ref.Name)
			}
			recorded := b.read().Status.Rollout != nil
			if diff := cmp.Diff(c.want, due); diff != "" || recorded != (len(c.want) == 2) {
				t.Errorf("recorded: %t, due (-want +got):\n%s", recorded, diff)
			}
		})
	}
}

// TestARolloutThatBeginsIsNotRolledOut shows that RolledOut is False from before the first write, for clients that wait
// for the nodes of a commit.
func TestARolloutThatBeginsIsNotRolledOut(t *testing.T) {
	for name, c := range map[string]struct {
		effect plan.Effect
		want   metav1.ConditionStatus
	}{"nodes are outdated": {plan.EffectDrain, metav1.ConditionFalse}, "none is": {plan.EffectNone, metav1.ConditionTrue}} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, nodeSync(func(n *v1alpha1.NodeSync) {
				readyBefore(n)
				conditions.MarkTrue(n, v1alpha1.RolledOutCondition, v1alpha1.ReasonSucceeded, "each node matches its definitions")
			}))
			p := b.writing(plan.Update, 9)
			p.plan.Changes[0].Effect, p.plan.Changes[0].Nodes = c.effect, 3
			if err := p.announce(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := conditions.Get(b.read(), v1alpha1.RolledOutCondition); got.Status != c.want {
				t.Errorf("RolledOut is %s: %s", got.Status, got.Message)
			}
		})
	}
}
