package simulate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// InstanceTypes returns the names of the NodePools whose requirements no instance type that EC2 offers in a region
// meets, once a Plan is applied, and a sentence about each, and about those for which this is unknown. It considers
// NodePools if the Plan writes their requirements or their EC2NodeClass. Only if there are any, it reads the
// definitions of the cluster and the instance types.
func (s *Simulator) InstanceTypes(ctx context.Context, region string, made *plan.Plan, live plan.Live) (unlaunchable, words []string) {
	pools := writtenPools(made, live)
	if len(pools) == 0 {
		return nil, nil
	}
	found, err := s.instanceTypes(ctx, region, made, live)
	if err != nil {
		return nil, []string{Undecided(region, finding.Some(pools), err.Error())}
	}
	undecided := map[string][]string{}
	var reasons []string
	for _, name := range pools {
		pool := strings.TrimPrefix(name, render.NodePool+"/")
		if slices.Contains(found.Unlaunchable, pool) {
			unlaunchable, words = append(unlaunchable, pool), append(words, NoInstanceType(region, name))
		} else if why := found.Undecided[pool]; why != "" {
			if undecided[why] == nil {
				reasons = append(reasons, why)
			}
			undecided[why] = append(undecided[why], name)
		}
	}
	for _, why := range reasons {
		words = append(words, Undecided(region, finding.Some(undecided[why]), why))
	}
	return unlaunchable, words
}

// NotAsked replaces InstanceTypes if EC2 is not queried; why is the reason.
func NotAsked(why string) func(context.Context, string, *plan.Plan, plan.Live) (unlaunchable, words []string) {
	return func(_ context.Context, region string, made *plan.Plan, live plan.Live) (unlaunchable, words []string) {
		if pools := writtenPools(made, live); len(pools) > 0 {
			return nil, []string{Undecided(region, finding.Some(pools), why)}
		}
		return nil, nil
	}
}

// NoInstanceType returns the message about a NodePool whose requirements no instance type of a region meets.
func NoInstanceType(region, pool string) string {
	return fmt.Sprintf("no instance type of %s meets %s: it can launch no node", region, pool)
}

// Undecided returns the message about NodePools for which it is unknown whether an instance type of a region meets
// them.
func Undecided(region, pools, why string) string {
	return fmt.Sprintf("unknown whether an instance type of %s meets %s: %s", cmp.Or(region, "an unknown region"), pools, why)
}

// instanceTypes simulates a cluster that contains only definitions.
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

// writtenPools returns, as Kind/name, the NodePools that a Plan creates or changes, and the existing ones that stay and
// whose EC2NodeClass it creates, or changes in a field that affects instance types.
func writtenPools(made *plan.Plan, live plan.Live) []string {
	var pools []string
	classes, known := map[render.Ref]bool{}, map[render.Ref]bool{}
	for i := range made.Removals {
		known[made.Removals[i].Ref] = !made.Removals[i].Orphan
	}
	for i := range made.Changes {
		c := &made.Changes[i]
		if c.Err != nil || !slices.Contains([]plan.Action{plan.Create, plan.Update, plan.Adopt, plan.Hold}, c.Action) {
			continue
		}
		switch c.Ref.Kind {
		case render.NodePool:
			known[c.Ref], pools = true, append(pools, c.Ref.String())
		case render.EC2NodeClass:
			classes[c.Ref] = c.Live == nil || !sameInstanceTypes(c.Live, cmp.Or(c.Wanted(), c.Object.Desired))
		}
	}
	var others []string
	for ref, object := range live.Objects {
		if ref.Kind != render.NodePool || known[ref] {
			continue
		}
		if class, ok := render.Reference(ref, object.Unstructured); ok && classes[class] {
			others = append(others, ref.String())
		}
	}
	slices.Sort(others)
	return append(pools, others...)
}

// sameInstanceTypes reports whether two versions of an EC2NodeClass have the same instance types, according to their
// specs. Of their AMIs, only the family matters.
func sameInstanceTypes(before, after *unstructured.Unstructured) bool {
	return render.AMIFamily(before) == render.AMIFamily(after) && equality.Semantic.DeepEqual(relevant(before), relevant(after))
}

// relevant returns the spec of an EC2NodeClass without the fields that do not affect its instance types
// (karpenter-provider-aws pkg/providers/instancetype, 1.14.1). Unknown fields of a later version may affect them, so
// they are kept.
func relevant(class *unstructured.Unstructured) map[string]any {
	spec, _, _ := unstructured.NestedMap(class.Object, "spec")
	for _, field := range []string{
		"amiSelectorTerms", "associatePublicIPAddress", "context", "detailedMonitoring", "instanceProfile", "metadataOptions", "role",
		"securityGroupSelectorTerms", "tags", "userData",
	} {
		delete(spec, field)
	}
	return spec
}
