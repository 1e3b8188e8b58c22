package review_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/report"
	"github.com/plumbline-dev/plumbline/reconcile/review"
	"github.com/plumbline-dev/plumbline/render"
)

// TestWhatIsKnownOfInstanceTypesIsAWarning: it uses the Plan and the cluster's region, stops nothing, and is in the
// comment.
func TestWhatIsKnownOfInstanceTypesIsAWarning(t *testing.T) {
	words, asked := "no instance type of eu-west-1 meets NodePool/web: it can launch no node", ""
	made := withoutAPool(t, "", karpv1.CapacityTypeOnDemand, func(s *review.Step) {
		s.InstanceTypes = func(_ context.Context, region string, made *plan.Plan, live plan.Live) (unlaunchable, said []string) {
			if asked = region; made == nil || len(live.Objects) == 0 {
				t.Error("it is asked without a Plan or without what lives")
			}
			return []string{"web"}, []string{words}
		}
	})
	if !slices.Equal(made.Unlaunchable, []string{"web"}) {
		t.Errorf("no instance type meets %q", made.Unlaunchable)
	}
	if made.Stopped != nil || asked == "" || !slices.Contains(made.Warnings, words) {
		t.Errorf("asked of region %q, stopped by %v, warnings %q", asked, made.Stopped, made.Warnings)
	}
	comment := review.Of(review.Input{Preview: made, Branch: "main"}).Markdown(review.Title{NodeSync: "prod", Cluster: "prod", Commit: "a"}, report.Markup{HTML: true, Most: 1 << 16})
	if !strings.Contains(comment, words) {
		t.Errorf("the comment: %s", comment)
	}
}

// TestPodsThatFindNoPlace shows that unschedulable pods cause a hold, as in a reconcile, if they are simulated.
func TestPodsThatFindNoPlace(t *testing.T) {
	nowhere := map[string][]plan.Unschedulable{"general": {{Pod: "web/a", Reason: "no capacity"}}}
	for name, c := range map[string]struct {
		nowhere map[string][]plan.Unschedulable
		err     error
		ignores bool
		held    bool
		warns   bool
	}{
		"one finds none":            {nowhere: nowhere, held: true},
		"all find one":              {},
		"it does not matter":        {nowhere: nowhere, ignores: true},
		"nobody knows whether they": {err: errors.New("EC2 is away"), warns: true},
	} {
		t.Run(name, func(t *testing.T) {
			made := withoutAPool(t, "", karpv1.CapacityTypeOnDemand, func(s *review.Step) {
				s.Sync.Status.LastAppliedRevision = "main@sha1:a"
				s.Sync.Status.Removals = []v1alpha1.Removal{{Kind: render.NodePool, Name: "general", UID: "p", Revision: "main@sha1:a", Phase: v1alpha1.RemovalPacing}}
				if c.ignores {
					s.Sync.Spec.Guard.UnschedulablePods = v1alpha1.UnschedulablePodsIgnore
				}
				s.Landing = func(context.Context, *plan.Plan, plan.Live) (map[string][]plan.Unschedulable, error) {
					return c.nowhere, c.err
				}
			})
			r := made.Plan.Removals
			if len(r) != 1 || r[0].Held != c.held || c.held && (r[0].Reason != plan.ReasonUnschedulablePods || !strings.Contains(r[0].Message, "web/a (no capacity)")) {
				t.Errorf("removals %+v", r)
			}
			const warning = "whether the pods of NodePool/general find a place elsewhere is not known: EC2 is away"
			if slices.Contains(made.Warnings, warning) != c.warns {
				t.Errorf("warnings %q", made.Warnings)
			}
		})
	}
}
