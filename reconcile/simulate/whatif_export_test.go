package simulate

import (
	"context"
)

// Karpenter returns the call of Karpenter's own simulation that Run makes for the cluster after a commit; it returns
// how many pods can be scheduled.
func Karpenter(ctx context.Context, c *Capture, commit Commit, offers Offers) (simulate func() (pods int, err error), err error) {
	ctx = with(ctx, c.Settings)
	if err := observe(ctx, c, offers); err != nil {
		return nil, err
	}
	definitions, _, _ := ready(c.Definitions, commit.Definitions)
	after, err := newWorld(ctx, c, definitions, offers, commit.Touched)
	if err != nil {
		return nil, err
	}
	return func() (pods int, err error) {
		results, err := after.schedule(ctx)
		for _, n := range results.ExistingNodes {
			pods += len(n.Pods)
		}
		for _, n := range results.NewNodeClaims {
			pods += len(n.Pods)
		}
		return pods, err
	}, nil
}
