package main

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// outdated makes Karpenter mark a node as drifted.
func outdated(s *apiServer, claim, node string) {
	s.objects["/apis/karpenter.sh/v1/nodeclaims/"+claim].(map[string]any)["status"] = map[string]any{"nodeName": node, "conditions": []any{
		map[string]any{"type": "Drifted", "status": "True", "reason": "AMIDrift", "lastTransitionTime": midday},
	}}
}

// TestDriftNamesMissingNodes: it lists those that a static pool has lost without a commit, but not failed launches.
func TestDriftNamesMissingNodes(t *testing.T) {
	at := metav1.NewTime(midday.Add(-time.Hour))
	for name, c := range map[string]struct {
		lost bool
		code int
	}{"lost": {true, exitChanges}, "not launched": {false, exitDone}} {
		sync := verdicts()["in-sync"]
		sync.Status.LaunchFailing = []v1alpha1.LaunchFailure{{Pool: "pool-00", Missing: "1 of 2 nodes of NodePool/pool-00", Message: "its Node was deleted", Lost: c.lost, Since: &at}}
		_, kubeconfig := serve(t, sync)
		got := plumbline(t, "drift", "prod", "--kubeconfig", kubeconfig)
		if got.code != c.code || strings.Contains(got.out, "1 of 2 nodes of NodePool/pool-00") != c.lost {
			t.Errorf("%s: code %d, %s%s", name, got.code, got.out, got.err)
		}
	}
}

// TestDrift lists objects that another client has changed, drifted nodes of this NodeSync's pools only, and instances.
func TestDrift(t *testing.T) {
	sync := verdicts()["in-sync"]
	_, kubeconfig := serve(t, sync)
	if got := plumbline(t, "drift", "prod", "--kubeconfig", kubeconfig); got.code != exitDone || got.out != "no drift: no other client has changed the definitions of nodesync/prod, and Karpenter has found no drifted node\n" {
		t.Errorf("none: code %d, %q, %q", got.code, got.out, got.err)
	}
	at := metav1.NewTime(midday.Add(-time.Hour))
	corrected := metav1.NewTime(midday.Time)
	sync.Status.Drift = []v1alpha1.DriftedObject{
		{Kind: "NodePool", Name: "pool-00", Message: "spec.limits.cpu: 100 → 200", By: []string{"kubectl-edit"}, Since: at},
		{Kind: "EC2NodeClass", Name: "default", Message: "deleted", Since: at, CorrectedAt: &corrected},
	}
	sync.Status.Instances = &v1alpha1.InstanceDrift{Failure: "AWS denies ec2:DescribeSecurityGroups", Count: 2, Instances: []v1alpha1.DriftedInstance{
		{ID: "i-0a", NodeClaim: "pool-00-0", Pool: "pool-00", Message: `tag team is "b", and "a" by EC2NodeClass/default`, Since: at},
		{ID: "i-0b", Pool: "pool-00", Message: "it has no NodeClaim and is running: if nobody needs it, end it in EC2", Since: at},
	}}
	sync.Status.Rollout = &v1alpha1.Rollout{Since: at, LastProgress: at, Nodes: 1, Outdated: 1, Reasons: []string{"AMIDrift"}, Inputs: []v1alpha1.DriftInput{
		{Pool: "pool-00", Reason: "AMIDrift", From: "ami-0123456789abcdef0", To: "ami-0123456789abcdef1 (al2023@latest)"},
	}}
	s, kubeconfig := serve(t, sync)
	pools(s, 2, 2)
	outdated(s, "pool-00-0", "ip-1")
	outdated(s, "pool-01-0", "ip-1")
	delete(s.objects["/apis/karpenter.sh/v1/nodepools/pool-01"].(map[string]any)["metadata"].(map[string]any), "labels")
	for _, format := range []string{"table", "markdown"} {
		got := plumbline(t, "drift", "nodesync/prod", "-o", format, "--kubeconfig", kubeconfig)
		if got.code != exitChanges || got.err != "" {
			t.Errorf("%s: code %d, %q", format, got.code, got.err)
		}
		golden(t, "drift."+format, got.out)
	}
	got := plumbline(t, "drift", "prod", "-o", "json", "--kubeconfig", kubeconfig)
	var report driftReport
	if err := json.Unmarshal([]byte(got.out), &report); err != nil || got.code != exitChanges || len(report.Objects) != 2 || len(report.Nodes) != 1 || len(report.Instances) != 2 || report.InstancesUnavailable == "" || report.Nodes[0].Reason != "AMIDrift" {
		t.Errorf("code %d, %v: %s", got.code, err, got.out)
	}
}

// TestDriftIsUnknown while definitions are not compared with Git; it lists what was found before, and says so.
func TestDriftIsUnknown(t *testing.T) {
	for name, want := range map[string]string{
		"invalid":   "main@sha1:89abcdef is not applied",
		"retrying":  "Git is unreachable, and may have a newer commit than main@sha1:01234567: fetch https://git.example.com/acme/fleet.git: no route to host",
		"suspended": "it is suspended and no longer compared with Git: plumbline resume prod",
		"new":       "it is not reconciled yet",
		"changed":   "it is not reconciled yet",
		"requested": "the reconciliation that was requested has not been handled",
		"unwritten": "the API server denies each write of this NodeSync's status",
		"ahead":     "was attempted, and main@sha1:01234567 is applied",
		"deleted":   "it is being deleted",
	} {
		sync := verdicts()[name]
		_, kubeconfig := serve(t, sync)
		got := plumbline(t, "drift", "prod", "--kubeconfig", kubeconfig)
		if got.code != exitFailed || got.out != "" || !strings.Contains(got.err, "drift is unknown: ") || !strings.Contains(got.err, want) {
			t.Errorf("%s: code %d, %q, %q", name, got.code, got.out, got.err)
		}
		sync.Status.Drift = []v1alpha1.DriftedObject{{Kind: "NodePool", Name: "pool-00", Message: "spec.weight: 1 → 2", Since: midday}}
		_, kubeconfig = serve(t, sync)
		if got := plumbline(t, "drift", "prod", "--kubeconfig", kubeconfig); got.code != exitChanges || !strings.HasPrefix(got.out, "objects are shown as of the last comparison: ") || !strings.Contains(got.out, want) {
			t.Errorf("%s, with an object: code %d, %q, %q", name, got.code, got.out, got.err)
		}
	}
}

// TestInstancesThatCannotBeCompared are no success: it is unknown whether any differs.
func TestInstancesThatCannotBeCompared(t *testing.T) {
	sync := verdicts()["in-sync"]
	sync.Status.Instances = &v1alpha1.InstanceDrift{Failure: "AWS denies ec2:DescribeInstances", NotComparedSince: &midday}
	_, kubeconfig := serve(t, sync)
	got := plumbline(t, "drift", "prod", "--kubeconfig", kubeconfig)
	if want := "instances not compared with EC2 since "; got.code != exitFailed || !strings.HasPrefix(got.out, want) || !strings.Contains(got.err, "drift of instances is unknown") {
		t.Errorf("code %d, %q, %q", got.code, got.out, got.err)
	}
}

// TestDriftWithoutADaemon: its status is out of date.
func TestDriftWithoutADaemon(t *testing.T) {
	s, kubeconfig := serve(t, verdicts()["in-sync"])
	s.objects[leasePath] = leaseOf("pod-1", time.Hour)
	got := plumbline(t, "drift", "prod", "--kubeconfig", kubeconfig)
	want := regexp.MustCompile(`drift is unknown: no daemon leads: lease fleet/plumbline of pod-1 expired \S+ ago\n$`)
	if got.code != exitFailed || got.out != "" || !want.MatchString(got.err) {
		t.Errorf("code %d, %q, %q", got.code, got.out, got.err)
	}
}

// TestDriftOfNodesThatKarpenterHasNotFoundYet lists nodes that so far only plumbline has found.
func TestDriftOfNodesThatKarpenterHasNotFoundYet(t *testing.T) {
	sync := verdicts()["in-sync"]
	sync.Status.Rollout = &v1alpha1.Rollout{Revision: applied, Since: midday, LastProgress: midday, Nodes: 2, Outdated: 1}
	_, kubeconfig := serve(t, sync)
	got := plumbline(t, "drift", "prod", "--kubeconfig", kubeconfig)
	if got.code != exitChanges || got.out != "rollout: 1 of 2 nodes replaced\n" {
		t.Errorf("code %d, %q, %q", got.code, got.out, got.err)
	}
}
