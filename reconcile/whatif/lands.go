package whatif

import (
	"context"

	"github.com/plumbline-dev/plumbline/reconcile/capture"
)

// mostRounds is how often Lands simulates at the most.
const mostRounds = 20

// Lands says whether the pods that leave find a place, and nothing of pods that are pending today, or of
// prices: it takes half the memory.
//
// Within one simulation Karpenter counts the largest instance type that a new node may come as against
// the limits of its pool, and takes one that may come in several zones to be in each of them. It tries the pods that have no
// place again once it knows what has come. So does this: the smallest counts as what has come, in its cheapest zone, and
// what finds no place in a round without a new node has none.
func Lands(ctx context.Context, c *capture.Capture, commit Commit, offers Offers) (*Outcome, error) {
	ctx = with(ctx, c.Settings)
	if err := observe(ctx, c, offers); err != nil {
		return nil, err
	}
	c = forced(c, commit.Touched)
	room, err := roomOf(commit.Definitions, c)
	if err != nil {
		return nil, err
	}
	for round := 1; ; round++ {
		s := &simulation{capture: c, commit: commit}
		s.commit.Definitions = room.within(commit.Definitions)
		if err := s.land(ctx, offers); err != nil {
			return nil, err
		}
		if len(s.out.Nowhere) == 0 || len(s.results.NewNodeClaims) == 0 || round == mostRounds {
			return s.out, nil
		}
		c = s.launched()
	}
}
