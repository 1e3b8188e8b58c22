package whatif

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/capture"
)

// mostRounds is how often Lands simulates at the most.
const mostRounds = 20

// Lands says whether the pods that leave find a place, and nothing of pods that are pending today, or of
// prices: it takes half the memory.
//
// Within one simulation Karpenter counts the largest instance type that a new node may come as against
// the limits of its pool, and tries the pods that have none again once it knows what has come. So does this: the
// smallest counts as what has come, and what finds no place in a round without a new node has none.
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
		if len(s.out.Nowhere) == 0 || !room.take(s.results.NewNodeClaims) || round == mostRounds {
			return s.out, nil
		}
		c = s.without()
	}
}

// without is the cluster with only those of the pods that leave which have no place yet.
func (s *simulation) without() *capture.Capture {
	lost := map[string]bool{}
	for _, pod := range s.out.Nowhere {
		lost[pod.Pod] = true
	}
	less := *s.capture
	less.Pods = slices.DeleteFunc(slices.Clone(less.Pods), func(p corev1.Pod) bool {
		return s.touched[p.Spec.NodeName] && !lost[client.ObjectKeyFromObject(&p).String()]
	})
	return &less
}
