package policy

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

// loadsLast is how long what was read of nodes counts: a commit may be held for hours, and many passes plan it again.
const loadsLast = time.Minute

// loads are what was read of nodes, about which, and when.
type loads struct {
	about string
	at    time.Time
	found map[types.UID]plan.Load
}

// readLoads reads what Karpenter's consolidation looks at of nodes, at most once a minute for the same nodes; nil reads nothing.
func (s *Step) readLoads() plan.ReadLoads {
	if s.Loads == nil {
		return nil
	}
	return func(ctx context.Context, questions []plan.LoadQuestion) map[types.UID]plan.Load {
		about := ""
		for _, q := range questions {
			about += fmt.Sprintf("%s %t", q.Pool, q.Pods)
			for _, claim := range q.Claims {
				about += " " + string(claim.UID)
			}
			about += "\n"
		}
		if known := s.Memory.loads; known.about == about && s.Now.Before(known.at.Add(loadsLast)) && !s.Now.Before(known.at) {
			return known.found
		}
		s.Memory.loads = loads{about: about, at: s.Now, found: s.Loads(ctx, questions)}
		return s.Memory.loads.found
	}
}
