package rollout_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/rollout"
	"github.com/plumbline-dev/plumbline/render"
)

// spoken are Karpenter's events, and how often they were read.
type spoken struct {
	client.Reader

	events []corev1.Event
	err    error
	asked  int
}

func (s *spoken) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	s.asked++
	list.(*corev1.EventList).Items = s.events
	return s.err
}

// pool returns a NodePool with disruption budgets.
func pool(name string, budgets ...any) rollout.Pool {
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "karpenter.sh/v1", "kind": render.NodePool,
		"metadata": map[string]any{"name": name, "uid": name, "resourceVersion": "1"},
		"spec":     map[string]any{"disruption": map[string]any{"budgets": budgets}},
	}}
	return rollout.Pool{Name: name, Live: plan.NewObject(object)}
}

func drifted(name, of string, deleting bool) plan.NodeClaim {
	return plan.NodeClaim{Name: name, UID: types.UID(name), Pool: of, Class: "c", Node: "node-" + name, Drifted: true, DriftReason: "AMIDrift", Deleting: deleting}
}

// TestWhatARolloutWaitsFor shows the order of the causes, the most certain first: budgets, missing replacements,
// Karpenter's events; and none while nodes start to drain. No look requests a reconcile in the past.
func TestWhatARolloutWaitsFor(t *testing.T) {
	now := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	open, shut := map[string]any{"nodes": "1"}, map[string]any{"nodes": "0"}
	window := map[string]any{"nodes": "0", "schedule": "0 9 * * *", "duration": "8h"}
	blocked := corev1.Event{Reason: "DisruptionBlocked", Message: "PDB default/web prevents pod evictions"}
	blocked.LastTimestamp = metav1.NewTime(now)
	long := now.Add(-time.Hour)
	before, noNode := blocked, blocked
	before.LastTimestamp, noNode.Message = metav1.NewTime(long.Add(-2*time.Minute)), "Nodeclaim does not have an associated node"
	for name, c := range map[string]struct {
		pools          []rollout.Pool
		claims         []plan.NodeClaim
		launchFailures []rollout.LaunchFailure
		since          time.Time
		events         spoken
		want           string
		asked          int
	}{
		"it has just begun":          {pools: []rollout.Pool{pool("a", open)}, claims: []plan.NodeClaim{drifted("1", "a", false)}, since: now},
		"it drains":                  {pools: []rollout.Pool{pool("a", open)}, claims: []plan.NodeClaim{drifted("1", "a", false), drifted("2", "a", true)}, since: now},
		"budgets":                    {pools: []rollout.Pool{pool("a", shut)}, claims: []plan.NodeClaim{drifted("1", "a", false)}, since: now, want: "budgets of NodePool/a allow no replacement"},
		"a window":                   {pools: []rollout.Pool{pool("a", window)}, claims: []plan.NodeClaim{drifted("1", "a", false)}, since: long, want: "budgets of NodePool/a allow no replacement until 17:00 UTC"},
		"a window of one of two":     {pools: []rollout.Pool{pool("a", window), pool("b", open)}, claims: []plan.NodeClaim{drifted("1", "a", false), drifted("2", "b", false)}, since: now},
		"a schedule that is broken":  {pools: []rollout.Pool{pool("a", map[string]any{"nodes": "0", "schedule": "at night", "duration": "8h"})}, claims: []plan.NodeClaim{drifted("1", "a", false)}, since: long, want: "NodePool/a has a disruption budget that cannot be parsed: Karpenter disrupts no node until it is corrected"},
		"no replacement is launched": {pools: []rollout.Pool{pool("a", open)}, claims: []plan.NodeClaim{drifted("1", "a", false)}, since: long, launchFailures: []rollout.LaunchFailure{{Pool: "a", Why: "no capacity"}}, want: "NodePool/a launches no replacements: no capacity"},
		"what Karpenter says":        {pools: []rollout.Pool{pool("a", open)}, claims: []plan.NodeClaim{drifted("1", "a", false)}, since: long, events: spoken{events: []corev1.Event{blocked, {Reason: "Other", Message: "else"}}}, want: "NodeClaim/1: PDB default/web prevents pod evictions", asked: 1},
		"what it said before":        {pools: []rollout.Pool{pool("a", open)}, claims: []plan.NodeClaim{drifted("1", "a", false)}, since: long, events: spoken{events: []corev1.Event{before, noNode}}, asked: 1},
		"Karpenter says nothing":     {pools: []rollout.Pool{pool("a", open)}, claims: []plan.NodeClaim{drifted("1", "a", false)}, since: long, asked: 1},
		"events cannot be read":      {pools: []rollout.Pool{pool("a", open)}, claims: []plan.NodeClaim{drifted("1", "a", false)}, since: long, events: spoken{err: errors.New("forbidden")}, want: "read why NodeClaim/1 is not replaced: forbidden", asked: 1},
	} {
		t.Run(name, func(t *testing.T) {
			memory := &rollout.Memory{}
			live := plan.Live{Objects: map[render.Ref]*plan.Object{}, NodeClaims: c.claims}
			before := &v1alpha1.Rollout{Since: metav1.NewTime(c.since), LastProgress: metav1.NewTime(c.since), Nodes: int32(len(c.claims)), Outdated: int32(len(c.claims))}
			for _, claim := range c.claims {
				if claim.Deleting {
					before.Draining++
				}
			}
			for pass := range 2 { // within a minute Karpenter's events are read once
				r := rollout.Rollouts{Live: live, Pools: c.pools, Events: &c.events, Before: before, Reported: before, LaunchFailures: c.launchFailures, Now: now.Add(time.Duration(pass) * time.Second), Memory: memory}
				got := r.Look(t.Context()).Rollout
				if got == nil || got.Message != c.want {
					t.Fatalf("pass %d: %+v", pass, got)
				}
				if !r.WakeAt.IsZero() && !r.WakeAt.After(r.Now) {
					t.Errorf("it asks for a look at %s, which is past", r.WakeAt)
				}
				if len(r.Notes) > 0 {
					t.Errorf("events of what was said: %v", r.Notes)
				}
			}
			if c.events.asked != c.asked {
				t.Errorf("Karpenter's events were read %d times, want %d", c.events.asked, c.asked)
			}
		})
	}
}

// TestACauseThatAppearsLaterIsReadSoon shows that a cause that appears after a minute without progress is reported
// within twelve seconds, not a minute later. After a long time without progress, events are read once a minute.
func TestACauseThatAppearsLaterIsReadSoon(t *testing.T) {
	start := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	cause := corev1.Event{Reason: "DisruptionBlocked", Message: "PDB default/web prevents pod evictions"}
	const words = "NodeClaim/1: PDB default/web prevents pod evictions"
	events, memory := &spoken{}, &rollout.Memory{}
	before := &v1alpha1.Rollout{Since: metav1.NewTime(start), LastProgress: metav1.NewTime(start), Nodes: 1, Outdated: 1}
	live := plan.Live{Objects: map[render.Ref]*plan.Object{}, NodeClaims: []plan.NodeClaim{drifted("1", "a", false)}}
	for _, c := range []struct {
		at     time.Duration
		appear bool
		want   string
		asked  int
	}{
		{at: time.Minute, asked: 1},
		{at: 65 * time.Second, appear: true, asked: 1},
		{at: 72 * time.Second, want: words, asked: 2},
		{at: time.Hour, want: words, asked: 3},
		{at: time.Hour + 59*time.Second, want: words, asked: 3},
		{at: time.Hour + time.Minute, want: words, asked: 4},
	} {
		now := start.Add(c.at)
		if c.appear {
			events.events = []corev1.Event{cause}
		}
		for i := range events.events {
			events.events[i].LastTimestamp = metav1.NewTime(now)
		}
		r := rollout.Rollouts{Live: live, Pools: []rollout.Pool{pool("a", map[string]any{"nodes": "1"})}, Events: events, Before: before, Reported: before, Now: now, Memory: memory}
		if got := r.Look(t.Context()).Rollout; got == nil || got.Message != c.want || events.asked != c.asked {
			t.Errorf("after %s, events read %d times: %+v", c.at, events.asked, got)
		}
	}
}

// TestACauseThatLastsIsReportedAtOnce: a pod that must not be disrupted is reported within seconds of Karpenter's
// event, as `plumbline why` does, and a node that is only nominated for a pod once the rollout makes no progress.
func TestACauseThatLastsIsReportedAtOnce(t *testing.T) {
	start := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	event := func(message string) corev1.Event {
		e := corev1.Event{Reason: "DisruptionBlocked", Message: message}
		e.LastTimestamp = metav1.NewTime(start.Add(4 * time.Second))
		return e
	}
	const kept, nominated = `Pod has "karpenter.sh/do-not-disrupt" annotation (Pod=web/web-0)`, "Node is nominated for a pending pod"
	type looked struct {
		at    time.Duration
		event string
		want  string
		asked int
	}
	for name, looks := range map[string][]looked{
		"it lasts":  {{2 * time.Second, kept, "", 0}, {3 * time.Second, "", "", 1}, {6 * time.Second, kept, "NodeClaim/1: " + kept, 2}, {7 * time.Second, kept, "NodeClaim/1: " + kept, 2}, {9 * time.Second, "", "", 3}},
		"it passes": {{6 * time.Second, nominated, "", 1}, {30 * time.Second, nominated, "NodeClaim/1: " + nominated, 2}},
	} {
		t.Run(name, func(t *testing.T) {
			memory, events := &rollout.Memory{}, &spoken{}
			before := &v1alpha1.Rollout{Since: metav1.NewTime(start), LastProgress: metav1.NewTime(start), Nodes: 1, Outdated: 1}
			live := plan.Live{Objects: map[render.Ref]*plan.Object{}, NodeClaims: []plan.NodeClaim{drifted("1", "a", false)}}
			for _, l := range looks {
				events.events = nil
				if l.event != "" {
					events.events = []corev1.Event{event(l.event)}
				}
				r := rollout.Rollouts{Live: live, Pools: []rollout.Pool{pool("a", map[string]any{"nodes": "1"})}, Events: events, Before: before, Reported: before, Now: start.Add(l.at), Memory: memory}
				if got := r.Look(t.Context()).Rollout; got.Message != l.want || events.asked != l.asked {
					t.Errorf("after %s: %q, read %d times, want %q, %d times", l.at, got.Message, events.asked, l.want, l.asked)
				}
				if l.at < 27*time.Second && r.WakeAt.After(r.Now.Add(3*time.Second)) {
					t.Errorf("after %s: the next look is at %s", l.at, r.WakeAt)
				}
			}
		})
	}
}

// TestARolloutIsToldOnce shows one event when it starts, and one when it is complete.
func TestARolloutIsToldOnce(t *testing.T) {
	now := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	memory := &rollout.Memory{}
	var said *v1alpha1.Rollout
	var told []string
	for i, claims := range [][]plan.NodeClaim{nil, {drifted("1", "a", false)}, {drifted("1", "a", true)}, nil, nil} {
		r := rollout.Rollouts{Live: plan.Live{NodeClaims: claims}, Pools: []rollout.Pool{pool("a")}, Before: said, Reported: said, Now: now.Add(time.Duration(i) * time.Second), Memory: memory, Events: &spoken{}}
		said = r.Look(t.Context()).Rollout
		for _, note := range r.Notes {
			told = append(told, note.Reason+": "+note.Message)
		}
	}
	want := "RollingOut: 1 node outdated, not caused by a commit of this NodeSync (AMIDrift: inputs unknown: EC2NodeClass/c lists no AMI in its status); Karpenter replaces them at the pace of their disruption budgets | RolledOut: 1 node up to date or deleted, after 2s"
	if got := strings.Join(told, " | "); got != want {
		t.Errorf("told %s", got)
	}
}

// TestNothingIsKnownWithoutKarpenter shows that a rollout continues without Karpenter, and that the time in which
// Karpenter finds outdated nodes starts when it is back.
func TestNothingIsKnownWithoutKarpenter(t *testing.T) {
	now := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	look := func(before *v1alpha1.Rollout) *v1alpha1.Rollout {
		r := rollout.Rollouts{Before: before, Reported: before, Now: now, Memory: &rollout.Memory{}}
		return r.See(t.Context(), false).Rollout
	}
	if got := look(nil); got != nil {
		t.Errorf("none: %+v", got)
	}
	over := metav1.NewTime(now.Add(-time.Second))
	got := look(&v1alpha1.Rollout{Revision: "a", Nodes: 3, Outdated: 3, SettlesAt: &over})
	if got == nil || got.Outdated != 3 || !got.SettlesAt.Equal(&metav1.Time{Time: now.Add(rollout.Settles)}) || got.Message != "Karpenter's controller is not ready" {
		t.Errorf("one that AWS decides on: %+v", got)
	}
	fresh := metav1.NewTime(now.Add(rollout.Settles - time.Second))
	if got := look(&v1alpha1.Rollout{Revision: "a", SettlesAt: &fresh}); !got.SettlesAt.Equal(&fresh) {
		t.Errorf("it is not written at each pass: %v", got.SettlesAt)
	}
}

// TestAClassCountsTheNodesOfOtherNodeSyncs shows that nodes of other NodeSyncs' pools that refer to the class count if
// the class has outdated them.
func TestAClassCountsTheNodesOfOtherNodeSyncs(t *testing.T) {
	class := plan.NewObject(&unstructured.Unstructured{Object: map[string]any{"apiVersion": "karpenter.k8s.aws/v1", "kind": render.EC2NodeClass, "metadata": map[string]any{"name": "shared"}}})
	claim := func(name, reason string) plan.NodeClaim {
		c := drifted(name, "of-another", false)
		c.Class, c.DriftReason = "shared", reason
		return c
	}
	live := plan.Live{
		Objects:    map[render.Ref]*plan.Object{{Kind: render.EC2NodeClass, Name: "shared"}: class},
		NodeClaims: []plan.NodeClaim{claim("1", "AMIDrift"), claim("2", "NodePoolDrifted"), drifted("3", "else", false)},
	}
	r := rollout.Rollouts{Live: live, Classes: []*plan.Object{class}, Now: time.Now(), Memory: &rollout.Memory{}, Events: &spoken{}}
	if got := r.Look(t.Context()).Rollout; got == nil || got.Outdated != 1 || strings.Join(got.Reasons, " ") != "AMIDrift" {
		t.Errorf("%+v", got)
	}
}
