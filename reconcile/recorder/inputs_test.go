package recorder

import (
	"testing"
	"time"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// TestWhatHadOutdatedIt checks that for a NodeClaim that drifted without a commit, the inputs in its NodeSync's status
// are recorded, those of its own AMI if there are several, and none if that is uncertain.
func TestWhatHadOutdatedIt(t *testing.T) {
	two := []v1alpha1.DriftInput{{Pool: "general", Reason: "AMIDrift", From: "ami-0", To: "ami-2"}, {Pool: "general", Reason: "AMIDrift", From: "ami-1", To: "ami-2"}}
	for name, c := range map[string]struct {
		image  string
		inputs []v1alpha1.DriftInput
		want   string
	}{
		"one":             {"ami-0", two[:1], "AMIDrift: ami-0 → ami-2"},
		"of two":          {"ami-1", two, "AMIDrift: ami-1 → ami-2"},
		"neither of two":  {"ami-7", two, "AMIDrift"},
		"another reason":  {"ami-1", []v1alpha1.DriftInput{{Pool: "general", Reason: "SubnetDrift", From: "a", To: "b"}}, "AMIDrift"},
		"of another pool": {"ami-1", []v1alpha1.DriftInput{{Pool: "batch", Reason: "AMIDrift", From: "a", To: "b"}}, "AMIDrift"},
	} {
		w := newWorld(t)
		claim := w.launch("a")
		must(t, w.after(time.Second))
		w.status(func(s *v1alpha1.NodeSyncStatus) { s.Rollout = &v1alpha1.Rollout{Inputs: c.inputs} })
		claim.Status.ImageID = c.image
		condition(claim, karpv1.ConditionTypeDrifted, "AMIDrift", w.now)
		condition(claim, karpv1.ConditionTypeDisruptionReason, "Drifted", w.now)
		w.now = w.now.Add(time.Minute)
		w.delete("a")
		must(t, w.after(time.Millisecond)) // it is looked up before it is due to be written
		w.status(func(s *v1alpha1.NodeSyncStatus) { s.Rollout = nil })
		must(t, w.after(writeInterval))
		if got := w.log().Records[0].Detail; got != c.want {
			t.Errorf("%s: %s", name, got)
		}
	}
}
