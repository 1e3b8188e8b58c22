package main

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestWhyOfAClass prints the commit that moves nodes off one that was deleted.
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
	if got.code != exitDone || !strings.Contains(got.out, "no NodePool names it") || strings.Contains(got.out, "kind:") {
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
	var report classReport
	if err := json.Unmarshal([]byte(got.out), &report); err != nil || report.NodeClaims != 1 || len(report.NodePools) != 1 || !strings.Contains(report.Commit, "name: default-rescued-2") {
		t.Errorf("%+v: %v", report, err)
	}
	got = plumbline(t, "why", "ec2nodeclass/nothing", "--kubeconfig", kubeconfig)
	if got.code != exitFailed || !strings.Contains(got.err, "EC2NodeClass/nothing not found") {
		t.Errorf("none: code %d, %q", got.code, got.err)
	}
}
