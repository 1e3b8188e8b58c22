package policy

import (
	"context"
	"strings"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

// land makes a Plan once more by which pools with nodes leave, or would if people approved it, with what is known of where their pods can go.
func (s *Step) land(ctx context.Context, made *plan.Plan, live plan.Live, policy plan.Policy) (*plan.Plan, error) {
	if !s.asksLanding(made, policy.Guard) {
		return made, nil
	}
	landing, wake := s.Landing(ctx, made, live)
	s.WakeBy(wake)
	if landing.Unknown != "" {
		s.Warn(v1alpha1.ReasonNotSimulated, "whether the pods of "+strings.Join(made.Lands(), ", ")+" find a place elsewhere is not known, and not held for: "+landing.Unknown)
	}
	live.Memo, policy.Landing = made.Memo, landing
	return plan.MakeExact(ctx, s.Set, live, policy, s.Schema, s.Resolve, s.readLoads())
}

// asksLanding reports whether a Plan has removals that are held for pods that find no place elsewhere.
func (s *Step) asksLanding(made *plan.Plan, guard v1alpha1.Guard) bool {
	return s.Landing != nil && guard.UnschedulablePods.Holds() && made.Refused == nil && len(made.Lands()) > 0
}
