package upgrade

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestRenewal checks renewals if the clock of the controller's node is far ahead of or behind ours.
func TestRenewal(t *testing.T) {
	start := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	type look struct {
		at, renewed time.Duration // by our clock, and by the node's
		fresh       bool
	}
	const hour = time.Hour
	for name, looks := range map[string][]look{
		"the clocks agree":                     {{0, 0, true}, {2 * time.Second, 2 * time.Second, true}, {3 * time.Second, 2 * time.Second, true}},
		"it is renewed no more":                {{0, 0, true}, {20 * time.Second, 0, false}, {30 * time.Second, 0, false}},
		"its clock is behind":                  {{0, -hour, false}, {2 * time.Second, 2*time.Second - hour, true}, {3 * time.Second, 2*time.Second - hour, true}, {30 * time.Second, 28*time.Second - hour, true}},
		"it is behind, and is renewed no more": {{0, -hour, false}, {2 * time.Second, 2*time.Second - hour, true}, {20 * time.Second, 2*time.Second - hour, false}},
		"its clock is ahead":                   {{0, hour, true}, {2 * time.Second, hour + 2*time.Second, true}},
		"it is ahead, and is renewed no more":  {{0, hour, true}, {20 * time.Second, hour, false}, {10 * time.Minute, hour, false}},
		"nobody has looked for long":           {{0, 0, true}, {10 * time.Minute, 5 * time.Minute, false}},
		"our clock was put back":               {{hour, hour, true}, {0, 2 * time.Second, true}},
	} {
		t.Run(name, func(t *testing.T) {
			r, lasts := &Renewal{}, int32(15)
			for i, l := range looks {
				renewed := metav1.NewMicroTime(start.Add(l.renewed))
				lease := &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{RenewTime: &renewed, LeaseDurationSeconds: &lasts}}
				if got := r.fresh(lease, start.Add(l.at)); got != l.fresh {
					t.Errorf("look %d: fresh %t", i+1, got)
				}
			}
		})
	}
}
