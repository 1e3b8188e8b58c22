package simulate

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

func whole(*Capture, map[types.UID]bool, []*corev1.Pod) part { return part{whole: true} }

// RunWhole is Run with all nodes and all instance types in the simulation.
func RunWhole(ctx context.Context, c *Capture, commit Commit, offers Offers) (*Outcome, error) {
	return run(ctx, c, commit, offers, whole)
}

// LeftOut returns the provider IDs of the nodes that Run leaves out of the simulation of a commit.
func LeftOut(ctx context.Context, c *Capture, commit Commit) map[string]bool {
	buffered, _ := placeholdersOf(ctx, c, commit.Definitions)
	return relevantPart(c, commit.Touched, buffered.pods).without
}

// Karpenter returns the call of Karpenter's own simulation that Run makes for the cluster after a commit, or the same
// call with the whole cluster; it returns how many pods can be scheduled.
func Karpenter(ctx context.Context, c *Capture, commit Commit, offers Offers, all bool) (simulate func() (pods int, err error), err error) {
	ctx = with(ctx, c.Settings)
	if err := observe(ctx, c, offers); err != nil {
		return nil, err
	}
	definitions, _, _ := ready(c.Definitions, commit.Definitions)
	of := relevantPart
	if all {
		of = whole
	}
	after, err := newWorld(ctx, c, definitions, offers, commit.Touched, of)
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

// Served returns the names of the instance types of a NodePool that the scheduler gets in the simulation of a commit.
func Served(ctx context.Context, c *Capture, commit Commit, offers Offers, pool string) (names []string, err error) {
	w, err := newWorld(with(ctx, c.Settings), c, commit.Definitions, offers, commit.Touched, relevantPart)
	if err != nil {
		return nil, err
	}
	found := &karpv1.NodePool{}
	if err := w.client.Get(ctx, types.NamespacedName{Name: pool}, found); err != nil {
		return nil, err
	}
	served, err := w.alike.GetInstanceTypes(with(ctx, c.Settings), found)
	for _, t := range served {
		names = append(names, t.Name)
	}
	return names, err
}
