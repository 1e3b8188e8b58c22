package reconcile

import (
	"errors"
	"strings"
	"testing"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// drainedOnly returns a NodeSync that loses its nodes and nothing else.
func drainedOnly(t *testing.T, change func(*v1alpha1.NodeSync)) *bed {
	t.Helper()
	return leaving(t, func(n *v1alpha1.NodeSync) {
		n.DeletionTimestamp, n.Spec.Drain = nil, true
		change(n)
	})
}

func (b *bed) cpuLimit() string {
	b.t.Helper()
	cpu, _, _ := unstructured.NestedString(b.livePool().Object, "spec", "limits", "cpu")
	return cpu
}

// TestDrainKeepsTheDefinitions shows that the nodes are terminated, verified in EC2; the pool stays without growth,
// nothing is fetched, and nothing is written again while nothing changes.
func TestDrainKeepsTheDefinitions(t *testing.T) {
	b := drainedOnly(t, unchanged)
	b.reconcile()
	if b.cpuLimit() != "100" || b.liveClaim().DeletionTimestamp != nil {
		t.Error("the pass that records acts on it")
	}
	b.passes("the NodeClaim is ended", func() bool { return b.liveClaim().DeletionTimestamp != nil })
	b.endClaim()
	for range 4 {
		b.clock.forward(b.Settings.CloudInterval * 2)
		b.reconcile()
	}
	if ready := conditions.GetReason(b.read(), meta.ReadyCondition); ready != v1alpha1.ReasonRemoving {
		t.Errorf("EC2 still shows the instance, and Ready is %s", ready)
	}
	b.cloud.running[0].State = "terminated"
	drained := func() bool {
		sync := b.read()
		return conditions.IsReady(sync) && conditions.GetReason(sync, meta.ReadyCondition) == v1alpha1.ReasonDrained
	}
	b.passes("it is drained", drained)
	sync := b.read()
	if b.livePool() == nil || b.cpuLimit() != "0" || sync.Status.OpenRemovals != 0 || conditions.Has(sync, v1alpha1.RemovingCondition) {
		t.Errorf("the pool may grow to %s; %+v", b.cpuLimit(), sync.Status)
	}
	for range 3 {
		b.clock.forward(sync.GetStallAfter())
		b.reconcile()
	}
	if again := b.read(); again.ResourceVersion != sync.ResourceVersion || !drained() {
		t.Errorf("written again: %+v", again.Status)
	}
	if len(b.source.requests) > 0 {
		t.Errorf("fetched: %v", b.source.requests)
	}

	// Deleted with onDelete: Drain, everything else is deleted, too.
	sync = b.read()
	sync.Spec.OnDelete = v1alpha1.OnDeleteDrain
	if err := b.client.Update(t.Context(), sync); err != nil {
		t.Fatal(err)
	}
	if err := b.client.Delete(t.Context(), b.read()); err != nil {
		t.Fatal(err)
	}
	b.passes("the NodeSync goes", func() bool { return !b.exists() })
	if b.livePool() != nil {
		t.Error("the pool is still there")
	}
}

// TestADrainThatIsSuspended shows that it terminates nothing.
func TestADrainThatIsSuspended(t *testing.T) {
	b := drainedOnly(t, func(n *v1alpha1.NodeSync) { n.Spec.Suspend = true })
	for range 3 {
		b.reconcile()
	}
	if b.cpuLimit() != "100" || b.liveClaim().DeletionTimestamp != nil || len(b.read().Status.Removals) > 0 {
		t.Errorf("it drains: %+v", b.read().Status)
	}
}

// TestDrainedAndLetGo shows that the pool may grow as before after a deletion with onDelete: Orphan.
func TestDrainedAndLetGo(t *testing.T) {
	b := drainedOnly(t, unchanged)
	b.passes("its growth is stopped", func() bool { return b.cpuLimit() == "0" })
	if err := b.client.Delete(t.Context(), b.read()); err != nil {
		t.Fatal(err)
	}
	b.passes("the NodeSync goes", func() bool { return !b.exists() })
	if b.cpuLimit() != "100" {
		t.Errorf("the pool may grow to %s\n%s", b.cpuLimit(), strings.Join(b.told(), "\n"))
	}
}

// TestADrainForgetsTheNodes shows that reports about nodes that are terminated are removed, and that the drain is
// reported.
func TestADrainForgetsTheNodes(t *testing.T) {
	b := drainedOnly(t, func(n *v1alpha1.NodeSync) {
		n.Status.Rollout = &v1alpha1.Rollout{Nodes: 3, Outdated: 2}
		n.Status.LaunchFailing = []v1alpha1.LaunchFailure{{Pool: "general", Message: "no capacity"}}
		n.Status.Instances = &v1alpha1.InstanceDrift{Count: 1}
		for _, of := range []string{v1alpha1.RolledOutCondition, v1alpha1.LaunchFailingCondition, v1alpha1.InstanceDriftCondition, v1alpha1.NodeDriftCondition, v1alpha1.VolumesLeftCondition} {
			conditions.MarkTrue(n, of, "Before", "before")
		}
	})
	b.reconcile()
	sync := b.read()
	if sync.Status.Rollout != nil || sync.Status.LaunchFailing != nil || sync.Status.Instances != nil {
		t.Errorf("says of nodes: %+v", sync.Status)
	}
	for _, c := range sync.Status.Conditions {
		if c.Reason == "Before" {
			t.Errorf("still says %s", c.Type)
		}
	}
	for _, of := range []string{meta.ReadyCondition, v1alpha1.RemovingCondition} {
		if got := conditions.GetMessage(sync, of); !strings.HasPrefix(got, "draining NodePool/general: ") {
			t.Errorf("%s: %s", of, got)
		}
	}
}

// TestDrainedAndSuspended shows that no removal is reported as paused if the drain is complete.
func TestDrainedAndSuspended(t *testing.T) {
	b := drainedOnly(t, func(n *v1alpha1.NodeSync) {
		n.Spec.Suspend = true
		n.Status.Removals = []v1alpha1.Removal{{Kind: "NodePool", Name: "general", UID: "p1", Phase: v1alpha1.RemovalVerifyingCloud, Reason: v1alpha1.ReasonDrained}}
		conditions.MarkTrue(n, meta.ReadyCondition, v1alpha1.ReasonDrained, "drained")
	})
	b.reconcile()
	if sync := b.read(); conditions.Has(sync, v1alpha1.RemovingCondition) || !conditions.IsReady(sync) {
		t.Errorf("says %+v", sync.Status.Conditions)
	}
}

// TestADrainDoesNotEndWhatCarriesItOut shows that a drain of the nodes that run Karpenter or the daemon is held, and
// that the message says how to proceed.
func TestADrainDoesNotEndWhatCarriesItOut(t *testing.T) {
	b := drainedOnly(t, unchanged)
	pod := &corev1.Pod{}
	if err := b.client.Get(t.Context(), client.ObjectKey{Namespace: "kube-system", Name: "karpenter-a"}, pod); err != nil {
		t.Fatal(err)
	}
	pod.Spec.NodeName = "node-1"
	if err := b.client.Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		b.clock.forward(b.Settings.CloudInterval * 2)
		b.reconcile()
	}
	message := conditions.GetMessage(b.read(), meta.ReadyCondition)
	if b.liveClaim().DeletionTimestamp != nil || b.cpuLimit() != "100" || !strings.HasPrefix(message, "held: drain of NodePool/general: its nodes run Karpenter's controller") || !strings.Contains(message, "set drain: false to keep the nodes") {
		t.Errorf("limit %s, %s", b.cpuLimit(), message)
	}
}

// TestADrainedNodeSyncAnswers shows that it reports what it has in Git to a NodeSync that loses an entry, even while
// AWS does not answer: the entry may have moved here.
func TestADrainedNodeSyncAnswers(t *testing.T) {
	b := drainedOnly(t, unchanged)
	b.cloud.err = errors.New("AWS is away")
	b.pass() // it is recorded
	asks := nodeSync(func(n *v1alpha1.NodeSync) { n.Name, n.UID, n.Status.LastAppliedRevision = "gpu", "12", "main@sha1:0" })
	moves := ownedPool()
	moves.SetName("moves")
	moves.SetUID("p2")
	moves.SetLabels(map[string]string{v1alpha1.OwnerLabel: namespace + ".gpu"})
	p := b.begin(asks)
	p.live = plan.Live{Objects: map[render.Ref]*plan.Object{{Kind: render.NodePool, Name: "moves"}: plan.NewObject(moves)}}
	stays := appliedPool("stays")
	p.want.Set = &render.Set{Revision: "main@sha1:1", Objects: []render.Object{{Ref: render.Ref{Kind: render.NodePool, Name: "stays"}, Desired: stays, Defaulted: stays}}}
	p.snapshot, p.want.Schema = &render.Snapshot{Revision: p.want.Set.Revision, Commit: "1"}, nil
	if err := p.makePlan(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(p.plan.Kept) != 1 {
		t.Fatalf("%+v, want an entry that waits to know what the other has", p.plan.Plan)
	}
	b.reconcile()
	if len(b.source.requests) != 1 {
		t.Errorf("%d fetches, want that of the answer", len(b.source.requests))
	}
}
