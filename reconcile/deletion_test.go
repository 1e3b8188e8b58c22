package reconcile

import (
	"context"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/reconcile/account"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/apply"
	"github.com/plumbline-dev/plumbline/reconcile/status"
)

// livePool returns the pool in the cluster; nil if there is none.
func (b *bed) livePool() *unstructured.Unstructured {
	b.t.Helper()
	u := ownedPool()
	err := b.client.Get(b.t.Context(), client.ObjectKey{Name: "general"}, u)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		b.t.Fatal(err)
	}
	return u
}

// liveClaim returns the NodeClaim in the cluster; nil if there is none.
func (b *bed) liveClaim() *karpv1.NodeClaim {
	b.t.Helper()
	claim := &karpv1.NodeClaim{}
	err := b.client.Get(b.t.Context(), client.ObjectKey{Name: "general-1"}, claim)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		b.t.Fatal(err)
	}
	return claim
}

// endClaim does what Karpenter does once the node is drained.
func (b *bed) endClaim() {
	b.t.Helper()
	claim := b.liveClaim()
	claim.Finalizers = nil
	if err := b.client.Update(b.t.Context(), claim); err != nil {
		b.t.Fatal(err)
	}
}

// exists reports whether the NodeSync still exists.
func (b *bed) exists() bool {
	b.t.Helper()
	err := b.client.Get(b.t.Context(), client.ObjectKey{Namespace: namespace, Name: "prod"}, &v1alpha1.NodeSync{})
	if client.IgnoreNotFound(err) != nil {
		b.t.Fatal(err)
	}
	return err == nil
}

// passes runs reconciles until a condition holds or there were too many.
func (b *bed) passes(what string, until func() bool) {
	b.t.Helper()
	for range 12 {
		if until() {
			return
		}
		b.clock.forward(2 * time.Second)
		b.reconcile()
	}
	if !until() {
		b.t.Fatalf("%s: not after 12 passes; %+v\n%s", what, b.read().Status, strings.Join(b.told(), "\n"))
	}
}

func TestDeleteWithDrain(t *testing.T) {
	b := leaving(t, func(n *v1alpha1.NodeSync) { n.Spec.OnDelete, n.Spec.Suspend = v1alpha1.OnDeleteDrain, true })

	b.reconcile()
	recorded := b.read().Status.Removals
	if len(recorded) != 1 || recorded[0].UID != "p1" || recorded[0].Revision != "deleted" || recorded[0].Phase != v1alpha1.RemovalPacing {
		t.Fatalf("recorded: %+v", recorded)
	}
	if cpu, _, _ := unstructured.NestedString(b.livePool().Object, "spec", "limits", "cpu"); cpu != "100" || b.liveClaim().DeletionTimestamp != nil {
		t.Error("the pass that records acts on it")
	}

	b.passes("the NodeClaim is ended", func() bool { return b.liveClaim().DeletionTimestamp != nil })
	if cpu, _, _ := unstructured.NestedString(b.livePool().Object, "spec", "limits", "cpu"); cpu != "0" {
		t.Errorf("the pool may grow to %s while it leaves", cpu)
	}
	b.endClaim()
	for range 4 {
		b.clock.forward(2 * time.Second)
		b.reconcile()
	}
	if b.livePool() == nil || !b.exists() || b.read().Status.Removals[0].Phase != v1alpha1.RemovalVerifyingCloud {
		t.Fatalf("EC2 still shows the instance; %+v", b.read().Status.Removals)
	}
	b.cloud.running[0].State = "terminated"
	b.passes("the NodeSync goes", func() bool { return !b.exists() })
	if b.livePool() != nil {
		t.Error("the pool is still there")
	}
	if told := strings.Join(b.told(), "\n"); !strings.Contains(told, "NodePool/general is deleted, and EC2 has terminated all instances of it") || !strings.Contains(told, "the deletion is concluded") {
		t.Errorf("told:\n%s", told)
	}
	if len(b.source.requests) > 0 {
		t.Error("a deletion fetches")
	}
}

// TestDrainWaitsForTheCloud shows that an account that cannot be queried keeps the NodeSync, and is reported.
func TestDrainWaitsForTheCloud(t *testing.T) {
	b := leaving(t, func(n *v1alpha1.NodeSync) { n.Spec.OnDelete = v1alpha1.OnDeleteDrain })
	b.cloud.err = &cloud.DeniedError{Action: "ec2:DescribeInstances", Err: errUnreachable}
	for range 6 {
		b.clock.forward(2 * time.Second)
		b.reconcile()
	}
	if !b.exists() || b.livePool() == nil || b.liveClaim().DeletionTimestamp != nil {
		t.Fatal("something was ended")
	}
	if r := b.read().Status.Removals; len(r) != 1 || r[0].Reason != v1alpha1.ReasonCloudUnverified {
		t.Errorf("removals: %+v", r)
	}
}

// TestDrainWaitsForTheController shows that a drain waits for Karpenter's controller: only it can remove its
// finalizers.
func TestDrainWaitsForTheController(t *testing.T) {
	b := leaving(t, func(n *v1alpha1.NodeSync) { n.Spec.OnDelete = v1alpha1.OnDeleteDrain })
	deployment := &appsv1.Deployment{}
	if err := b.client.Get(t.Context(), client.ObjectKey{Namespace: "kube-system", Name: "karpenter"}, deployment); err != nil {
		t.Fatal(err)
	}
	zero := int32(0)
	deployment.Spec.Replicas = &zero // its pod may still be ready for a while
	if err := b.client.Update(t.Context(), deployment); err != nil {
		t.Fatal(err)
	}
	for range 6 {
		b.clock.forward(2 * time.Second)
		b.reconcile()
	}
	if b.liveClaim().DeletionTimestamp != nil {
		t.Error("a NodeClaim is ended with nobody to end it")
	}
	if r := b.read().Status.Removals; len(r) != 1 || !strings.Contains(r[0].Message, "deployment/karpenter is scaled to 0") {
		t.Errorf("removals: %+v", r)
	}
	b.clock.forward(15 * time.Minute)
	b.reconcile()
	v := b.pass().verdict()
	if v.Class != status.Stuck || v.Reason != v1alpha1.ReasonStalled || !strings.Contains(v.Message, "NodePool/general stalled") {
		t.Errorf("after 15 minutes: %+v", v)
	}
}

// TestDrainWaitsForTheLeader shows that a drain waits if the leader's pod was just deleted while the Deployment still
// reports a ready replica.
func TestDrainWaitsForTheLeader(t *testing.T) {
	b := leaving(t, func(n *v1alpha1.NodeSync) { n.Spec.OnDelete = v1alpha1.OnDeleteDrain })
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "karpenter-a"}}
	if err := b.client.Delete(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	for range 6 {
		b.clock.forward(2 * time.Second)
		b.reconcile()
	}
	if b.liveClaim().DeletionTimestamp != nil {
		t.Error("a NodeClaim is ended with nobody to end it")
	}
	if r := b.read().Status.Removals; len(r) != 1 || r[0].Phase != v1alpha1.RemovalPacing || !strings.Contains(r[0].Message, "no pod of Karpenter's controller in kube-system is Ready") {
		t.Errorf("removals: %+v", r)
	}
	if err := b.client.Create(t.Context(), leader()[0]); err != nil {
		t.Fatal(err)
	}
	b.passes("the NodeClaim is ended", func() bool { return b.liveClaim().DeletionTimestamp != nil })
}

// TestDrainOfNothing shows that no account is needed if nothing was ever applied.
func TestDrainOfNothing(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(*v1alpha1.NodeSync)
		prepare func(*bed)
	}{
		"its source was never read":    {func(n *v1alpha1.NodeSync) { n.Status = v1alpha1.NodeSyncStatus{} }, func(*bed) {}},
		"its account cannot be dialed": {unchanged, func(b *bed) { b.recordApplied(apply.Record{}) }},
	} {
		t.Run(name, func(t *testing.T) {
			b := leaving(t, func(n *v1alpha1.NodeSync) {
				n.Spec.OnDelete = v1alpha1.OnDeleteDrain
				c.change(n)
			})
			c.prepare(b)
			b.Cluster.Clouds.Dial = func(context.Context, string) (account.Cloud, error) { return nil, errUnreachable }
			pool := b.livePool()
			pool.SetLabels(nil)
			if err := b.client.Update(t.Context(), pool); err != nil {
				t.Fatal(err)
			}
			b.passes("the NodeSync goes", func() bool { return !b.exists() })
			if b.livePool() == nil {
				t.Error("another's pool was taken away")
			}
		})
	}
}

// TestDrainWithoutARegion shows that nothing is deleted if the status is lost and the account is therefore unknown, and
// that the NodeSync reports why.
func TestDrainWithoutARegion(t *testing.T) {
	b := leaving(t, func(n *v1alpha1.NodeSync) {
		n.Spec.OnDelete, n.Status = v1alpha1.OnDeleteDrain, v1alpha1.NodeSyncStatus{}
	})
	for range 6 {
		b.clock.forward(2 * time.Second)
		b.reconcile()
	}
	if !b.exists() || b.livePool() == nil || b.liveClaim().DeletionTimestamp != nil {
		t.Fatal("something was ended")
	}
	if r := b.read().Status.Removals; len(r) != 1 || r[0].Message == "" {
		t.Errorf("removals: %+v", r)
	}
}

func TestDeleteWithOrphan(t *testing.T) {
	b := leaving(t, unchanged)
	b.passes("the NodeSync goes", func() bool { return !b.exists() })
	pool := b.livePool()
	if pool == nil || b.liveClaim() == nil || b.liveClaim().DeletionTimestamp != nil {
		t.Fatal("something was ended")
	}
	if labels := pool.GetLabels(); len(labels) != 1 || labels["team"] != "a" {
		t.Errorf("labels %v, want ours off and the other left", labels)
	}
	if cpu, _, _ := unstructured.NestedString(pool.Object, "spec", "limits", "cpu"); cpu != "100" {
		t.Errorf("limits %s", cpu)
	}
	if b.cloud.asked > 0 {
		t.Error("AWS was asked: leaving nodes alone needs no account")
	}
}

// TestOrphanAmidARemoval shows that growth is restored, and that nodes that are not terminated yet stay.
func TestOrphanAmidARemoval(t *testing.T) {
	b := leaving(t, func(n *v1alpha1.NodeSync) { n.Spec.OnDelete = v1alpha1.OnDeleteDrain })
	stopped := func() bool {
		cpu, _, _ := unstructured.NestedString(b.livePool().Object, "spec", "limits", "cpu")
		return cpu == "0"
	}
	b.passes("growth is stopped", stopped)
	sync := b.read()
	sync.Spec.OnDelete = v1alpha1.OnDeleteOrphan
	if err := b.client.Update(t.Context(), sync); err != nil {
		t.Fatal(err)
	}
	b.passes("the NodeSync goes", func() bool { return !b.exists() })
	if stopped() || len(b.livePool().GetLabels()) != 1 {
		t.Errorf("left: %v", b.livePool().Object)
	}
}
