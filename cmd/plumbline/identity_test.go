package main

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// inConflict is a NodeSync whose cluster's name another Karpenter uses.
func inConflict(n *v1alpha1.NodeSync) {
	at := metav1.NewTime(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	n.Status.Karpenter = &v1alpha1.KarpenterStatus{Cluster: "demo", Region: "eu-west-1", ClusterARN: "arn:aws:eks:eu-west-1:111122223333:cluster/demo"}
	n.Status.IdentityConflict = &v1alpha1.IdentityConflict{
		Since: at, LastSign: at, Proven: true, Endpoints: []string{"https://theirs"}, Evidence: []string{"instance i-x was launched"}, Ours: 3, Theirs: 1, Terminated: 2,
		Response: &v1alpha1.IdentityResponse{
			Protected: []string{"i-1"}, Stopped: &v1alpha1.StoppedController{Namespace: "kube-system", Name: "karpenter", Replicas: 2}, Failure: "denied",
		},
	}
}

// TestIdentity prints the evidence, what was done, and the policies; it advises to delete nothing.
func TestIdentity(t *testing.T) {
	_, kubeconfig := serve(t, nodeSync("prod", inConflict))
	const role = "arn:aws:iam::111122223333:role/KarpenterControllerRole-demo"
	got := plumbline(t, "identity", "prod", "--controller-role", role, "--kubeconfig", kubeconfig)
	if got.code != exitDone {
		t.Fatalf("code %d, says %q", got.code, got.err)
	}
	for _, want := range []string{
		"another Karpenter uses the name demo", "2026-03-01T12:00:00Z", "https://theirs", "3 of this cluster run, 1 others; 2 of this cluster were terminated",
		"instance i-x was launched", "protected from termination (1)", "Deployment kube-system/karpenter is scaled to 0; it had 2 replicas", "not done: denied",
		`"aws:ResourceTag/kubernetes.io/cluster/demo": "owned"`, role, "setting:     Freeze",
	} {
		if !strings.Contains(got.out, want) {
			t.Errorf("%q is missing in\n%s", want, got.out)
		}
	}
	if got = plumbline(t, "identity", "prod", "--kubeconfig", kubeconfig); strings.Contains(got.out, "ArnNotLike") {
		t.Errorf("a service control policy without an exception:\n%s", got.out)
	}
	if got = plumbline(t, "identity", "prod", "--controller-role", "karpenter", "--kubeconfig", kubeconfig); got.code == exitDone || !strings.Contains(got.err, "want an ARN") {
		t.Errorf("code %d, says %q", got.code, got.err)
	}
}

// TestIdentityResolved writes the time, after which only new signs count; without a conflict, nothing.
func TestIdentityResolved(t *testing.T) {
	s, kubeconfig := serve(t, nodeSync("prod", inConflict), nodeSync("quiet"))
	before := time.Now().Truncate(time.Second)
	got := plumbline(t, "identity", "prod", "--resolved", "--kubeconfig", kubeconfig)
	at, err := time.Parse(time.RFC3339, s.objects[syncPath+"prod"].(*v1alpha1.NodeSync).Annotations[v1alpha1.IdentityResolvedAnnotation])
	if got.code != exitDone || err != nil || !at.After(before) || at.Sub(before) > time.Minute {
		t.Errorf("code %d, says %q; at %s: %v", got.code, got.err, at, err)
	}
	got = plumbline(t, "identity", "quiet", "--resolved", "--kubeconfig", kubeconfig)
	if got.code != exitDone || len(s.objects[syncPath+"quiet"].(*v1alpha1.NodeSync).Annotations[v1alpha1.IdentityResolvedAnnotation]) > 0 {
		t.Errorf("code %d, says %q", got.code, got.err)
	}
}
