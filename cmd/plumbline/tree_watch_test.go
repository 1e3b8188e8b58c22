package main

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/awslabs/operatorpkg/status"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// watchedClaim returns a NodeClaim of pool general whose conditions of these kinds are true, or false if they begin with "!".
func watchedClaim(name, id string, kinds ...string) *karpv1.NodeClaim {
	c := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
		karpv1.NodePoolLabelKey: "general", corev1.LabelInstanceTypeStable: "m5.large", corev1.LabelTopologyZone: "eu-west-1a", karpv1.CapacityTypeLabelKey: "spot",
	}}}
	c.Status.ProviderID = id
	for _, kind := range kinds {
		condition := status.Condition{Type: strings.TrimPrefix(kind, "!"), Status: metav1.ConditionTrue, Reason: strings.TrimPrefix(kind, "!")}
		if strings.HasPrefix(kind, "!") {
			condition.Status, condition.Reason = metav1.ConditionFalse, "NotYet"
		}
		c.Status.Conditions = append(c.Status.Conditions, condition)
	}
	return c
}

// TestNodeRows checks what is shown of each node, and what it waits for.
func TestNodeRows(t *testing.T) {
	up := []string{karpv1.ConditionTypeLaunched, karpv1.ConditionTypeRegistered, karpv1.ConditionTypeInitialized}
	now := metav1.NewTime(time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC))
	ready := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "ip-1"}, Spec: corev1.NodeSpec{ProviderID: "aws:///a/i-1"}, Status: corev1.NodeStatus{
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
	}}
	web := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: corev1.PodSpec{NodeName: "ip-1"}}
	done := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "job"}, Spec: corev1.PodSpec{NodeName: "ip-1"}, Status: corev1.PodStatus{Phase: corev1.PodSucceeded}}
	leaving := func(c *karpv1.NodeClaim) *karpv1.NodeClaim { c.DeletionTimestamp = &now; return c }
	for name, c := range map[string]struct {
		claim *karpv1.NodeClaim
		pods  []corev1.Pod
		want  string
	}{
		"ready":       {watchedClaim("a", "aws:///a/i-1", up...), []corev1.Pod{web, done}, "general (NodeClaim/a, ip-1, m5.large, eu-west-1a, spot): 1 pod, Ready"},
		"drifted":     {watchedClaim("a", "aws:///a/i-1", append(up, karpv1.ConditionTypeDrifted)...), nil, "general (NodeClaim/a, ip-1, m5.large, eu-west-1a, spot): 0 pods, Drifted: Drifted"},
		"launching":   {watchedClaim("a", "", "!"+karpv1.ConditionTypeLaunched), nil, "general (NodeClaim/a, m5.large, eu-west-1a, spot): 0 pods, waits for Launched: NotYet"},
		"registering": {watchedClaim("a", "aws:///a/i-2", up[:1]...), nil, "general (NodeClaim/a, m5.large, eu-west-1a, spot): 0 pods, waits for Registered"},
		"draining":    {leaving(watchedClaim("a", "aws:///a/i-1", up...)), []corev1.Pod{web}, "general (NodeClaim/a, ip-1, m5.large, eu-west-1a, spot): 1 pod, draining: waits for 1 pod to leave: shop/web"},
		"volumes":     {leaving(watchedClaim("a", "aws:///a/i-1", append(up, "!"+karpv1.ConditionTypeVolumesDetached)...)), nil, "general (NodeClaim/a, ip-1, m5.large, eu-west-1a, spot): 0 pods, waits for volumes to detach: NotYet"},
		"terminating": {leaving(watchedClaim("a", "aws:///a/i-1", up...)), []corev1.Pod{done}, "general (NodeClaim/a, ip-1, m5.large, eu-west-1a, spot): 0 pods, terminating its instance"},
	} {
		rows := nodeRows([]*karpv1.NodeClaim{c.claim}, []corev1.Node{ready}, c.pods, "eu-west-1")
		if len(rows) != 1 || rows[0].line() != c.want || rows[0].price < 0.05 || rows[0].price > 0.5 {
			t.Errorf("%s: %+v, want %s", name, rows, c.want)
		}
	}
}

// TestFollowNodes checks that nodes are read after a change and every five seconds, and that a pipe gets a line for each change.
func TestFollowNodes(t *testing.T) {
	row := func(claim, state string) nodeRow { return nodeRow{pool: "general", claim: claim, state: state} }
	answers := [][]nodeRow{{row("a", "waits for Launched")}, {row("a", "Ready"), row("b", "waits for Launched")}, {row("b", "Ready")}}
	ctx, stop := context.WithCancel(t.Context())
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	ticks := make(chan time.Time, 8)
	for second := 1; second <= 7; second++ {
		ticks <- start.Add(time.Duration(second) * time.Second)
	}
	reads, looks := []string{}, 0
	at := start
	read := func(context.Context) (nodesOfSync, error) {
		reads = append(reads, at.Format("05"))
		return nodesOfSync{sync: "prod", rows: answers[min(len(reads), len(answers))-1]}, nil
	}
	changed := func() bool { looks++; at = start.Add(time.Duration(looks-1) * time.Second); return looks == 3 }
	var out bytes.Buffer
	lines := &nodeLines{out: &out}
	show := func(shown nodesOfSync, now time.Time) error {
		if looks == 8 {
			stop()
		}
		return lines.show(shown, now)
	}
	if err := followNodes(ctx, read, changed, show, start, ticks); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"00", "02", "07"}, reads); diff != "" {
		t.Errorf("reads (-want +got):\n%s", diff)
	}
	want := "12:00:00Z general (NodeClaim/a): 0 pods, waits for Launched\n" +
		"12:00:02Z general (NodeClaim/a): 0 pods, Ready\n12:00:02Z general (NodeClaim/b): 0 pods, waits for Launched\n" +
		"12:00:07Z general (NodeClaim/b): 0 pods, Ready\n12:00:07Z NodeClaim/a: gone\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
	failed := errors.New("forbidden")
	err := followNodes(t.Context(), func(context.Context) (nodesOfSync, error) { return nodesOfSync{}, failed }, func() bool { return false }, show, start, ticks)
	if !errors.Is(err, failed) {
		t.Errorf("error %v", err)
	}
}

// TestPrintNodeRows checks the table, and the sum of prices.
func TestPrintNodeRows(t *testing.T) {
	var out bytes.Buffer
	printNodeRows(&out, nodesOfSync{sync: "prod", region: "eu-west-1", rows: []nodeRow{
		{pool: "general", claim: "a", kind: "m5.large", zone: "eu-west-1a", capacity: "spot", price: 0.107, pods: 3, state: "Ready"},
		{pool: "general", claim: "b", state: "waits for Launched"},
	}})
	for _, want := range []string{"nodesync/prod: 2 nodes, 0.11 $/h by on-demand list prices of us-east-1 (1 unknown)", "0.1070", "waits for Launched"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in:\n%s", want, out.String())
		}
	}
}
