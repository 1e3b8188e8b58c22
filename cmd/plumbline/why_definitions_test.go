package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/summary"
)

// TestWhyOfAClass prints the commit that moves nodes off a class that was deleted.
func TestWhyOfAClass(t *testing.T) {
	s, kubeconfig := serve(t, verdicts()["in-sync"])
	pools(s, 2, 2)
	metadata := map[string]any{"name": "default", "uid": "1", "creationTimestamp": midday}
	s.objects["/apis/karpenter.k8s.aws/v1/ec2nodeclasses/default"] = map[string]any{
		"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": metadata, "spec": map[string]any{"role": "nodes"},
	}
	got := plumbline(t, "why", "ec2nodeclass/default", "--kubeconfig", kubeconfig)
	if got.code != exitFailed || !strings.Contains(got.err, "EC2NodeClass/default is not being deleted") {
		t.Errorf("it stays: code %d, %q", got.code, got.err)
	}
	metadata["deletionTimestamp"] = midday
	got = plumbline(t, "why", "ec2nodeclass/default", "--kubeconfig", kubeconfig)
	if got.code != exitDone || !strings.Contains(got.out, "no NodePool references it") || strings.Contains(got.out, "kind:") {
		t.Errorf("nothing names it: code %d, %q: %s", got.code, got.err, got.out)
	}
	of := map[string]any{"nodeClassRef": map[string]any{"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}}
	s.objects["/apis/karpenter.sh/v1/nodepools/pool-00"].(map[string]any)["spec"] = map[string]any{"template": map[string]any{"spec": of}}
	s.objects["/apis/karpenter.sh/v1/nodeclaims/pool-00-0"].(map[string]any)["spec"] = of
	s.objects["/apis/karpenter.k8s.aws/v1/ec2nodeclasses/default-rescued"] = map[string]any{
		"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": map[string]any{"name": "default-rescued"},
	}
	got = plumbline(t, "why", "EC2NodeClass/default", "--kubeconfig", kubeconfig)
	if got.code != exitDone || got.err != "" {
		t.Errorf("code %d: %s", got.code, got.err)
	}
	_, words, _ := strings.Cut(got.out, ", and ")
	golden(t, "why-class.txt", words)
	got = plumbline(t, "why", "ec2nodeclasses.karpenter.k8s.aws/default", "-o", "json", "--kubeconfig", kubeconfig)
	var report summary.ClassReport
	if err := json.Unmarshal([]byte(got.out), &report); err != nil || report.NodeClaims != 1 || len(report.NodePools) != 1 || !strings.Contains(report.Commit, "name: default-rescued-2") {
		t.Errorf("%+v: %v", report, err)
	}
	got = plumbline(t, "why", "ec2nodeclass/nothing", "--kubeconfig", kubeconfig)
	if got.code != exitFailed || !strings.Contains(got.err, "EC2NodeClass/nothing not found") {
		t.Errorf("none: code %d, %q", got.code, got.err)
	}
}

// TestWhyOfAStalledPool: why of the pool, and of its nodes, shows the stall and since when, even if no command would
// terminate a node or Karpenter has not started yet.
func TestWhyOfAStalledPool(t *testing.T) {
	at := metav1.NewTime(midday.Time)
	sync := verdicts()["in-sync"]
	sync.Status.Removals = []v1alpha1.Removal{{
		Kind: "NodePool", Name: "pool-00", Phase: v1alpha1.RemovalDraining, Remaining: 2, Revision: applied, Stalled: &at, LastProgress: at,
		Message: "no node drains because Karpenter's controller does not run: deployment/karpenter is scaled to 0",
	}, {
		Kind: "NodePool", Name: "moved", Phase: v1alpha1.RemovalDraining, Remaining: 1, MovesTo: []string{"pool-01"}, LastProgress: at,
		Message: "node ip-9 (NodeClaim/moved-1) waits for pod shop/web-1", BreakGlass: []v1alpha1.BreakGlass{
			{Node: "ip-9", Cause: v1alpha1.CauseBudget, Command: "kubectl annotate nodeclaim moved-1", Risk: "its pods are deleted"},
		},
	}}
	s, kubeconfig := serve(t, sync)
	pools(s, 1, 2)
	got := plumbline(t, "why", "nodepool/pool-00", "--kubeconfig", kubeconfig)
	since := "no progress since " + midday.UTC().Format("Mon 2 Jan 15:04 UTC")
	for _, want := range []string{"NodePool/pool-00 is being removed by nodesync/prod: Draining, Stalled, 2 nodes left", since, "scaled to 0", "the first one without the pool"} {
		if got.code != exitDone || !strings.Contains(got.out, want) {
			t.Errorf("code %d: %s%s\nwant %s", got.code, got.out, got.err, want)
		}
	}
	got = plumbline(t, "why", "NodePool/moved", "--kubeconfig", kubeconfig)
	golden(t, "why-pool.txt", got.out)
	got = plumbline(t, "why", "nodepools/moved", "-o", "json", "--kubeconfig", kubeconfig)
	var report summary.PoolRemoval
	if err := json.Unmarshal([]byte(got.out), &report); err != nil || report.NodeSync != "prod" || report.Remaining != 1 || len(report.BreakGlass) != 1 {
		t.Errorf("%+v: %v", report, err)
	}
	got = plumbline(t, "why", "nodepool/none", "--kubeconfig", kubeconfig)
	if got.code != exitFailed || !strings.Contains(got.err, "NodePool/none not found") {
		t.Errorf("none: code %d, %q", got.code, got.err)
	}
	for name, ends := range map[string]bool{"pool-00-0": false, "pool-00-1": true} {
		if ends {
			claim := s.objects["/apis/karpenter.sh/v1/nodeclaims/"+name].(map[string]any)
			claim["metadata"].(map[string]any)["deletionTimestamp"] = time.Now().Format(time.RFC3339)
		}
		got := plumbline(t, "why", "node/"+name, "--kubeconfig", kubeconfig)
		if got.code != exitDone || !strings.Contains(got.out, "kept by   "+since) || !strings.Contains(got.out, "scaled to 0") {
			t.Errorf("%s, code %d: %s%s", name, got.code, got.out, got.err)
		}
	}
}
