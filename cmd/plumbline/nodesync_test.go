package main

import (
	"fmt"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// midday is two days ago, and so it is for an hour.
var midday = metav1.NewTime(time.Now().Add(-48 * time.Hour).Truncate(time.Second))

const (
	applied = "main@sha1:0123456789abcdef0123456789abcdef01234567"
	pushed  = "main@sha1:89abcdef0123456789abcdef0123456789abcdef"
)

// nodeSync is one in the namespace fleet, of the second generation.
func nodeSync(name string, changes ...func(*v1alpha1.NodeSync)) *v1alpha1.NodeSync {
	sync := &v1alpha1.NodeSync{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.NodeSyncKind},
		ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: name, Generation: 2, CreationTimestamp: midday},
		Spec: v1alpha1.NodeSyncSpec{
			Interval: metav1.Duration{Duration: time.Minute},
			Source:   v1alpha1.Source{Git: &v1alpha1.GitSource{URL: "https://git.example.com/acme/fleet.git"}},
		},
	}
	for _, change := range changes {
		change(sync)
	}
	return sync
}

// ready gives it the conditions of a verdict, as a conclusion does.
func ready(status metav1.ConditionStatus, reason, message string) func(*v1alpha1.NodeSync) {
	return func(n *v1alpha1.NodeSync) {
		n.Status.ObservedGeneration = n.Generation
		set := func(kind string, status metav1.ConditionStatus) {
			n.Status.Conditions = append(n.Status.Conditions, metav1.Condition{
				Type: kind, Status: status, Reason: reason, Message: message, LastTransitionTime: midday, ObservedGeneration: n.Generation,
			})
		}
		set(meta.ReadyCondition, status)
		switch {
		case status == metav1.ConditionUnknown, reason == v1alpha1.ReasonSourceFailed:
			set(meta.ReconcilingCondition, metav1.ConditionTrue)
		case status == metav1.ConditionFalse:
			set(meta.StalledCondition, metav1.ConditionTrue)
		}
	}
}

// revisions are those that it has applied and works on.
func revisions(applied, attempted string) func(*v1alpha1.NodeSync) {
	return func(n *v1alpha1.NodeSync) {
		n.Status.LastAppliedRevision, n.Status.LastAttemptedRevision = applied, attempted
	}
}

func suspended(n *v1alpha1.NodeSync) { n.Spec.Suspend = true }

// leaves are removals, one a phase.
func leaves(phases ...v1alpha1.RemovalPhase) func(*v1alpha1.NodeSync) {
	return func(n *v1alpha1.NodeSync) {
		for i, phase := range phases {
			name := fmt.Sprintf("old-%d", i)
			n.Status.Removals = append(n.Status.Removals, v1alpha1.Removal{
				Kind: "NodePool", Name: name, UID: types.UID(name + "-uid"), Phase: phase, Remaining: 3, Since: midday, LastProgress: midday, RecordedAt: midday, Message: "3 NodeClaims are left",
			})
		}
	}
}

// breaksGlass has a command for the node of the first removal.
func breaksGlass(n *v1alpha1.NodeSync) {
	n.Status.Removals[0].BreakGlass = []v1alpha1.BreakGlass{{
		Node: "ip-10-0-0-1", Cause: v1alpha1.CauseDoNotDisrupt, Command: "kubectl annotate pod web-0 -n web karpenter.sh/do-not-disrupt-", Risk: "the pod is evicted",
	}}
}

// launchesFail has no capacity for a pool.
func launchesFail(n *v1alpha1.NodeSync) {
	n.Status.Conditions = append(n.Status.Conditions, metav1.Condition{
		Type: v1alpha1.LaunchFailingCondition, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonLaunchFailed,
		Message: "NodePool/cheap gets no nodes: insufficient capacity, with fleet error(s), InsufficientInstanceCapacity: none of m5.large in eu-west-1a",
	})
}

// rollsOut has nodes that do not match their definitions: RolledOut is False, for this reason.
func rollsOut(reason, message string, pools ...v1alpha1.PoolRollout) func(*v1alpha1.NodeSync) {
	return func(n *v1alpha1.NodeSync) {
		n.Status.Conditions = append(n.Status.Conditions, metav1.Condition{
			Type: v1alpha1.RolledOutCondition, Status: metav1.ConditionFalse, Reason: reason, Message: message, LastTransitionTime: midday, ObservedGeneration: n.Generation,
		})
		n.Status.Rollout = &v1alpha1.Rollout{Revision: applied, Nodes: 2, Outdated: 2, Draining: 1, Reasons: []string{"NodePoolDrifted"}, Since: midday, LastProgress: midday}
		n.Status.PoolRollouts = pools
	}
}

// nodesDrift though an upgrade was not expected to replace them.
func nodesDrift(n *v1alpha1.NodeSync) {
	n.Status.Conditions = append(n.Status.Conditions, metav1.Condition{
		Type: v1alpha1.NodeDriftCondition, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonUnexpectedNodeDrift,
		Message: "unexpected node drift since Karpenter went from 1.8.6 to 1.14.1: ip-10-0-0-1 of general",
	})
}

// verdicts are NodeSyncs in each state that a pass can leave one in.
func verdicts() map[string]*v1alpha1.NodeSync {
	const t, f, u = metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown
	installed := func(n *v1alpha1.NodeSync) {
		n.Status.Karpenter = &v1alpha1.KarpenterStatus{Management: "Managed", Version: "1.14.1", Namespace: "kube-system", Cluster: "prod-eu", Region: "eu-west-1"}
		n.Status.Conditions = append(n.Status.Conditions, metav1.Condition{Type: v1alpha1.CloudVerifiedCondition, Status: t, Reason: "Verified"})
		for _, stage := range []string{"CRDs", "Controller", "NodeClasses", "NodePools"} {
			n.Status.Stages = append(n.Status.Stages, v1alpha1.StageStatus{Name: stage, State: v1alpha1.StageDone, Since: midday})
		}
	}
	waiting := func(n *v1alpha1.NodeSync) {
		n.Status.Waiting = &v1alpha1.Waiting{For: "Controller", Message: "deployment/karpenter is scaled to 0", Since: midday}
	}
	return map[string]*v1alpha1.NodeSync{
		"in-sync":  nodeSync("prod", ready(t, "Succeeded", "applied, Ready, no removal open: main@sha1:01234567"), revisions(applied, applied), installed),
		"waiting":  nodeSync("prod", ready(u, "Waiting", "waiting for Controller: deployment/karpenter is scaled to 0"), revisions(applied, pushed), installed, waiting),
		"removing": nodeSync("prod", ready(u, "Removing", "removing NodePool/old-0 Draining (3 NodeClaims are left)"), revisions(applied, applied), installed, leaves(v1alpha1.RemovalDraining)),
		"held":     nodeSync("prod", ready(f, "Held", "held: removal of NodePool/old-0: 1 more than guard.maxRemovedPools"), revisions(pushed, pushed), installed, leaves(v1alpha1.RemovalHeld)),
		"stalled":  nodeSync("prod", ready(f, "Stalled", "removal of NodePool/old-0 stalled: pod web/web-0 is not evicted"), revisions(applied, applied), installed, leaves(v1alpha1.RemovalDraining), breaksGlass),
		"launches": nodeSync("prod", ready(t, "Succeeded", "applied, Ready, no removal open: main@sha1:01234567"), revisions(applied, applied), installed, launchesFail),
		"drifting": nodeSync("prod", ready(t, "Succeeded", "applied, Ready, no removal open: main@sha1:01234567"), revisions(applied, applied), installed, nodesDrift),
		"rolling-out": nodeSync("prod", ready(t, "Succeeded", "applied, Ready, no removal open: main@sha1:01234567"), revisions(applied, applied), installed,
			rollsOut(v1alpha1.ReasonRollingOut, "0 of 2 nodes replaced (NodePoolDrifted), 1 draining")),
		"rollout-stopped": nodeSync("prod", ready(t, "Succeeded", "applied, Ready, no removal open: main@sha1:01234567"), revisions(applied, applied), installed,
			rollsOut(v1alpha1.ReasonRolloutBraked, "rollout stopped in NodePool/general: 3 launches failed", v1alpha1.PoolRollout{Pool: "general", Reason: v1alpha1.BrakeFailedLaunches, Message: "3 launches failed", BrakedAt: &midday})),
		"rollout-held": nodeSync("prod", ready(t, "Succeeded", "applied, Ready, no removal open: main@sha1:01234567"), revisions(applied, applied), installed,
			rollsOut(v1alpha1.ReasonRolloutBraked, "rollout stopped in NodePool/general: errors", v1alpha1.PoolRollout{Pool: "general", Reason: v1alpha1.BrakeHeldByCondition, Message: "errors", BrakedAt: &midday})),
		"rollout-late": nodeSync("prod", ready(t, "Succeeded", "applied, Ready, no removal open: main@sha1:01234567"), revisions(applied, applied), installed,
			rollsOut(v1alpha1.ReasonRolloutTimedOut, "not rolled out within 1h0m0s: 0 of 2 nodes replaced")),
		"drifted":   nodeSync("prod", ready(f, "Drifted", "differs from Git, and drift is Report: NodePool/general"), revisions(applied, applied), installed),
		"invalid":   nodeSync("prod", ready(f, "Invalid", "nodes/general.yaml:7: unknown field spec.tempalte\nnodes/batch.yaml:2: another"), revisions(applied, pushed), installed),
		"retrying":  nodeSync("prod", ready(f, "SourceFailed", "fetch https://git.example.com/acme/fleet.git: no route to host"), revisions(applied, applied), installed),
		"suspended": nodeSync("prod", suspended, ready(t, "Succeeded", "applied, Ready, no removal open: main@sha1:01234567"), revisions(applied, applied), installed),
		"new":       nodeSync("prod"),
		"changed":   nodeSync("prod", ready(t, "Succeeded", "applied"), revisions(applied, applied), func(n *v1alpha1.NodeSync) { n.Generation++ }),
		"requested": nodeSync("prod", ready(t, "Succeeded", "applied"), revisions(applied, applied), func(n *v1alpha1.NodeSync) {
			n.Annotations = map[string]string{meta.ReconcileRequestAnnotation: "now"}
		}),
		"unwritten": nodeSync("prod", ready(t, "Succeeded", "applied"), revisions(applied, applied), func(n *v1alpha1.NodeSync) {
			n.Annotations = map[string]string{v1alpha1.StatusNotWrittenAnnotation: "the API server denies each write of this NodeSync's status: nodesyncs is forbidden"}
		}),
		"ahead": nodeSync("prod", ready(t, "Succeeded", "applied"), revisions(applied, pushed), installed),
		"deleted": nodeSync("prod", ready(u, "Waiting", "waiting for objects"), func(n *v1alpha1.NodeSync) {
			n.DeletionTimestamp, n.Finalizers, n.Spec.OnDelete = &midday, []string{v1alpha1.Finalizer}, v1alpha1.OnDeleteDrain
		}),
	}
}
