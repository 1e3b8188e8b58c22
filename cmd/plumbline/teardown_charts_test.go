package main

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// TestTeardownOfAClassInUse: if a kept pool references a class to delete, the command refuses before it changes
// anything.
func TestTeardownOfAClassInUse(t *testing.T) {
	for name, c := range map[string]struct {
		class  string
		begun  bool
		args   []string
		denied bool
	}{
		"its class":                 {"default", false, nil, true},
		"another class":             {"theirs", false, nil, false},
		"only nodes go":             {"default", false, []string{"--down-to", "nodes"}, false},
		"a teardown that has begun": {"default", true, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			s, kubeconfig, sync := fleetToLeave(t)
			s.objects["/apis/karpenter.k8s.aws/v1/ec2nodeclasses/default"] = map[string]any{
				"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass",
				"metadata": map[string]any{"name": "default", "uid": "default", "labels": map[string]any{v1alpha1.OwnerLabel: "fleet.prod"}},
			}
			other := s.objects["/apis/karpenter.sh/v1/nodepools/other"].(map[string]any)
			other["metadata"].(map[string]any)["labels"] = map[string]any{v1alpha1.OwnerLabel: "fleet.theirs"}
			other["spec"] = map[string]any{"template": map[string]any{"spec": map[string]any{"nodeClassRef": map[string]any{"name": c.class}}}}
			if c.begun {
				now := metav1.NewTime(time.Now())
				sync.DeletionTimestamp, sync.Finalizers, sync.Spec.OnDelete = &now, []string{v1alpha1.Finalizer}, v1alpha1.OnDeleteDrain
			}
			aws := &remainsOf{account: "111122223333", answers: [][]cloud.Answer{nothingLeft}}
			got := teardownWith(t.Context(), t, aws, append([]string{"prod", "--kubeconfig", kubeconfig, "--timeout", "10ms"}, c.args...)...)
			const says = "EC2NodeClass/default would be deleted with nodesync/prod, but NodePool/other of NodeSync fleet.theirs stays and references it: tear that down first, or use --down-to nodes. Nothing was changed"
			if denied := strings.Contains(got.err, says); denied != c.denied || c.denied && got.code != exitFailed {
				t.Errorf("code %d, says %s", got.code, got.err)
			}
		})
	}
}
