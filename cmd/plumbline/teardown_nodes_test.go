package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// emptiesAtOnce has the NodeSync be drained as soon as that is asked for, and tells what was.
func emptiesAtOnce(s *apiServer, as func(*v1alpha1.NodeSync)) *[]string {
	done := endsAtOnce(s)
	noted := s.patched
	s.patched = func(s *apiServer, path string) {
		noted(s, path)
		if path != leavingPath {
			return
		}
		sync := s.objects[path].(*v1alpha1.NodeSync)
		sync.Status.ObservedGeneration = sync.Generation
		sync.Status.Removals = []v1alpha1.Removal{{Kind: "NodePool", Name: "general", UID: "general", Phase: v1alpha1.RemovalVerifyingCloud, Reason: v1alpha1.ReasonDrained}}
		conditions.MarkTrue(sync, meta.ReadyCondition, v1alpha1.ReasonDrained, "drained")
		as(sync)
	}
	return done
}

// TestTeardownDownToNodes: the NodeSync and its definitions stay, its nodes have to be gone in EC2, and it is said
// how they come back. Said again, it asks AWS once more.
func TestTeardownDownToNodes(t *testing.T) {
	s, kubeconfig, _ := fleetToLeave(t)
	s.objects["/apis/karpenter.k8s.aws/v1/ec2nodeclasses/default"] = map[string]any{
		"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": map[string]any{"name": "default", "uid": "d", "labels": map[string]any{v1alpha1.OwnerLabel: "fleet.prod"}},
	}
	done := emptiesAtOnce(s, func(*v1alpha1.NodeSync) {})
	template := []cloud.Answer{{Kind: cloud.KindLaunchTemplate, Resources: []cloud.Resource{{Kind: cloud.KindLaunchTemplate, ID: "lt-1", Name: "karpenter.k8s.aws/1", Tags: map[string]string{"karpenter.k8s.aws/ec2nodeclass": "default"}}}}}
	aws := &remainsOf{account: "111122223333", answers: [][]cloud.Answer{template}}
	args := []string{"prod", "--yes", "--down-to", "nodes", "--kubeconfig", kubeconfig}
	got := teardownWith(t.Context(), t, aws, args...)
	if want := []string{"patch " + leavingPath}; got.code != exitDone || !slices.Equal(*done, want) {
		t.Errorf("code %d, did %v, want %v: %s\n%s", got.code, *done, want, got.err, got.out)
	}
	for _, want := range []string{"LOSES ITS NODES", "NodePool/general   1", "stays: ", "EC2NodeClass/default of NodeSync fleet.prod", "make no node, until `plumbline resume prod -n fleet`", "nothing is left"} {
		if !strings.Contains(got.out, want) {
			t.Errorf("prints %s\nwant %q in it", got.out, want)
		}
	}
	if strings.Contains(got.out, "NodeSync/prod") || !strings.Contains(got.err, "nodesync/prod: drain is true now") || !strings.Contains(got.err, "nodesync/prod is drained") {
		t.Errorf("says %s\n%s", got.out, got.err)
	}
	again := teardownWith(t.Context(), t, aws, args...)
	if again.code != exitDone || len(*done) != 1 || !strings.Contains(again.err, "nodesync/prod has drain: true already") {
		t.Errorf("again: code %d, did %v: %s", again.code, *done, again.err)
	}
	aws.answers = [][]cloud.Answer{{{Kind: cloud.KindInstance, Resources: []cloud.Resource{{Kind: cloud.KindInstance, ID: "i-1", Tags: map[string]string{"karpenter.sh/nodepool": "general"}}}}}}
	if left := teardownWith(t.Context(), t, aws, append(args, "--timeout", "20ms")...); left.code != exitStalled || !strings.Contains(left.out, "i-1") {
		t.Errorf("an instance that is left: code %d: %s\n%s", left.code, left.out, left.err)
	}
}

// TestTeardownDownToNodesRefuses what would end more than the nodes, or nothing; and it says who has changed the
// NodeSync meanwhile.
func TestTeardownDownToNodesRefuses(t *testing.T) {
	now := metav1.Now()
	for name, c := range map[string]struct {
		before, then func(*v1alpha1.NodeSync)
		says         string
		did          int
	}{
		"it is suspended":     {before: func(n *v1alpha1.NodeSync) { n.Spec.Suspend = true }, says: "nodesync/prod is suspended, and nothing is drained then: `plumbline resume prod -n fleet` first"},
		"it is being deleted": {before: func(n *v1alpha1.NodeSync) { n.DeletionTimestamp = &now }, says: "nodesync/prod is being deleted: its definitions go as well"},
		"resumed meanwhile":   {then: func(n *v1alpha1.NodeSync) { n.Spec.Drain = false }, says: "another client has set drain: false on nodesync/prod", did: 1},
		"suspended meanwhile": {then: func(n *v1alpha1.NodeSync) { n.Spec.Suspend = true }, says: "another client has suspended nodesync/prod", did: 1},
	} {
		t.Run(name, func(t *testing.T) {
			s, kubeconfig, sync := fleetToLeave(t)
			if c.before != nil {
				c.before(sync)
			}
			done := emptiesAtOnce(s, func(n *v1alpha1.NodeSync) {
				if c.then != nil {
					c.then(n)
				}
			})
			aws := &remainsOf{account: "111122223333", answers: [][]cloud.Answer{nothingLeft}}
			got := teardownWith(t.Context(), t, aws, "prod", "--yes", "--down-to", "nodes", "--kubeconfig", kubeconfig)
			if got.code != exitFailed || len(*done) != c.did || !strings.Contains(got.err, c.says) {
				t.Errorf("code %d, did %v, says %s", got.code, *done, got.err)
			}
		})
	}
}
