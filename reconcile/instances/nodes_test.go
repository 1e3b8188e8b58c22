package instances

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/termination"
)

// TestNodesThatNobodyHas: of the NodeSync's pools and of those that are gone, without a NodeClaim and an instance.
func TestNodesThatNobodyHas(t *testing.T) {
	settled := metav1.Unix(1000, 0)
	node := func(name, pool, id string, change ...func(*corev1.Node)) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.Unix(1, 0), Labels: map[string]string{karpv1.NodePoolLabelKey: pool}}}
		if id != "" {
			n.Spec.ProviderID = "aws:///eu-west-1a/" + id
		}
		for _, c := range change {
			c(n)
		}
		return n
	}
	terminating := func(n *corev1.Node) {
		at := metav1.Unix(500, 0)
		n.DeletionTimestamp, n.Finalizers = &at, []string{karpv1.TerminationFinalizer}
	}
	system := node("system", "", "i-0123456789abcdef0")
	system.Labels = nil
	fleet := Fleet{
		Pools: map[string]bool{"general": true}, Others: map[string]bool{"theirs": true}, Settled: settled.Time,
		Claims: []plan.NodeClaim{{Node: "claimed"}},
		Shown:  []cloud.Instance{{ID: "i-00000000000000001", State: "running"}, {ID: "i-00000000000000002", State: "terminated"}, {ID: "i-00000000000000007", State: "shutting-down"}},
	}
	q := &question{fleet: fleet, cluster: clusterOf(t,
		system, node("claimed", "general", "i-00000000000000009"), node("runs", "general", "i-00000000000000001"), node("theirs", "theirs", "i-00000000000000003"),
		node("ended", "general", "i-00000000000000002"), node("unknown", "gone", "i-00000000000000004"), node("bare", "general", ""),
		node("leaving", "general", "i-00000000000000006", terminating), node("leaving-too", "general", "i-00000000000000001", terminating),
		node("leaving-last", "general", "i-00000000000000002", terminating), node("leaving-bare", "general", "", terminating),
		node("leaving-first", "general", "i-00000000000000007", terminating),
		node("new", "general", "i-00000000000000005", func(n *corev1.Node) { n.CreationTimestamp = metav1.Unix(2000, 0) }),
	)}
	found, err := q.nodes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	says := func(name string) string {
		return "Node " + name + " is there, and neither a NodeClaim nor an instance in EC2: kubectl delete node " + name
	}
	want := []v1alpha1.DriftedInstance{
		{ID: "bare", Pool: "general", Message: says("bare")}, {ID: "i-00000000000000002", Pool: "general", Message: says("ended")}, {ID: "i-00000000000000004", Pool: "gone", Message: says("unknown")},
	}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	left := []termination.Left{
		{Kind: termination.Node, Name: "leaving", Pool: "general", Instance: "i-00000000000000006", Since: time.Unix(500, 0)},
		{Kind: termination.Node, Name: "leaving-bare", Pool: "general", Instance: "leaving-bare", Since: time.Unix(500, 0)},
		{Kind: termination.Node, Name: "leaving-first", Pool: "general", Instance: "i-00000000000000007", Since: time.Unix(500, 0)},
		{Kind: termination.Node, Name: "leaving-last", Pool: "general", Instance: "i-00000000000000002", Gone: true, Since: time.Unix(500, 0)},
		{Kind: termination.Node, Name: "leaving-too", Pool: "general", Instance: "i-00000000000000001", Since: time.Unix(500, 0)},
	}
	if diff := cmp.Diff(left, q.left); diff != "" {
		t.Errorf("terminating (-want +got):\n%s", diff)
	}
}

// TestInstancesThatShutDown: those of the NodeSync's pools that no NodeClaim has, since they were first seen so.
func TestInstancesThatShutDown(t *testing.T) {
	is := func(id, state, pool string) cloud.Instance {
		return cloud.Instance{ID: id, Zone: "eu-west-1a", State: state, Pool: pool}
	}
	claimed := is("i-00000000000000005", "shutting-down", "general")
	q := &question{
		now: time.Unix(1000, 0), leftBefore: []termination.Left{{Kind: termination.Instance, Name: "i-00000000000000001", Since: time.Unix(900, 0)}},
		fleet: Fleet{
			Pools: map[string]bool{"general": true}, Others: map[string]bool{"theirs": true}, Claims: []plan.NodeClaim{{ProviderID: claimed.ProviderID()}},
			Shown: []cloud.Instance{
				is("i-00000000000000001", "shutting-down", "general"), is("i-00000000000000002", "shutting-down", "gone"), is("i-00000000000000003", "shutting-down", "theirs"),
				is("i-00000000000000004", "terminated", "general"), claimed,
			},
		},
	}
	want := []termination.Left{
		{Kind: termination.Instance, Name: "i-00000000000000001", Instance: "i-00000000000000001", Pool: "general", Since: time.Unix(900, 0)},
		{Kind: termination.Instance, Name: "i-00000000000000002", Instance: "i-00000000000000002", Pool: "gone", Since: time.Unix(1000, 0)},
	}
	if diff := cmp.Diff(want, q.shuttingDown()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
