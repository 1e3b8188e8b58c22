package status

import (
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/pkg/runtime/conditions"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/removal"
	"github.com/plumbline-dev/plumbline/reconcile/report"
	"github.com/plumbline-dev/plumbline/render"
)

// measured returns the metrics of a NodeSync after a reconcile, except those that are 0, by their name and their labels
// without the NodeSync's.
func measured(t *testing.T, change func(*v1alpha1.NodeSync)) map[string]float64 {
	t.Helper()
	m := NewMeter(time.Now, func() map[types.NamespacedName]report.QueueDepth { return nil })
	sync := &v1alpha1.NodeSync{ObjectMeta: metav1.ObjectMeta{Namespace: "plumbline-system", Name: "prod"}}
	change(sync)
	m.measure(&Step{Sync: sync, Before: sync})
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(m)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for _, family := range families {
		for _, series := range family.GetMetric() {
			name := strings.TrimPrefix(family.GetName(), "plumbline_")
			for _, l := range series.GetLabel() {
				if l.GetName() != "namespace" && l.GetName() != "name" {
					name += " " + l.GetValue()
				}
			}
			if value := series.GetGauge().GetValue(); value != 0 {
				all[name] = value
			}
		}
	}
	return all
}

// TestMeasuresOfAStatus shows that the metrics have the numbers of a status.
func TestMeasuresOfAStatus(t *testing.T) {
	at := metav1.Unix(5, 0)
	pool := func(name string, phase v1alpha1.RemovalPhase, reason string, left int32) v1alpha1.Removal {
		return v1alpha1.Removal{Kind: render.NodePool, Name: name, Phase: phase, Reason: reason, Remaining: left}
	}
	with := func(removals ...v1alpha1.Removal) func(*v1alpha1.NodeSync) {
		return func(n *v1alpha1.NodeSync) { n.Status.Removals = removals }
	}
	compared := func(drift v1alpha1.InstanceDrift) func(*v1alpha1.NodeSync) {
		return func(n *v1alpha1.NodeSync) { n.Status.Instances = &drift }
	}
	stalled := pool("a", v1alpha1.RemovalPacing, removal.ReasonSuccessorMissing, 3)
	stalled.Stalled = &metav1.Time{Time: time.Now().Add(time.Hour)} // no age yet
	for name, c := range map[string]struct {
		change func(*v1alpha1.NodeSync)
		want   map[string]float64
	}{
		"nothing": {with(), map[string]float64{}},
		"nodes of removals, by phase": {
			with(pool("a", v1alpha1.RemovalDraining, removal.ReasonNodeClaimsLeaving, 2), pool("b", v1alpha1.RemovalDraining, removal.ReasonTurnPending, 5),
				pool("c", v1alpha1.RemovalHeld, "DisruptionGuard", 7), pool("d", v1alpha1.RemovalVerifyingCloud, removal.ReasonAskingEC2, 0)),
			map[string]float64{"removals Draining": 2, "removals Held": 1, "removals VerifyingCloud": 1, "removal_nodes Draining": 7, "removal_nodes Held": 7, "removals_in_progress": 3},
		},
		"outside of the windows": {
			with(pool("a", v1alpha1.RemovalPacing, removal.ReasonFrozen, 2), pool("b", v1alpha1.RemovalDraining, removal.ReasonFrozen, 1)),
			map[string]float64{"removals Pacing": 1, "removals Draining": 1, "removal_nodes Pacing": 2, "removal_nodes Draining": 1},
		},
		"one ends, another waits": {
			with(pool("a", v1alpha1.RemovalPacing, removal.ReasonFrozen, 2), pool("b", v1alpha1.RemovalDraining, removal.ReasonNodeClaimsLeaving, 1)),
			map[string]float64{"removals Pacing": 1, "removals Draining": 1, "removal_nodes Pacing": 2, "removal_nodes Draining": 1, "removals_in_progress": 1},
		},
		"its grace": {with(pool("a", v1alpha1.RemovalPacing, removal.ReasonGrace, 2)), map[string]float64{"removals Pacing": 1, "removal_nodes Pacing": 2}},
		"a class whose pool is held": {
			with(pool("a", v1alpha1.RemovalHeld, "MaxDisruptedNodes", 2), v1alpha1.Removal{Kind: render.EC2NodeClass, Name: "a", Phase: v1alpha1.RemovalDraining, Reason: removal.ReasonNodePoolHeld, Remaining: 3}),
			map[string]float64{"removals Held": 1, "removals Draining": 1, "removal_nodes Held": 2},
		},
		"stalled": {with(stalled), map[string]float64{"removals Pacing": 1, "removal_nodes Pacing": 3}},
		"drained": {with(pool("a", v1alpha1.RemovalVerifyingCloud, removal.ReasonDrained, 0)), map[string]float64{}},
		"instances that no NodeClaim has": {
			compared(v1alpha1.InstanceDrift{Count: 3, Orphaned: 2, Instances: []v1alpha1.DriftedInstance{{ID: "i-1"}}}),
			map[string]float64{"orphaned_instances": 2, "drift Instance i-1": 1},
		},
		"volumes":                            {compared(v1alpha1.InstanceDrift{Volumes: &v1alpha1.LeftVolumes{Count: 4}}), map[string]float64{"volume_attachments_left": 4}},
		"what else is left":                  {compared(v1alpha1.InstanceDrift{Left: &v1alpha1.LeftResources{Count: 5}}), map[string]float64{"resources_left": 5}},
		"AWS does not say what else is left": {compared(v1alpha1.InstanceDrift{Left: &v1alpha1.LeftResources{Failure: "denied"}}), map[string]float64{}},
		"pools left to themselves":           {func(n *v1alpha1.NodeSync) { n.Status.OrphanedNodes = 6 }, map[string]float64{"orphaned_nodes": 6}},
		"terminations that are stalled":      {func(n *v1alpha1.NodeSync) { n.Status.StalledTerminations = 7 }, map[string]float64{"terminations_stalled": 7}},
		"outdated nodes":                     {func(n *v1alpha1.NodeSync) { n.Status.Rollout = &v1alpha1.Rollout{Nodes: 9, Outdated: 8} }, map[string]float64{"outdated_nodes": 8}},
		"a rollout that will take too long": {func(n *v1alpha1.NodeSync) {
			n.Spec.Rollout.Timeout = &metav1.Duration{Duration: time.Hour}
			n.Status.Rollout = &v1alpha1.Rollout{Since: at, Nodes: 9, Outdated: 8, Estimate: &v1alpha1.RolloutEstimate{ExceedsSince: &at}}
		}, map[string]float64{"outdated_nodes": 8, "rollout_late": 1}},
		"no deletion guard": {func(n *v1alpha1.NodeSync) {
			conditions.MarkTrue(n, v1alpha1.DeletionUnguardedCondition, "PolicyMissing", "gone")
		}, map[string]float64{"deletion_unguarded": 1}},
		"the deletion guard is there": {func(n *v1alpha1.NodeSync) {
			conditions.MarkFalse(n, v1alpha1.DeletionUnguardedCondition, "Guarded", "")
		}, map[string]float64{}},
		"it is not known whether it is there": {
			func(n *v1alpha1.NodeSync) {
				conditions.MarkUnknown(n, v1alpha1.DeletionUnguardedCondition, "TooOld", "no such policies")
			},
			map[string]float64{},
		},
		"rollouts, one of them frozen": {
			func(n *v1alpha1.NodeSync) {
				n.Status.PoolRollouts = []v1alpha1.PoolRollout{{Pool: "a", Reason: v1alpha1.BrakeFailedLaunches, BrakedAt: &at}, {Pool: "b", Reason: v1alpha1.BrakeFrozen, BrakedAt: &at}, {Pool: "c", Reason: v1alpha1.BrakeFailedLaunches}}
			},
			map[string]float64{"rollout_braked a FailedLaunches": 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, measured(t, c.change)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
