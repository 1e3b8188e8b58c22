package nodes

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

// EC2 is what is asked what instances run in.
type EC2 interface {
	Instances(ctx context.Context, query cloud.Query) ([]cloud.Instance, error)
	// TerminationProtected says whether an instance is protected from being terminated.
	TerminationProtected(ctx context.Context, providerID string) (bool, error)
}

const (
	// maxAsked is how many instances EC2 is asked about: one request.
	maxAsked = 100
	// maxInputs is how many inputs a status has, and maxInput how many bytes each side of one.
	maxInputs, maxInput = 20, 300
)

// instanceMemory is what EC2 has said of instances that are outdated, by provider ID.
type instanceMemory struct {
	running map[string]plan.Running
	// refused is why there is no answer of the others, and asked when it was asked for.
	refused string
	asked   time.Time
}

// inputs are what has outdated nodes, each once, by pool and reason.
func (r *Rollouts) inputs(ctx context.Context, outdated []plan.Outdated) []v1alpha1.DriftInput {
	r.askInstances(ctx, outdated)
	is := map[v1alpha1.DriftInput]bool{}
	for _, o := range outdated {
		is[r.inputOf(o)] = true
	}
	found := slices.SortedFunc(maps.Keys(is), func(a, b v1alpha1.DriftInput) int {
		return cmp.Or(cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To))
	})
	if len(found) <= maxInputs {
		return found
	}
	// What is left out is left out for all nodes of a pool with that reason: the only one counts as
	// that of each.
	first := found[maxInputs]
	return slices.DeleteFunc(found[:maxInputs], func(i v1alpha1.DriftInput) bool { return i.Pool == first.Pool && i.Reason == first.Reason })
}

// inputOf is what has outdated one node, as far as EC2 was asked.
func (r *Rollouts) inputOf(o plan.Outdated) v1alpha1.DriftInput {
	known := &r.Memory.instances
	running, answered := known.running[o.Claim.ProviderID]
	unknown := ""
	if o.OfInstance() && !answered {
		unknown = cmp.Or(known.refused, "EC2 was not asked about its instance")
	}
	input := r.matching(true).Input(o, running, unknown)
	return v1alpha1.DriftInput{Pool: o.Claim.Pool, Reason: o.Reason, From: finding.Bounded(input.From, maxInput), To: finding.Bounded(input.To, maxInput)}
}

// askInstances asks EC2 what instances run in that are outdated by that, each once. An answer that
// does not come is asked for again after a minute.
func (r *Rollouts) askInstances(ctx context.Context, outdated []plan.Outdated) {
	known := &r.Memory.instances
	query := cloud.Query{}
	for _, o := range outdated {
		id := o.Claim.ProviderID
		if _, answered := known.running[id]; o.OfInstance() && id != "" && !answered && len(known.running)+len(query.ProviderIDs) < maxAsked {
			query.ProviderIDs = append(query.ProviderIDs, id)
		}
	}
	switch {
	case len(query.ProviderIDs) == 0 || r.EC2 == nil:
		return
	case known.refused != "" && !finding.Due(r.Now, known.asked, askEvery):
		r.WakeBy(known.asked.Add(askEvery))
		return
	}
	known.asked, known.refused = r.Now, ""
	instances, err := r.shown(ctx, query)
	if known.running == nil {
		known.running = map[string]plan.Running{}
	}
	for _, i := range instances {
		known.running[i.ProviderID()] = plan.Running{Subnet: i.Subnet, SecurityGroups: i.SecurityGroups, Reservation: i.Reservation}
	}
	switch missing := slices.ContainsFunc(query.ProviderIDs, func(id string) bool { _, answered := known.running[id]; return !answered }); {
	case err != nil:
		known.refused = strings.TrimSuffix(err.Error(), "\n")
	case missing:
		known.refused = "EC2 does not show its instance"
	}
	if known.refused != "" {
		r.WakeBy(r.Now.Add(askEvery))
	}
}

// forget leaves what is known of the instances of nodes that are outdated: one that is outdated later
// may run in something else by then.
func (m *instanceMemory) forget(but []plan.Outdated) {
	kept := map[string]bool{}
	for _, o := range but {
		kept[o.Claim.ProviderID] = true
	}
	maps.DeleteFunc(m.running, func(id string, _ plan.Running) bool { return !kept[id] })
}

func (r *Rollouts) shown(ctx context.Context, query cloud.Query) ([]cloud.Instance, error) {
	ec2, err := r.EC2(ctx)
	if err != nil {
		return nil, err
	}
	return ec2.Instances(ctx, query)
}
