package removal_test

import (
	"testing"

	"github.com/awslabs/operatorpkg/status"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/removal"
)

// TestStrands checks that an instance is stranded if Karpenter cannot work on it any more, according to its NodeClaim's
// conditions, or if its ID was noted and no NodeClaim has it.
func TestStrands(t *testing.T) {
	const yes, unknown = metav1.ConditionTrue, metav1.ConditionUnknown
	drained := map[string]metav1.ConditionStatus{karpv1.ConditionTypeDrained: yes, karpv1.ConditionTypeVolumesDetached: yes}
	claimed := func(pool string, deleted bool, conditions map[string]metav1.ConditionStatus) karpv1.NodeClaim {
		claim := karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{karpv1.NodePoolLabelKey: pool}}}
		claim.Status.ProviderID, claim.Status.NodeName = "aws:///eu-west-1a/i-0a1", "ip-1"
		if deleted {
			claim.DeletionTimestamp = &metav1.Time{}
		}
		for kind, is := range conditions {
			claim.Status.Conditions = append(claim.Status.Conditions, status.Condition{Type: kind, Status: is, LastTransitionTime: metav1.Now()})
		}
		return claim
	}
	unlaunched := claimed("general", true, nil)
	unlaunched.Status.ProviderID = ""
	with := func(more map[string]metav1.ConditionStatus) map[string]metav1.ConditionStatus {
		all := map[string]metav1.ConditionStatus{}
		for _, each := range []map[string]metav1.ConditionStatus{drained, more} {
			for kind, is := range each {
				all[kind] = is
			}
		}
		return all
	}
	only := func(isDrained bool, why string) []removal.Stranded {
		return []removal.Stranded{{ID: "i-0a1", Claim: "a", Node: "ip-1", Drained: isDrained, Why: why}}
	}
	ready := func(claim karpv1.NodeClaim) karpv1.NodeClaim {
		claim.Status.NodeName = "ip-ready"
		return claim
	}
	cases := map[string]struct {
		claim karpv1.NodeClaim
		noted []string
		runs  bool
		want  []removal.Stranded
		busy  int
	}{
		"drained, and left":           {claimed("general", true, drained), nil, true, only(true, "Karpenter has drained it but does not terminate it"), 0},
		"not drained at all":          {claimed("general", true, nil), nil, true, only(false, "its NodeClaim is deleted, but Karpenter does not drain it"), 0},
		"an older Karpenter drains":   {ready(claimed("general", true, nil)), nil, true, nil, 1},
		"its removal is held":         {claimed("held", false, nil), nil, false, nil, 1},
		"held, and ended by another":  {claimed("held", true, nil), nil, false, only(false, "Karpenter's controller does not run"), 0},
		"its pods are evicted":        {claimed("general", true, map[string]metav1.ConditionStatus{karpv1.ConditionTypeDrained: unknown}), nil, true, nil, 1},
		"its volumes are detached":    {claimed("general", true, with(map[string]metav1.ConditionStatus{karpv1.ConditionTypeVolumesDetached: unknown})), nil, true, nil, 1},
		"EC2 is ending it":            {claimed("general", true, with(map[string]metav1.ConditionStatus{karpv1.ConditionTypeInstanceTerminating: yes})), nil, true, nil, 1},
		"nobody has deleted it":       {claimed("general", false, nil), nil, true, nil, 1},
		"no controller runs":          {claimed("general", false, nil), nil, false, only(false, "Karpenter's controller does not run"), 0},
		"no controller, and draining": {claimed("general", true, map[string]metav1.ConditionStatus{karpv1.ConditionTypeDrained: unknown}), nil, false, only(false, "Karpenter's controller does not run"), 0},
		"of another pool":             {claimed("other", true, drained), []string{"aws:///eu-west-1a/i-0a1"}, true, nil, 0},
		"never launched":              {unlaunched, nil, false, nil, 1},
		"noted only":                  {claimed("other", true, nil), []string{"aws:///eu-west-1a/i-0b2", "kwok://b"}, true, []removal.Stranded{{ID: "i-0b2", Why: "its NodeClaim no longer exists"}}, 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, busy := removal.FindStranded([]karpv1.NodeClaim{c.claim}, removal.Standing{
				Pools: map[string]bool{"general": true, "held": false}, Ready: map[string]bool{"ip-ready": true}, Noted: c.noted, Runs: c.runs,
			})
			if diff := cmp.Diff(c.want, got); diff != "" || busy != c.busy {
				t.Errorf("busy with %d, want %d; stranded (-want +got):\n%s", busy, c.busy, diff)
			}
		})
	}
}
