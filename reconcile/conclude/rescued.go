package conclude

import (
	"fmt"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

// setNodeClassRescued tells of NodePools that name a copy of the class that Git names for them, for as
// long as they do. A pass that has not come so far leaves what was reported.
func (s *Step) setNodeClassRescued() {
	if s.Set == nil {
		return
	}
	words := make([]string, 0, len(s.Set.Rescues))
	for _, r := range s.Set.Rescues {
		words = append(words, plan.RescueWords(r))
	}
	s.setTrouble(v1alpha1.NodeClassRescuedCondition, v1alpha1.ReasonNodeClassDeleted, finding.Few(words, "; "))
}

// rescuedBrief says in a commit status that all is applied, and what Git has yet to say.
func (s *Step) rescuedBrief() fault.Brief {
	if s.Set == nil || len(s.Set.Rescues) == 0 {
		return fault.Brief{}
	}
	r := s.Set.Rescues[0]
	users := r.Pools[0].String()
	if more := len(r.Pools) - 1; more > 0 {
		users += fmt.Sprintf(" and %d more", more)
	}
	return fault.Brief{What: fmt.Sprintf("applied; %s was deleted: have Git name %s for %s", r.Class, r.By.Name, users)}
}
