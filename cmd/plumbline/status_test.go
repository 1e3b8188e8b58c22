package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/summary"
)

// pools adds NodePools of fleet/prod to a server, each with nodes.
func pools(s *apiServer, n, nodes int) {
	for i := range n {
		name := fmt.Sprintf("pool-%02d", i)
		status := "True"
		if i == n-1 {
			status = "False"
		}
		s.objects["/apis/karpenter.sh/v1/nodepools/"+name] = map[string]any{
			"apiVersion": "karpenter.sh/v1", "kind": "NodePool",
			"metadata": map[string]any{"name": name, "uid": name + "-uid", "generation": 1, "creationTimestamp": midday, "labels": map[string]any{v1alpha1.OwnerLabel: "fleet.prod"}},
			"status":   map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": status, "observedGeneration": 1}}},
		}
		for j := range nodes {
			claim := fmt.Sprintf("%s-%d", name, j)
			s.objects["/apis/karpenter.sh/v1/nodeclaims/"+claim] = map[string]any{
				"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
				"metadata": map[string]any{"name": claim, "creationTimestamp": midday, "labels": map[string]any{"karpenter.sh/nodepool": name}},
			}
		}
	}
}

// exits returns the exit codes of `plumbline status` and `reconcile --wait` by verdict.
func exits() map[string]int {
	return map[string]int{
		"in-sync": exitDone, "launches": exitDone, "drifting": exitDone, "waiting": exitDone, "removing": exitDone, "new": exitDone, "changed": exitDone, "suspended": exitDone, "deleted": exitDone,
		"rolling-out": exitDone, "rollout-held": exitHeld, "rollout-stopped": exitStalled, "rollout-late": exitStalled,
		"requested": exitFailed, "unwritten": exitFailed, "ahead": exitFailed, "invalid": exitFailed, "retrying": exitFailed, "drifted": exitChanges, "held": exitHeld, "stalled": exitStalled,
	}
}

func TestStatus(t *testing.T) {
	for name, sync := range verdicts() {
		t.Run(name, func(t *testing.T) {
			s, kubeconfig := serve(t, sync)
			pools(s, 2, 2)
			got := plumbline(t, "status", "prod", "--kubeconfig", kubeconfig)
			if want, known := exits()[name]; !known || got.code != want {
				t.Errorf("code %d, want %d: %s", got.code, want, got.err)
			}
			golden(t, "status-"+name+".table", got.out)
			if lines := strings.Count(got.out, "\n"); lines > 24 {
				t.Errorf("%d lines are more than a screen", lines)
			}
			if strings.Contains(got.out, "\x1b") {
				t.Error("it is coloured in a pipe")
			}
		})
	}
}

// TestStatusFormatsAgree: -o json and -o yaml contain the same, complete data.
func TestStatusFormatsAgree(t *testing.T) {
	s, kubeconfig := serve(t, verdicts()["held"])
	pools(s, 30, 1)
	var asJSON, asYAML statusReport
	for format, into := range map[string]*statusReport{"json": &asJSON, "yaml": &asYAML} {
		got := plumbline(t, "status", "prod", "-o", format, "--kubeconfig", kubeconfig)
		if got.code != exitHeld || got.err != "" {
			t.Errorf("-o %s: code %d, says %q", format, got.code, got.err)
		}
		if err := yaml.UnmarshalStrict([]byte(got.out), into); err != nil {
			t.Fatalf("-o %s: %v", format, err)
		}
	}
	a, err := json.Marshal(asJSON)
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(asYAML)
	if err != nil {
		t.Fatal(err)
	}
	if string(a) != string(b) {
		t.Errorf("json %s\nyaml %s", a, b)
	}
	if asJSON.State != "held by the guard" || len(asJSON.Pools) != 30 || asJSON.Applied != pushed || asJSON.Next == "" {
		t.Errorf("%+v", asJSON)
	}
}

// TestStatusOfALargeFleetIsOneScreen: problems come first.
func TestStatusOfALargeFleetIsOneScreen(t *testing.T) {
	sync := verdicts()["removing"]
	leaves(make([]v1alpha1.RemovalPhase, 89)...)(sync)
	s, kubeconfig := serve(t, sync)
	pools(s, 90, 3)
	got := plumbline(t, "status", "prod", "--kubeconfig", kubeconfig)
	if lines := strings.Count(got.out, "\n"); lines > 45 {
		t.Errorf("%d lines:\n%s", lines, got.out)
	}
	if _, after, _ := strings.Cut(got.out, "\nPOOL"); !strings.Contains(strings.Split(after, "\n")[1], "pool-89") {
		t.Errorf("the pool that is not Ready does not come first:\n%s", got.out)
	}
	for _, words := range []string{"and 80 more: 0 not Ready, 240 nodes, 0 draining", "and 80 more (--all)"} {
		if !strings.Contains(got.out, words) {
			t.Errorf("does not say %q:\n%s", words, got.out)
		}
	}
}

// TestStatusWithoutTheRightToPools: the user may read only the NodeSync, and gets the rest of the status.
func TestStatusWithoutTheRightToPools(t *testing.T) {
	s, kubeconfig := serve(t, verdicts()["in-sync"])
	s.refused["/apis/karpenter.sh/v1/nodepools"] = http.StatusForbidden
	got := plumbline(t, "status", "prod", "--kubeconfig", kubeconfig)
	if got.code != exitDone || !strings.Contains(got.out, ": in sync") || !strings.Contains(got.out, "not shown: list NodePools: you are not allowed to") {
		t.Errorf("code %d:\n%s%s", got.code, got.out, got.err)
	}
}

func TestShort(t *testing.T) {
	for want, d := range map[string]time.Duration{
		"1m": time.Minute, "1h": time.Hour, "1h30m": 90 * time.Minute, "1m30s": 90 * time.Second, "10m": 10 * time.Minute, "30s": 30 * time.Second, "0s": 0, "1h0m5s": time.Hour + 5*time.Second,
	} {
		if got := short(d); got != want {
			t.Errorf("%d: %s, want %s", d, got, want)
		}
	}
}

// TestStatusOfPools: it shows the usage of the most used limit, and what Karpenter replaces.
func TestStatusOfPools(t *testing.T) {
	s, kubeconfig := serve(t, verdicts()["in-sync"])
	pools(s, 12, 2)
	pool := s.objects["/apis/karpenter.sh/v1/nodepools/pool-00"].(map[string]any)
	pool["metadata"].(map[string]any)["creationTimestamp"] = midday
	pool["spec"] = map[string]any{"limits": map[string]any{"cpu": "100", "memory": "100Gi", "nodes": 0}}
	pool["status"].(map[string]any)["resources"] = map[string]any{"cpu": "37", "memory": "12Gi"}
	limited := s.objects["/apis/karpenter.sh/v1/nodepools/pool-01"].(map[string]any)
	limited["spec"] = map[string]any{"limits": map[string]any{"cpu": "100", "memory": "100Gi"}}
	limited["status"].(map[string]any)["resources"] = map[string]any{"cpu": "37", "memory": "51Gi"}
	claim := s.objects["/apis/karpenter.sh/v1/nodeclaims/pool-00-1"].(map[string]any)
	claim["status"] = map[string]any{"conditions": []any{map[string]any{"type": "Drifted", "status": "True"}}}
	got := plumbline(t, "status", "prod", "--all", "--kubeconfig", kubeconfig).out
	for _, row := range []string{"pool-00   True        2         1          0   nodes limited to 0   2d", "pool-01   True        2         0          0   51% of 100Gi memory   2d", "pool-10   True"} {
		if !strings.Contains(strings.Join(strings.Fields(got), " "), strings.Join(strings.Fields(row), " ")) {
			t.Errorf("no row %q in\n%s", row, got)
		}
	}
	if strings.Contains(got, "more:") {
		t.Errorf("not all:\n%s", got)
	}
}

// TestNextOfAClass: a class has no nodes to drain, and is deleted once nothing references it.
func TestNextOfAClass(t *testing.T) {
	sync := verdicts()["removing"]
	sync.Status.Removals[0].Kind = "EC2NodeClass"
	if got, want := summary.Next(sync), "deletes EC2NodeClass/old-0 once no NodePool and no NodeClaim names it"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
