package reconcile

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/reconcile/account"
)

// TestNoInstanceIsMissingInAnotherAccount: EC2 is queried for nodes only once the account is known to be the cluster's.
func TestNoInstanceIsMissingInAnotherAccount(t *testing.T) {
	for name, c := range map[string]struct {
		verdict *cloud.Verdict
		dials   bool
	}{
		"no verdict":      {},
		"another account": {verdict: &cloud.Verdict{}},
		"verified":        {verdict: &cloud.Verdict{OK: true}, dials: true},
	} {
		dialed := false
		dial := verifiedCloud(c.verdict, func(context.Context, string) (account.Cloud, error) { dialed = true; return nil, nil })
		if _, err := dial(t.Context(), "eu-west-1"); dialed != c.dials || (err == nil) != c.dials {
			t.Errorf("%s: EC2 is queried: %v, error %v", name, dialed, err)
		}
	}
}

// TestNodesNotReady names the NotReady nodes that use up the disruption budgets of a NodePool.
func TestNodesNotReady(t *testing.T) {
	node := func(name, pool, initialized string, ready corev1.ConditionStatus) *corev1.Node {
		return &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{karpv1.NodePoolLabelKey: pool, karpv1.NodeInitializedLabelKey: initialized}},
			Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}},
		}
	}
	reader := fake.NewClientBuilder().WithObjects(
		node("ready", "a", "true", corev1.ConditionTrue), node("broken", "a", "true", corev1.ConditionFalse),
		node("unreachable", "a", "true", corev1.ConditionUnknown), node("starting", "a", "", corev1.ConditionFalse),
		node("another", "b", "true", corev1.ConditionFalse),
	).Build()
	got, err := nodesNotReady(t.Context(), reader, "a")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"broken", "unreachable"}, got); diff != "" {
		t.Errorf("NotReady nodes (-want +got):\n%s", diff)
	}
}
