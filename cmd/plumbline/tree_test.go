package main

import (
	"strings"
	"testing"
)

// TestTree draws pools, their NodeClaims and their Nodes, with the state of each.
func TestTree(t *testing.T) {
	s, kubeconfig := serve(t, verdicts()["in-sync"])
	pools(s, 3, 4)
	condition := func(kind, status, reason string) any {
		return map[string]any{"type": kind, "status": status, "reason": reason}
	}
	launched := []any{condition("Launched", "True", ""), condition("Registered", "True", ""), condition("Initialized", "True", "")}
	for name, status := range map[string]map[string]any{
		"pool-00-0": {"providerID": "aws:///a/i-1", "conditions": launched},
		"pool-00-1": {"providerID": "aws:///a/i-2", "conditions": append(launched, condition("Drifted", "True", "NodePoolDrifted"))},
		"pool-00-2": {"conditions": []any{condition("Launched", "False", "InsufficientCapacity")}},
	} {
		s.objects["/apis/karpenter.sh/v1/nodeclaims/"+name].(map[string]any)["status"] = status
	}
	claim := s.objects["/apis/karpenter.sh/v1/nodeclaims/pool-00-0"].(map[string]any)
	claim["metadata"].(map[string]any)["labels"].(map[string]any)["node.kubernetes.io/instance-type"] = "m5.large"
	leaving := s.objects["/apis/karpenter.sh/v1/nodeclaims/pool-01-0"].(map[string]any)
	leaving["metadata"].(map[string]any)["deletionTimestamp"] = midday
	s.objects["/api/v1/nodes/ip-1"] = map[string]any{
		"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"name": "ip-1", "creationTimestamp": midday},
		"spec": map[string]any{"providerID": "aws:///a/i-1", "unschedulable": true}, "status": map[string]any{"conditions": []any{condition("Ready", "True", "")}},
	}
	foreign := "/apis/karpenter.sh/v1/nodepools/pool-02"
	delete(s.objects[foreign].(map[string]any)["metadata"].(map[string]any), "labels")
	got := plumbline(t, "tree", "prod", "--kubeconfig", kubeconfig)
	if got.code != exitDone {
		t.Fatalf("code %d: %s", got.code, got.err)
	}
	golden(t, "tree.table", got.out)
	if strings.Contains(got.out, "pool-02") {
		t.Error("a pool that is not the NodeSync's")
	}
}

// TestWhatLeavesIsShown: the tree and the list show a pool whose removal is recorded.
func TestWhatLeavesIsShown(t *testing.T) {
	sync := verdicts()["held"]
	sync.Status.Removals[0].Name, sync.Status.Removals[0].UID = "pool-00", "pool-00-uid"
	s, kubeconfig := serve(t, sync)
	pools(s, 2, 2)
	if got := plumbline(t, "tree", "prod", "--kubeconfig", kubeconfig); strings.Count(got.out, "leaves: Held") != 1 {
		t.Errorf("tree: code %d:\n%s%s", got.code, got.out, got.err)
	}
	if got := plumbline(t, "get", "prod", "--kubeconfig", kubeconfig); !strings.Contains(got.out, "0, 1 held") {
		t.Errorf("get: code %d:\n%s%s", got.code, got.out, got.err)
	}
}
