package reconcile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/apply/applytest"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/removal"
	"github.com/plumbline-dev/plumbline/reconcile/status"
	"github.com/plumbline-dev/plumbline/render"
	renderschema "github.com/plumbline-dev/plumbline/render/schema"
)

// refuses makes the API server refuse each status that is longer than a limit.
func (b *bed) refuses(limit int, err error) {
	b.Client = interceptor.NewClient(b.client, interceptor.Funcs{SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
		if data, _ := json.Marshal(obj.(*v1alpha1.NodeSync).Status); len(data) > limit {
			return err
		}
		return c.SubResource(sub).Patch(ctx, obj, patch, opts...)
	}})
}

// refusals are the ways in which an API server reports that a status is too much.
func refusals() map[string]error {
	kind := schema.GroupKind{Group: v1alpha1.GroupVersion.Group, Kind: v1alpha1.NodeSyncKind}
	return map[string]error{
		"invalid":         apierrors.NewInvalid(kind, "prod", nil),
		"the body":        apierrors.NewRequestEntityTooLargeError("limit is 3145728"),
		"etcd":            apierrors.NewInternalError(errors.New("etcdserver: request is too large")),
		"the way to etcd": apierrors.NewInternalError(errors.New("rpc error: code = ResourceExhausted desc = trying to send message larger than max (2110000 vs. 2097152)")),
	}
}

// TestARefusedStatusIsSaid shows that the API server gets a minimal status: not Ready, with the complete removals,
// which depend on it.
func TestARefusedStatusIsSaid(t *testing.T) {
	for name, refusal := range refusals() {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, reporting(unchanged))
			registry := metered(b)
			b.concluded(b.pass(), removals(v1alpha1.RemovalDraining))
			b.refuses(8000, refusal)
			found := []found{poolsLeaving(20, v1alpha1.RemovalPacing, 1, strings.Repeat("long ", 90)), func(p *pass) {
				p.snapshot = &render.Snapshot{Revision: "main@sha1:" + commit, Commit: commit}
				p.want.Karpenter = &render.Karpenter{Cluster: render.Cluster{Name: "prod-eu"}}
				p.WakeBy(p.now)
			}}
			again := b.concluded(b.pass(), found...)
			sync := b.read()
			ready := conditions.Get(sync, meta.ReadyCondition)
			if ready.Status != metav1.ConditionFalse || ready.Reason != v1alpha1.ReasonStatusNotWritten || !strings.Contains(ready.Message, "without their messages") {
				t.Errorf("ready: %+v", ready)
			}
			if len(sync.Status.Removals) != 21 || sync.Status.Removals[20].Name != "general-purpose-19" || sync.Status.Removals[0].Phase != v1alpha1.RemovalDraining {
				t.Errorf("%d removals are recorded", len(sync.Status.Removals))
			}
			if again != time.Minute {
				t.Errorf("again in %s: it was refused, and may be at once", again)
			}
			if got := series(t, registry)["plumbline_status_writes_failed_total{name=prod,namespace=plumbline-system}"]; got != 1 {
				t.Errorf("%v refusals are counted", got)
			}
			if got := b.queued(); len(got) != 1 || !strings.Contains(got[0], "failure: the API server refuses the status") {
				t.Errorf("the commit status: %v", got)
			}

			version := sync.ResourceVersion
			b.clock.forward(time.Hour)
			b.concluded(b.pass(), func(p *pass) { p.sync.Status.Removals = p.sync.Status.Removals[:1] }, found[0], found[1])
			if b.read().ResourceVersion != version {
				t.Error("it is refused as before, and written again")
			}

			b.Client = b.client
			b.concluded(b.pass(), func(p *pass) { p.sync.Status.Removals = nil })
			if !conditions.IsReady(b.read()) {
				t.Errorf("the API server takes it again: %+v", conditions.Get(b.read(), meta.ReadyCondition))
			}
		})
	}
}

// TestRemovalsThatCannotBeRecordedDoNotBegin shows this; the previous removals stay.
func TestRemovalsThatCannotBeRecordedDoNotBegin(t *testing.T) {
	b := newBed(t, nodeSync(unchanged))
	b.concluded(b.pass(), removals(v1alpha1.RemovalDraining))
	b.refuses(3000, refusals()["etcd"])
	b.concluded(b.pass(), poolsLeaving(100, v1alpha1.RemovalPacing, 1, "why"))
	sync := b.read()
	if len(sync.Status.Removals) != 1 || sync.Status.Removals[0].Name != "a" {
		t.Errorf("recorded: %+v", sync.Status.Removals)
	}
	if ready := conditions.Get(sync, meta.ReadyCondition); ready.Reason != v1alpha1.ReasonStatusNotWritten || !strings.Contains(ready.Message, "removals do not begin, as they cannot be recorded (100 removals)") {
		t.Errorf("ready: %+v", ready)
	}
}

// TestWhatIsRecordedBeforeAWriteStays shows that a minimal status does not lose the record that something of other
// inputs was written.
func TestWhatIsRecordedBeforeAWriteStays(t *testing.T) {
	b := newBed(t, nodeSync(func(n *v1alpha1.NodeSync) {
		n.Status.LastAppliedRevision, n.Status.LastAppliedInputs = "main@sha1:0", "1"
	}))
	p := b.pass()
	p.sync.Status.LastAttemptedRevision, p.sync.Status.PartlyAppliedInputs = "main@sha1:1", "2"
	conclusion := p.conclusion()
	if recorded, err := conclusion.Record(t.Context()); !recorded || err != nil {
		t.Fatal(recorded, err)
	}
	if got := b.read().Status; got.PartlyAppliedInputs != "2" || got.LastAttemptedRevision != "" {
		t.Errorf("before the write: %+v", got)
	}
	p.did = conclusion.Work
	p.sync.Status.LastAppliedRevision, p.sync.Status.LastAppliedInputs, p.sync.Status.PartlyAppliedInputs = "main@sha1:1", "2", ""
	b.refuses(3000, refusals()["etcd"])
	b.concluded(p, poolsLeaving(100, v1alpha1.RemovalPacing, 1, "why"))
	if got := b.read().Status; got.LastAppliedRevision != "main@sha1:0" || got.LastAppliedInputs != "1" || got.PartlyAppliedInputs != "2" {
		t.Errorf("applied %s of %q, and partly %q", got.LastAppliedRevision, got.LastAppliedInputs, got.PartlyAppliedInputs)
	}
}

// TestWhatAPassGoesByIsStored shows that a minimal status keeps this: a rollout that is stopped stays stopped, used
// approvals stay used, and no notification is sent twice.
func TestWhatAPassGoesByIsStored(t *testing.T) {
	at := metav1.NewTime(time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC))
	b := newBed(t, nodeSync(func(n *v1alpha1.NodeSync) {
		n.Spec.Notify = []v1alpha1.Notify{{Name: "chat", Type: v1alpha1.NotifySlack}}
		n.Status.PoolRollouts = []v1alpha1.PoolRollout{{Pool: "a", Reason: v1alpha1.BrakeFailedLaunches, Message: "3 launches in a row", BrakedAt: &at, Since: at}}
		n.Status.UsedApprovals, n.Status.UsedGitApprovals = []types.UID{"1"}, []string{"sha256:1"}
	}))
	f := &fakeNotices{}
	b.Notices = f
	b.refuses(5000, refusals()["etcd"])
	for range 3 {
		b.concluded(b.pass(), func(p *pass) { p.sync.Status.Removals = nil }, poolsLeaving(10, v1alpha1.RemovalHeld, 1, strings.Repeat("long ", 90)))
		b.clock.forward(time.Minute)
	}
	status := b.read().Status
	if ready := conditions.Get(b.read(), meta.ReadyCondition); ready.Reason != v1alpha1.ReasonStatusNotWritten {
		t.Errorf("ready: %+v", ready)
	}
	if !status.BrakedPools()["a"] || status.PoolRollouts[0].Message != "3 launches in a row" || len(status.UsedApprovals) != 1 || len(status.UsedGitApprovals) != 1 {
		t.Errorf("stored: pools %+v, approvals %v and %v", status.PoolRollouts, status.UsedApprovals, status.UsedGitApprovals)
	}
	if len(f.sent) != 1 {
		t.Errorf("notified of %v", f.sent)
	}
}

// TestFiveHundredPoolsRemoved shows that the removals of one commit are all recorded, in a status that etcd accepts and
// that does not grow quadratically.
func TestFiveHundredPoolsRemoved(t *testing.T) {
	const n = 500
	live := plan.Live{Objects: map[render.Ref]*plan.Object{}}
	var pools []client.Object
	for i := range n {
		pool := appliedPool(fmt.Sprintf("general-purpose-with-a-rather-long-name-%03d", i))
		live.Objects[render.Ref{Kind: render.NodePool, Name: pool.GetName()}] = plan.NewObject(pool)
		pools = append(pools, pool)
	}
	p := newBed(t, nodeSync(func(n *v1alpha1.NodeSync) { n.Status.LastAppliedRevision = "main@sha1:0" }), pools...).pass()
	p.live = live
	validator, err := renderschema.New(applytest.CRDs())
	if err != nil {
		t.Fatal(err)
	}
	kept := appliedPool("kept")
	p.want.Set = &render.Set{Revision: "main@sha1:1", Objects: []render.Object{{Ref: render.Ref{Kind: render.NodePool, Name: "kept"}, Desired: kept, Defaulted: kept}}}
	p.snapshot, p.want.Schema = &render.Snapshot{Revision: p.want.Set.Revision, Commit: "1"}, validator
	if err := p.makePlan(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.stages.CRDs.Ready = true
	if err := p.removesServed((*removal.Step).Run)(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.summarize(t.Context())
	data, err := json.Marshal(p.sync)
	if err != nil {
		t.Fatal(err)
	}
	if len(p.sync.Status.Removals) != n || p.sync.Status.OpenRemovals != 0 {
		t.Errorf("%d removals, %d of them open", len(p.sync.Status.Removals), p.sync.Status.OpenRemovals)
	}
	if len(data) > 600<<10 {
		t.Errorf("the NodeSync has %d bytes", len(data))
	}
	for _, c := range p.sync.Status.Conditions {
		if len(c.Message) > 4<<10 {
			t.Errorf("condition %s has %d bytes", c.Type, len(c.Message))
		}
	}
}

// appliedPool returns a NodePool that plumbline has applied for NodeSync prod.
func appliedPool(name string) *unstructured.Unstructured {
	kind, _ := render.KindOf(render.NodePool)
	pool := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{}}}
	pool.SetGroupVersionKind(kind.GVK)
	pool.SetName(name)
	pool.SetUID(types.UID("uid-of-" + name))
	pool.SetLabels(map[string]string{v1alpha1.OwnerLabel: namespace + ".prod"})
	fields := &metav1.FieldsV1{}
	fields.SetRawBytes([]byte(`{"f:metadata":{"f:labels":{"f:plumbline.dev/nodesync":{}}}}`))
	pool.SetManagedFields([]metav1.ManagedFieldsEntry{{
		Manager: v1alpha1.FieldManager, Operation: metav1.ManagedFieldsOperationApply, APIVersion: "karpenter.sh/v1", FieldsType: "FieldsV1",
		FieldsV1: fields,
	}})
	return pool
}

// TestATooLongMessageIsNoNews shows that a message is truncated in the same way each time.
func TestATooLongMessageIsNoNews(t *testing.T) {
	b := newBed(t, nodeSync(unchanged))
	long := stopped(t, errors.New(strings.Repeat("a rather long line\n", 4000)))
	b.concluded(b.pass(), long)
	version := b.read().ResourceVersion
	if got := len(conditions.GetMessage(b.read(), meta.ReadyCondition)); got > status.MaxMessage {
		t.Errorf("the condition has %d bytes", got)
	}
	for _, e := range b.told() {
		if len(e) > 1024+100 {
			t.Errorf("an event has %d bytes", len(e))
		}
	}
	b.clock.forward(time.Hour)
	b.concluded(b.pass(), long)
	if got := b.read().ResourceVersion; got != version {
		t.Error("nothing has changed, and it is written")
	}
	if got := b.told(); len(got) > 0 {
		t.Errorf("nothing has changed, and it is told: %d events", len(got))
	}
}
