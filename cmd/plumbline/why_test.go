package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/blocker"
	"github.com/plumbline-dev/plumbline/reconcile/recorder"
	"github.com/plumbline-dev/plumbline/reconcile/simulate"
	"github.com/plumbline-dev/plumbline/reconcile/summary"
)

// ends adds the records of prod to a server: lines as the daemon writes them, and a gap.
func ends(s *apiServer) {
	made := midday.Unix() - 3600
	lines := []string{
		fmt.Sprintf("7\tgeneral-aaaaa\t\tip-10-0-0-1~\ti-1\tm5.large\teu-west-1a\tspot\t%d\t3600\t5\t5\t6\t1800\tDrifted/rp12\tAMIDrift\t%s", made, applied),
		fmt.Sprintf("8\tgeneral-bbbbb\t\tip-10-0-0-2~\ti-2\tm5.large\teu-west-1a\ton-demand\t%d\t3600\t\t\t\t2400\tInstanceGone\tits EC2 instance no longer existed before the node was drained\t%s", made, applied),
		fmt.Sprintf("9\tbatch-ccccc\t\tip-10-0-0-3~\ti-3\tm5.large\teu-west-1b\ton-demand\t%d\t3600\t\t\t\t5400\tUnknown/l\tits termination was not observed\t%s", made, applied),
		fmt.Sprintf("10\tbatch-ddddd\t\t\t\t\t\t\t%d\t3600\t\t\t\t\tByHand\t\t%s", made, applied),
		"what another client has written",
	}
	name := recorder.ObjectName("prod", 0)
	gap, err := json.Marshal([]recorder.Gap{{From: midday, To: midday}})
	if err != nil {
		s.t.Fatal(err)
	}
	s.objects["/api/v1/namespaces/fleet/configmaps/"+name] = map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{
			"name": name, "namespace": "fleet", "creationTimestamp": midday, "labels": map[string]any{"app.kubernetes.io/component": "ended-nodes"},
			"ownerReferences": []any{map[string]any{"apiVersion": "plumbline.dev/v1alpha1", "kind": "NodeSync", "name": "prod", "uid": "1", "controller": true}},
		},
		"data": map[string]any{"records.tsv": strings.Join(lines, "\n") + "\n", "gaps.json": string(gap)},
	}
}

var stamped = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`)

func TestWhy(t *testing.T) {
	sync := verdicts()["in-sync"]
	sync.Status.Rollout = &v1alpha1.Rollout{Nodes: 1, Outdated: 1, Reasons: []string{"AMIDrift"}, Inputs: []v1alpha1.DriftInput{{Pool: "pool-00", Reason: "AMIDrift", From: "ami-1", To: "ami-2 (al2023@latest)"}}}
	sync.Status.Removals = []v1alpha1.Removal{{Kind: "NodePool", Name: "batch", Message: "node batch-ddddd waits for pod shop/web-1", BreakGlass: []v1alpha1.BreakGlass{
		{Node: "batch-ddddd", Cause: v1alpha1.CauseDoNotDisrupt, Command: "kubectl annotate pod web-1", Risk: "the pod is evicted"},
	}}}
	s, kubeconfig := serve(t, sync)
	pools(s, 1, 2)
	ends(s)
	claim := s.objects["/apis/karpenter.sh/v1/nodeclaims/pool-00-1"].(map[string]any)
	claim["metadata"].(map[string]any)["creationTimestamp"] = midday
	claim["status"] = map[string]any{"nodeName": "ip-9", "providerID": "aws:///a/i-9", "conditions": []any{
		map[string]any{"type": "Drifted", "status": "True", "reason": "AMIDrift", "lastTransitionTime": midday},
	}}
	s.objects["/api/v1/namespaces/default/events/a"] = map[string]any{
		"apiVersion": "v1", "kind": "Event", "metadata": map[string]any{"name": "a", "namespace": "default"}, "reason": "DisruptionBlocked", "message": "No allowed disruptions due to blocking budget",
	}
	for name, arg := range map[string]string{
		"drifted": "nodeclaim.karpenter.sh/general-aaaaa", "killed": "i-2", "late": "ip-10-0-0-3.eu-west-1.compute.internal", "ending": "batch-ddddd", "outdated": "node/ip-9",
	} {
		got := plumbline(t, "why", arg, "--kubeconfig", kubeconfig)
		if got.code != exitDone || got.err != "" {
			t.Errorf("%s: code %d: %s", name, got.code, got.err)
		}
		golden(t, "why-"+name+".txt", stamped.ReplaceAllString(got.out, "TIME"))
	}
	got := plumbline(t, "why", "i-2", "-o", "json", "--kubeconfig", kubeconfig)
	var report summary.NodeReport
	if err := json.Unmarshal([]byte(got.out), &report); err != nil || report.Cause != recorder.InstanceGone || report.NodeSync != "prod" || report.State != summary.NodeTerminated || !report.Drained.IsZero() || report.Pods != nil {
		t.Errorf("%+v: %v", report, err)
	}
	got = plumbline(t, "why", "nobody", "--kubeconfig", kubeconfig)
	if got.code != exitFailed || got.out != "" || !strings.Contains(got.err, "none that is terminated is recorded in fleet") || !strings.Contains(got.err, "as the leader changed") {
		t.Errorf("nobody: code %d, %q", got.code, got.err)
	}
	s.refused["/api/v1/namespaces/fleet/configmaps"] = http.StatusForbidden
	if got := plumbline(t, "why", "i-2", "--kubeconfig", kubeconfig); got.code != exitFailed || !strings.Contains(got.err, "you are not allowed to") {
		t.Errorf("not allowed: code %d, %q", got.code, got.err)
	}
	if got := plumbline(t, "why", "i-9", "--kubeconfig", kubeconfig); got.code != exitDone {
		t.Errorf("one that runs needs no record: code %d, %q", got.code, got.err)
	}
}

// TestWhyOfANodeThatRuns compares the node with its definitions, whatever Karpenter has found so far.
func TestWhyOfANodeThatRuns(t *testing.T) {
	pool := &karpv1.NodePool{}
	hash, version := pool.Hash(), karpv1.NodePoolHashVersion
	sync := verdicts()["in-sync"]
	for name, c := range map[string]struct {
		annotations map[string]any
		settles     time.Duration
		refused     int
		want        string
	}{
		"it matches":          {map[string]any{karpv1.NodePoolHashAnnotationKey: hash, karpv1.NodePoolHashVersionAnnotationKey: version}, 0, 0, "and is up to date"},
		"it does not":         {map[string]any{karpv1.NodePoolHashAnnotationKey: "1", karpv1.NodePoolHashVersionAnnotationKey: version}, 0, 0, "and is outdated, which Karpenter has not detected yet: NodePoolDrifted"},
		"it has no hash":      {nil, 0, 0, "whether it is outdated is unknown: it lacks the hash"},
		"AWS decides":         {map[string]any{karpv1.NodePoolHashAnnotationKey: hash, karpv1.NodePoolHashVersionAnnotationKey: version}, time.Minute, 0, "whether it is outdated is unknown: Karpenter asks AWS which nodes main@sha1:01234567 outdates, until "},
		"it may not be known": {nil, 0, http.StatusForbidden, "whether it is outdated is unknown: you are not allowed to read NodePool/pool-00"},
	} {
		t.Run(name, func(t *testing.T) {
			if sync.Status.Rollout = nil; c.settles > 0 {
				at := metav1.NewTime(time.Now().Add(c.settles))
				sync.Status.Rollout = &v1alpha1.Rollout{Revision: applied, SettlesAt: &at}
			}
			s, kubeconfig := serve(t, sync)
			pools(s, 1, 1)
			claim := s.objects["/apis/karpenter.sh/v1/nodeclaims/pool-00-0"].(map[string]any)
			claim["metadata"].(map[string]any)["annotations"] = c.annotations
			claim["status"] = map[string]any{"nodeName": "ip-9", "providerID": "aws:///a/i-9", "imageID": "ami-1"}
			if c.refused > 0 {
				s.refused["/apis/karpenter.sh/v1/nodepools/pool-00"] = c.refused
			}
			s.objects["/api/v1/namespaces/default/events/a"] = map[string]any{
				"apiVersion": "v1", "kind": "Event", "metadata": map[string]any{"name": "a", "namespace": "default"}, "reason": "DisruptionBlocked", "message": "Pod default/web has do-not-disrupt",
			}
			got := plumbline(t, "why", "ip-9", "--kubeconfig", kubeconfig)
			if got.code != exitDone || !strings.Contains(got.out, c.want) {
				t.Errorf("code %d, %q: %s", got.code, got.err, got.out)
			}
			if kept := strings.Contains(got.out, "kept by"); kept != (name != "it matches") {
				t.Errorf("says what keeps it: %t\n%s", kept, got.out)
			}
		})
	}
}

func TestHistory(t *testing.T) {
	s, kubeconfig := serve(t, verdicts()["in-sync"])
	if got := plumbline(t, "history", "--kubeconfig", kubeconfig); got.code != exitDone || got.out != "" || !strings.Contains(got.err, "no terminated nodes are recorded yet") {
		t.Errorf("none: code %d, %q, %q", got.code, got.out, got.err)
	}
	ends(s)
	for name, args := range map[string][]string{
		"all": {"--since", "0"}, "wide": {"prod", "--since", "72h", "-o", "wide"}, "pool": {"prod", "--since", "72h", "--pool", "batch"},
	} {
		got := plumbline(t, append(append([]string{"history"}, args...), "--kubeconfig", kubeconfig)...)
		if got.code != exitDone || got.err != "" {
			t.Errorf("%s: code %d: %s", name, got.code, got.err)
		}
		golden(t, "history-"+name+".table", stamped.ReplaceAllString(got.out, "TIME"))
	}
	if got := plumbline(t, "history", "--kubeconfig", kubeconfig); got.code != exitDone || got.out != "" || !strings.Contains(got.err, "no terminated nodes; terminations of nodesync/prod are recorded since") {
		t.Errorf("none in a day: code %d, %q, %q", got.code, got.out, got.err)
	}
	got := plumbline(t, "history", "--since", "72h", "-o", "json", "--kubeconfig", kubeconfig)
	var report historyReport
	if err := json.Unmarshal([]byte(got.out), &report); err != nil || report.Summary.Total != 4 || report.Summary.ByPool["batch"] != 2 || len(report.Gaps) != 1 || report.Records[0].NodeClaim != "batch-ddddd" {
		t.Errorf("%+v: %v", report, err)
	}
	if got := plumbline(t, "history", "other", "--kubeconfig", kubeconfig); got.code != exitFailed || !strings.Contains(got.err, "does not exist") {
		t.Errorf("of another: code %d, %q", got.code, got.err)
	}
	if got := plumbline(t, "__complete", "history", "prod", "--kubeconfig", kubeconfig, "--pool", ""); !strings.Contains(got.out, "batch\n") {
		t.Errorf("completes the pools %q", got.out)
	}
	if got := plumbline(t, "__complete", "why", "--kubeconfig", kubeconfig, ""); !strings.Contains(got.out, "general-aaaaa") {
		t.Errorf("completes %q", got.out)
	}
}

// TestWhySuggestsTheKind: for a definition's name without its kind, the message tells how to name it.
func TestWhySuggestsTheKind(t *testing.T) {
	s, kubeconfig := serve(t, nodeSync("prod"))
	pools(s, 1, 0)
	got := plumbline(t, "why", "pool-00", "--kubeconfig", kubeconfig)
	if got.code != exitFailed || !strings.Contains(got.err, "pool-00 not found: no NodeClaim, Node or instance has this name; NodePool/pool-00 has: plumbline why nodepool/pool-00") {
		t.Errorf("code %d, says %q", got.code, got.err)
	}
	got = plumbline(t, "why", "nodepool/pool-00", "--kubeconfig", kubeconfig)
	if got.code != exitFailed || !strings.Contains(got.err, "no NodeSync in fleet removes NodePool/pool-00") {
		t.Errorf("code %d, says %q", got.code, got.err)
	}
}

// TestWhySaysWhatStatusDoes: what a rollout waits for is shown for the node that it names, and for no other.
func TestWhySaysWhatStatusDoes(t *testing.T) {
	const message = "waits for PodDisruptionBudget web/web (node ip-10-0-0-1, NodeClaim/pool-00-0)"
	s, kubeconfig := serve(t, nodeSync("prod", func(n *v1alpha1.NodeSync) { n.Status.Rollout = &v1alpha1.Rollout{Message: message} }))
	pools(s, 1, 2)
	for claim, want := range map[string]bool{"pool-00-0": true, "pool-00-1": false} {
		s.objects["/apis/karpenter.sh/v1/nodeclaims/"+claim].(map[string]any)["metadata"].(map[string]any)["deletionTimestamp"] = midday
		if got := plumbline(t, "why", claim, "--kubeconfig", kubeconfig); got.code != exitDone || strings.Contains(got.out, "kept by   "+message) != want {
			t.Errorf("%s: code %d, prints\n%s%s", claim, got.code, got.out, got.err)
		}
	}
}

// TestWhyNotScaledDown: for a running node, the command prints everything that keeps Karpenter from scaling it down.
func TestWhyNotScaledDown(t *testing.T) {
	s, kubeconfig := serve(t, nodeSync("prod"))
	pools(s, 1, 1)
	pool := s.objects["/apis/karpenter.sh/v1/nodepools/pool-00"].(map[string]any)
	disruption := map[string]any{"consolidationPolicy": "WhenEmpty", "consolidateAfter": "0s", "budgets": []any{map[string]any{"nodes": "50%"}}}
	pool["spec"] = map[string]any{"disruption": disruption}
	claim := s.objects["/apis/karpenter.sh/v1/nodeclaims/pool-00-0"].(map[string]any)
	claim["status"] = map[string]any{"nodeName": "ip-9", "providerID": "aws:///a/i-9", "conditions": []any{
		map[string]any{"type": "Initialized", "status": "True", "reason": "Initialized", "lastTransitionTime": midday},
	}}
	s.objects["/api/v1/nodes/ip-9"] = map[string]any{
		"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"name": "ip-9", "labels": map[string]any{"karpenter.sh/nodepool": "pool-00"}},
		"status": map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": "True"}}},
	}
	s.objects["/api/v1/namespaces/shop/pods/web-1"] = map[string]any{
		"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"namespace": "shop", "name": "web-1"},
		"spec": map[string]any{"nodeName": "ip-9"}, "status": map[string]any{"phase": "Running"},
	}
	got := plumbline(t, "why", "ip-9", "--kubeconfig", kubeconfig)
	for _, want := range []string{
		"not scaled down; each of these keeps it:\n",
		"  WhenEmpty: NodePool/pool-00 has consolidationPolicy: WhenEmpty, and the node has 1 pod besides those of DaemonSets: shop/web-1\n",
		"    fix: set spec.disruption.consolidationPolicy: WhenEmptyOrUnderutilized\n",
	} {
		if got.code != exitDone || !strings.Contains(got.out, want) {
			t.Errorf("code %d, %s: no %q in\n%s", got.code, got.err, want, got.out)
		}
	}
	var report summary.NodeReport
	got = plumbline(t, "why", "ip-9", "-o", "json", "--kubeconfig", kubeconfig)
	if err := json.Unmarshal([]byte(got.out), &report); err != nil || len(report.ScaleDown) != 1 || report.ScaleDown[0].Reason != blocker.KeptNotEmpty {
		t.Errorf("%+v, %v", report.ScaleDown, err)
	}
	disruption["consolidationPolicy"] = "WhenEmptyOrUnderutilized"
	got = plumbline(t, "why", "ip-9", "--kubeconfig", kubeconfig)
	if got.code != exitDone || !strings.Contains(got.out, "nothing known keeps Karpenter from scaling it down") {
		t.Errorf("code %d, %s:\n%s", got.code, got.err, got.out)
	}
	s.refused["/api/v1/pods"] = http.StatusForbidden
	got = plumbline(t, "why", "ip-9", "--kubeconfig", kubeconfig)
	if got.code != exitDone || !strings.Contains(got.out, "Unknown: you are not allowed to read pods, which may keep it") {
		t.Errorf("code %d, %s:\n%s", got.code, got.err, got.out)
	}
}

// TestScaleDownOf: a simulation without the node shows whether Karpenter would keep it.
func TestScaleDownOf(t *testing.T) {
	moves := func(isNew bool) []simulate.Move {
		return []simulate.Move{{From: "general", To: "general", New: isNew, Pods: 1}}
	}
	for name, c := range map[string]struct {
		out    simulate.Outcome
		reason blocker.KeepReason
		want   string
	}{
		"a pod fits nowhere": {
			simulate.Outcome{Nowhere: []simulate.Stranded{{Pod: "shop/web-1", Node: "ip-9", Reason: "no instance type"}}},
			blocker.KeptUnschedulable, "these of its pods fit nowhere else: shop/web-1 (no instance type)",
		},
		"another node's pod fits nowhere": {
			simulate.Outcome{Leaving: 1, Moves: moves(false), Nowhere: []simulate.Stranded{{Pod: "shop/job-1", Already: true}}},
			"", "1 pod of it fits on other nodes",
		},
		"two new nodes": {
			simulate.Outcome{Moves: moves(true), New: []simulate.NewNodes{{Count: 2, Pods: 2}, {Count: 1, Placeholders: 1}}},
			blocker.KeptUnschedulable, "2 new nodes are needed",
		},
		"a new node that is as expensive": {
			simulate.Outcome{Moves: moves(true), New: []simulate.NewNodes{{Count: 1, Pods: 1}}, Cost: simulate.Cost{Before: 1, Lowest: 1}},
			blocker.KeptPrice, "a new one that is not cheaper",
		},
		"a cheaper node": {
			simulate.Outcome{Moves: moves(true), New: []simulate.NewNodes{{Count: 1, Pods: 1}}, Cost: simulate.Cost{Before: 1, Lowest: 0.75}},
			"", "a new one that is up to 0.250 an hour cheaper",
		},
	} {
		keep, words := scaleDownOf(&c.out, "ip-9")
		if keep != nil {
			words = keep.Message
		}
		if (keep == nil) != (c.reason == "") || keep != nil && keep.Reason != c.reason || !strings.Contains(words, c.want) {
			t.Errorf("%s: %+v, %q", name, keep, words)
		}
	}
}
