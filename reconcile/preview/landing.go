package preview

import (
	"context"
	"strings"

	"github.com/plumbline-dev/plumbline/reconcile/observe"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

// land makes a Plan once more, where it has removals, by which of their pods find no place elsewhere: as a pass does,
// which holds them for that.
func (s *Step) land(ctx context.Context, made *plan.Plan, policy plan.Policy, ask plan.Ask) (*plan.Plan, error) {
	if s.Landing == nil || !policy.Guard.UnschedulablePods.Holds() || len(made.Lands()) == 0 {
		return made, nil
	}
	nowhere, err := s.Landing(ctx, made, s.out.Live)
	if err != nil {
		s.warn("whether the pods of %s find a place elsewhere is not known: %v", strings.Join(made.Lands(), ", "), err)
		return made, nil
	}
	policy.Landing = plan.Landing{Known: true, Nowhere: nowhere}
	return plan.MakeExact(ctx, s.out.Set, s.out.Live, policy, s.out.Schema, ask, observe.Loads(s.view.Uncached))
}
