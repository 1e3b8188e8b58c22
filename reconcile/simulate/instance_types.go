package simulate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// InstanceTypes returns a sentence for each NodePool that a Plan writes and whose requirements no instance type meets that EC2
// offers in a region, and for those of which that is unknown. It reads the definitions of the cluster and the instance types only
// if the Plan writes a NodePool.
func (s *Simulator) InstanceTypes(ctx context.Context, region string, made *plan.Plan, live plan.Live) []string {
	pools := writtenPools(made)
	if len(pools) == 0 {
		return nil
	}
	found, err := s.instanceTypes(ctx, region, made, live)
	if err != nil {
		return []string{Undecided(region, finding.Some(pools), err.Error())}
	}
	var words []string
	for _, name := range pools {
		pool := strings.TrimPrefix(name, render.NodePool+"/")
		if slices.Contains(found.Unlaunchable, pool) {
			words = append(words, NoInstanceType(region, name))
		} else if why := found.Undecided[pool]; why != "" {
			words = append(words, Undecided(region, name, why))
		}
	}
	return words
}

// NotAsked returns what InstanceTypes returns if EC2 is not queried, and why.
func NotAsked(why string) func(context.Context, string, *plan.Plan, plan.Live) []string {
	return func(_ context.Context, region string, made *plan.Plan, _ plan.Live) []string {
		if pools := writtenPools(made); len(pools) > 0 {
			return []string{Undecided(region, finding.Some(pools), why)}
		}
		return nil
	}
}

// NoInstanceType reports a NodePool whose requirements no instance type of a region meets.
func NoInstanceType(region, pool string) string {
	return fmt.Sprintf("no instance type of %s meets %s: it can launch no node", region, pool)
}

// Undecided reports NodePools of which is unknown whether an instance type of a region meets them.
func Undecided(region, pools, why string) string {
	return fmt.Sprintf("unknown whether an instance type of %s meets %s: %s", cmp.Or(region, "an unknown region"), pools, why)
}

// instanceTypes simulates a cluster that has only definitions.
func (s *Simulator) instanceTypes(ctx context.Context, region string, made *plan.Plan, live plan.Live) (answered, error) {
	if region == "" {
		return answered{}, errors.New("EC2 cannot be queried")
	}
	catalog, err := s.Catalogs.of(ctx, region, s.Now())
	if err != nil {
		return answered{}, err
	}
	r := newReading(s.Reader, s.Now())
	if err := errors.Join(r.allDefinitions(ctx), r.settings(ctx, s.Namespaces)); err != nil {
		return answered{}, err
	}
	commit, _ := CommitOf(made, live, r.into.Definitions)
	return simulate(ctx, s.Confine, r.into, catalog, commit)
}

// writtenPools returns the NodePools that a Plan creates or changes, as Kind/name.
func writtenPools(made *plan.Plan) []string {
	var pools []string
	for i := range made.Changes {
		c := &made.Changes[i]
		if c.Ref.Kind == render.NodePool && c.Err == nil && slices.Contains([]plan.Action{plan.Create, plan.Update, plan.Adopt, plan.Hold}, c.Action) {
			pools = append(pools, c.Ref.String())
		}
	}
	return pools
}
