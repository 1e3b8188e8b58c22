package conclude

import (
	"testing"
	"time"

	"github.com/fluxcd/pkg/runtime/conditions"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/report"
	"github.com/plumbline-dev/plumbline/reconcile/report/queue"
)

// TestInstancesThatDiffer are in the status with since when, in a condition with an event when they
// change, and in the commit status about drift; no more once none differs, or nobody compares.
func TestInstancesThatDiffer(t *testing.T) {
	one := v1alpha1.DriftedInstance{ID: "i-1", NodeClaim: "general-1", Pool: "general", Message: "tag team is missing"}
	other := v1alpha1.DriftedInstance{ID: "i-2", Pool: "general", Message: "no NodeClaim has it"}
	const denied = "AWS denies ec2:DescribeInstances"
	old := metav1.NewTime(time.Unix(500, 0))
	before := one
	before.Since = old
	known := &v1alpha1.InstanceDrift{Count: 1, Instances: []v1alpha1.DriftedInstance{before}}
	for name, tc := range map[string]struct {
		before, found *v1alpha1.InstanceDrift
		drifts        []Drift
		// since are those of the status, by ID.
		since  map[string]int64
		says   string
		state  report.State
		events int
	}{
		"none":                 {nil, &v1alpha1.InstanceDrift{}, []Drift{}, map[string]int64{}, "no drift", report.Success, 0},
		"one":                  {nil, &v1alpha1.InstanceDrift{Count: 1, Instances: []v1alpha1.DriftedInstance{one}}, []Drift{}, map[string]int64{"i-1": 1000}, "1 instance differs: i-1 of general: tag team is missing", report.Failure, 1},
		"one more":             {known, &v1alpha1.InstanceDrift{Count: 2, Instances: []v1alpha1.DriftedInstance{one, other}}, []Drift{}, map[string]int64{"i-1": 500, "i-2": 1000}, "2 instances differ: i-1 of general: tag team is missing; i-2 of general: no NodeClaim has it", report.Failure, 1},
		"it is mended":         {known, &v1alpha1.InstanceDrift{}, []Drift{}, map[string]int64{}, "no drift", report.Success, 0},
		"nobody knows yet":     {known, nil, []Drift{}, map[string]int64{"i-1": 500}, "1 instance differs: i-1 of general: tag team is missing", report.Failure, 0},
		"they are unavailable": {known, &v1alpha1.InstanceDrift{Failure: denied}, []Drift{}, map[string]int64{}, "no drift; instances unavailable: " + denied, report.Success, 0},
	} {
		t.Run(name, func(t *testing.T) {
			sync := &v1alpha1.NodeSync{}
			if sync.Status.Instances = tc.before; tc.before != nil {
				(&Step{Sync: sync, Before: &v1alpha1.NodeSync{}}).setInstanceDrift()
			}
			s := &Step{Sync: sync.DeepCopy(), Before: sync, Began: time.Unix(1000, 0)}
			s.Instances, s.Drifts = tc.found, tc.drifts
			s.Now = func() time.Time { return s.Began }
			s.noteInstances()
			s.setInstanceDrift()
			since := map[string]int64{}
			if drift := s.Sync.Status.Instances; drift != nil {
				for _, i := range drift.Instances {
					since[i.ID] = i.Since.Unix()
				}
			}
			if diff := cmp.Diff(tc.since, since); diff != "" {
				t.Errorf("since (-want +got):\n%s", diff)
			}
			u, said := s.sayDrift(queue.Update{})
			if !said || u.Description != tc.says || u.State != tc.state {
				t.Errorf("said %t: %s %q", said, u.State, u.Description)
			}
			if got := conditions.IsTrue(s.Sync, v1alpha1.InstanceDriftCondition); got != (tc.state == report.Failure) {
				t.Errorf("condition %t", got)
			}
			if len(s.Notes) != tc.events {
				t.Errorf("events: %v", s.Notes)
			}
		})
	}
}
