package page

import (
	"fmt"
	"time"

	"github.com/awslabs/operatorpkg/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/recorder"
)

const (
	applied = "main@sha1:0123456789abcdef0123456789abcdef01234567"
	pushed  = "main@sha1:89abcdef0123456789abcdef0123456789abcdef"
)

var noon = time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)

// before is a time before noon.
func before(d time.Duration) metav1.Time { return metav1.NewTime(noon.Add(-d)) }

// nodeSyncWith is a NodeSync that is in sync, with changes.
func nodeSyncWith(name string, change ...func(*v1alpha1.NodeSync)) v1alpha1.NodeSync {
	sync := v1alpha1.NodeSync{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "fleet", UID: types.UID(name), Generation: 1}}
	sync.Spec.Interval.Duration = time.Minute
	s := &sync.Status
	s.ObservedGeneration, s.LastAttemptedRevision, s.LastAppliedRevision = 1, applied, applied
	ready(metav1.ConditionTrue, "Succeeded", "applied, Ready, no removal open: main@sha1:01234567")(&sync)
	s.Karpenter = &v1alpha1.KarpenterStatus{Management: "Managed", Version: "1.14.1", Namespace: "kube-system", Cluster: "prod-eu", Region: "eu-west-1"}
	for _, name := range []string{"CRDs", "Controller", "NodeClasses", "NodePools"} {
		s.Stages = append(s.Stages, v1alpha1.StageStatus{Name: name, State: v1alpha1.StageDone, Since: before(48 * time.Hour)})
	}
	s.Reported = []v1alpha1.Reported{{Provider: "github", Context: "plumbline/prod-eu/" + name, Commit: applied[10:], State: "success", Description: "applied"}}
	for _, each := range change {
		each(&sync)
	}
	return sync
}

func ready(is metav1.ConditionStatus, reason, message string) func(*v1alpha1.NodeSync) {
	return func(sync *v1alpha1.NodeSync) {
		sync.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: is, Reason: reason, Message: message, LastTransitionTime: before(2 * time.Hour), ObservedGeneration: 1}}
	}
}

func stalled(sync *v1alpha1.NodeSync) {
	sync.Status.Conditions = append(sync.Status.Conditions, metav1.Condition{Type: "Stalled", Status: metav1.ConditionTrue, Reason: "Stalled"})
}

func leaves(phase v1alpha1.RemovalPhase, message string, change ...func(*v1alpha1.Removal)) func(*v1alpha1.NodeSync) {
	return func(sync *v1alpha1.NodeSync) {
		r := v1alpha1.Removal{
			Kind: "NodePool", Name: fmt.Sprintf("old-%d", len(sync.Status.Removals)), UID: "u", Revision: pushed, Phase: phase,
			Since: before(time.Hour), LastProgress: before(10 * time.Minute), Remaining: 3, Message: message,
		}
		for _, each := range change {
			each(&r)
		}
		sync.Status.Removals = append(sync.Status.Removals, r)
	}
}

// poolOf is a NodePool of a NodeSync.
func poolOf(sync, name string, ready bool) *unstructured.Unstructured {
	is := "False"
	if ready {
		is = "True"
	}
	pool := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "karpenter.sh/v1", "kind": "NodePool",
		"metadata": map[string]any{"name": name, "generation": int64(1), "creationTimestamp": "2026-11-20T12:00:00Z", "labels": map[string]any{v1alpha1.OwnerLabel: "fleet." + sync}},
		"spec":     map[string]any{"limits": map[string]any{"cpu": "100"}},
		"status":   map[string]any{"resources": map[string]any{"cpu": "37"}, "conditions": []any{map[string]any{"type": "Ready", "status": is, "observedGeneration": int64(1)}}},
	}}
	return pool
}

// nodeOf is a NodeClaim: ready, launching, drifted or draining.
func nodeOf(name, state string) *karpv1.NodeClaim {
	c := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}}
	c.Status.ProviderID, c.Status.NodeName = "aws:///a/i-"+name, "ip-"+name
	switch state {
	case "launching":
		c.Status.NodeName = ""
	case "drifted":
		c.Status.Conditions = []status.Condition{{Type: "Drifted", Status: metav1.ConditionTrue, Reason: "NodePoolDrifted", LastTransitionTime: before(20 * time.Minute)}}
	case "draining":
		at := before(3 * time.Minute)
		c.DeletionTimestamp = &at
	}
	return c
}

// worldOf contains NodeSyncs, and two pools of the first one.
func worldOf(syncs ...v1alpha1.NodeSync) *World {
	w := &World{Now: noon, NodeSyncs: syncs, Claims: map[string][]*karpv1.NodeClaim{}}
	if len(syncs) > 0 {
		w.Pools = []*unstructured.Unstructured{poolOf(syncs[0].Name, "general", true), poolOf(syncs[0].Name, "spot", false)}
		w.Claims["general"] = []*karpv1.NodeClaim{nodeOf("general-a", ""), nodeOf("general-b", ""), nodeOf("general-c", "launching"), nodeOf("general-d", "draining")}
		w.Claims["spot"] = []*karpv1.NodeClaim{nodeOf("spot-a", "")}
	}
	return w
}

// endedAs returns records of terminated nodes.
func endedAs(records ...recorder.Record) func(types.NamespacedName, types.UID) *recorder.Log {
	return func(types.NamespacedName, types.UID) *recorder.Log {
		return &recorder.Log{Records: records, Since: before(72 * time.Hour), Gaps: []recorder.Gap{{From: before(50 * time.Hour), To: before(49 * time.Hour)}}}
	}
}

func record(name, pool string, cause recorder.Cause, ago time.Duration) recorder.Record {
	return recorder.Record{
		NodeClaim: name, Pool: pool, Cause: cause, Revision: applied, InstanceType: "m5.large", Zone: "eu-west-1a", CapacityType: "spot",
		Created: before(ago + time.Hour), Deleted: before(ago + time.Minute), Gone: before(ago), Pods: new(12),
	}
}

// hostile is text that a page must not interpret.
const hostile = "<script>alert(1)</script><img src=x onerror=alert(1)> \"' --> {{.}} \x1b[31m\u202eexe\u200b\x00 javascript:alert(1)"

// worlds are those of the golden files, each with the NodeSync that is shown.
func worlds() map[string]*World {
	all := map[string]*World{
		"in-sync": worldOf(nodeSyncWith("prod")),
		"held":    worldOf(nodeSyncWith("prod", ready(metav1.ConditionFalse, "Held", "held: removal of NodePool/old-0: 1 more than guard.maxRemovedPools"), stalled, leaves(v1alpha1.RemovalHeld, "1 more than guard.maxRemovedPools: plumbline release prod NodePool/old-0"))),
		"stalled": worldOf(nodeSyncWith("prod", ready(metav1.ConditionFalse, "Stalled", "removal of NodePool/old-0 stalled: pod web/web-0 is not evicted"), stalled,
			leaves(v1alpha1.RemovalDraining, "pod web/web-0 is not evicted: PodDisruptionBudget web/web allows 0", func(r *v1alpha1.Removal) { at := before(5 * time.Minute); r.Stalled = &at }))),
		"removing": worldOf(nodeSyncWith("prod", ready(metav1.ConditionUnknown, "Removing", "removing NodePool/old-0 Draining (3 NodeClaims are left)"), leaves(v1alpha1.RemovalDraining, "3 NodeClaims are left"), leaves(v1alpha1.RemovalPacing, "grace until 12:05"))),
		"rolling-out": worldOf(nodeSyncWith("prod", func(sync *v1alpha1.NodeSync) {
			settles := metav1.NewTime(noon.Add(4 * time.Minute))
			sync.Status.Rollout = &v1alpha1.Rollout{Revision: applied, Since: before(12 * time.Minute), Nodes: 40, Outdated: 28, Draining: 2, LastProgress: before(time.Minute), SettlesAt: &settles, Reasons: []string{"AMIDrift"}, Message: "PodDisruptionBudget web/web allows 0"}
			sync.Status.Conditions = append(sync.Status.Conditions, metav1.Condition{
				Type: "RolledOut", Status: metav1.ConditionFalse, Reason: "RollingOut", Message: "12 of 40 nodes replaced (AMIDrift), 2 draining: PodDisruptionBudget web/web allows 0", ObservedGeneration: 1,
			})
		})),
		"drift": worldOf(nodeSyncWith("prod", func(sync *v1alpha1.NodeSync) {
			corrected := before(time.Minute)
			sync.Status.Instances = &v1alpha1.InstanceDrift{Count: 22, Failure: "UnauthorizedOperation: allow ec2:DescribeInstances", Instances: []v1alpha1.DriftedInstance{
				{ID: "i-0123456789abcdef0", NodeClaim: "general-x", Pool: "general", Message: "tag team: fleet → web", Since: before(time.Hour)}, {ID: "i-0123456789abcdef1", Pool: "spot", Message: "no NodeClaim has it", Since: before(30 * time.Hour)},
			}}
			sync.Status.Drift = []v1alpha1.DriftedObject{{Kind: "NodePool", Name: "general", Message: "spec.limits.cpu: 100 → 500", By: []string{"kubectl-edit"}, Since: before(time.Hour)}, {Kind: "EC2NodeClass", Name: "default", Message: "deleted", Since: before(2 * time.Hour), CorrectedAt: &corrected}}
		})),
		"planned": worldOf(nodeSyncWith("prod", ready(metav1.ConditionFalse, "Held", "held: NodePool/general, 12 nodes"), stalled, func(sync *v1alpha1.NodeSync) {
			sync.Status.LastAttemptedRevision = pushed
			sync.Status.Waiting = &v1alpha1.Waiting{For: "nodeclass/default", Message: "its subnets are not resolved", Since: before(3 * time.Minute)}
			sync.Status.Held = &v1alpha1.HeldPlan{Digest: "d", Summary: "replaces 12 of 40 nodes in 2 pools", Needed: 2, Approvers: []string{"ann"}, Message: "another person has to approve it", Entries: []v1alpha1.ApprovedEntry{
				{Kind: "NodePool", Name: "general", Definition: "x", Nodes: 12}, {Kind: "NodePool", Name: "old", Nodes: 3, MovesTo: []string{"new"}}, {Kind: "NodePool", Name: "lent", Nodes: 2, Orphan: true, Policies: []string{"light"}},
			}}
			sync.Status.Approved = []v1alpha1.ApprovedPlan{{By: []string{"bob", "eve"}, Entries: []v1alpha1.ApprovedEntry{{Kind: "EC2NodeClass", Name: "default", Definition: "y"}}}}
		})),
		"empty": worldOf(nodeSyncWith("prod", func(sync *v1alpha1.NodeSync) { sync.Status, sync.Generation = v1alpha1.NodeSyncStatus{}, 1 })),
		"many":  worldOf(nodeSyncWith("prod")),
		"hostile": worldOf(nodeSyncWith("prod", ready(metav1.ConditionFalse, hostile, hostile+"\n"+hostile), leaves(v1alpha1.RemovalHeld, hostile, func(r *v1alpha1.Removal) { r.Name = hostile }), func(sync *v1alpha1.NodeSync) {
			sync.Status.Held = &v1alpha1.HeldPlan{Summary: hostile, Approvers: []string{hostile}, Message: hostile, Entries: []v1alpha1.ApprovedEntry{{Kind: hostile, Name: hostile, MovesTo: []string{hostile}, Policies: []string{hostile}}}}
			sync.Status.Waiting = &v1alpha1.Waiting{For: hostile, Message: hostile, Since: before(time.Minute)}
			sync.Status.Instances = &v1alpha1.InstanceDrift{Failure: hostile, Instances: []v1alpha1.DriftedInstance{{ID: hostile, NodeClaim: hostile, Pool: hostile, Message: hostile, Since: before(time.Hour)}}}
			sync.Status.Drift = []v1alpha1.DriftedObject{{Kind: "NodePool", Name: hostile, Message: hostile, By: []string{hostile}, Since: before(time.Hour)}}
			sync.Status.Reported = []v1alpha1.Reported{{Provider: hostile, URL: hostile, Context: hostile, Commit: hostile, State: hostile, Description: hostile, Failure: hostile}}
			sync.Status.Rollout = &v1alpha1.Rollout{Revision: hostile, Since: before(time.Minute), Nodes: 2, Outdated: 1, Reasons: []string{hostile}, Message: hostile}
		})),
	}
	all["empty"].Pools, all["empty"].Claims = nil, nil
	all["drift"].Claims["general"] = append(all["drift"].Claims["general"], nodeOf("general-e", "drifted"))
	all["in-sync"].Ended = endedAs(record("general-x", "general", recorder.Drifted, time.Hour), record("spot-x", "spot", recorder.Interrupted, 5*time.Hour), record("gone-x", "gone", recorder.Removed, 30*time.Hour))
	all["hostile"].Ended = endedAs(recorder.Record{NodeClaim: hostile, Pool: hostile, Cause: hostile, Detail: hostile, Revision: hostile})
	all["many"].Pools, all["many"].Claims = nil, map[string][]*karpv1.NodeClaim{}
	for i := range 500 {
		name := fmt.Sprintf("pool-%03d", i)
		all["many"].Pools = append(all["many"].Pools, poolOf("prod", name, i != 499))
		for j := range 20 {
			all["many"].Claims[name] = append(all["many"].Claims[name], nodeOf(fmt.Sprintf("%s-%d", name, j), map[bool]string{true: "draining"}[i == 300 && j == 0]))
		}
	}
	return all
}
