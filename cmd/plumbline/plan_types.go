package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/plumbline-dev/plumbline/provision/cloud/offers"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/review"
	"github.com/plumbline-dev/plumbline/reconcile/simulate"
	"github.com/plumbline-dev/plumbline/render"
)

// seeInstanceTypes warns of NodePools that the plan writes and of which no instance type of the region meets the requirements, and of
// those of which that is unknown. It queries EC2 only if the plan writes a NodePool. A what-if reports the same with the rest.
func (p *planned) seeInstanceTypes(ctx context.Context, region string, catalog func(ctx context.Context, region string) (*offers.Catalog, error)) {
	pools := p.writtenPools()
	if len(pools) == 0 {
		return
	}
	unknown := func(name, why string) {
		p.Warnings = append(p.Warnings, fmt.Sprintf("unknown whether an instance type of %s meets %s: %s", orUnknown(region), name, why))
	}
	found, err := catalog(ctx, region)
	if err != nil {
		unknown(finding.Some(pools), err.Error())
		return
	}
	offered, err := offers.New(ctx, found, offers.Defaults())
	if err != nil {
		unknown(finding.Some(pools), err.Error())
		return
	}
	there := &simulate.Capture{Settings: simulate.Settings{Settings: offers.Defaults()}}
	for ref, object := range p.live.Objects {
		if ref.Kind == render.NodePool || ref.Kind == render.EC2NodeClass {
			there.Definitions = append(there.Definitions, object.Object)
		}
	}
	out, err := review.WhatIf(ctx, p.Plan, p.live, there, offered)
	if err != nil {
		unknown(finding.Some(pools), err.Error())
		return
	}
	for _, name := range pools {
		pool := strings.TrimPrefix(name, render.NodePool+"/")
		if slices.Contains(out.Unlaunchable, pool) {
			p.Warnings = append(p.Warnings, noInstanceType(region, name))
		}
		if why, is := out.Undecided[pool]; is {
			unknown(name, why)
		}
	}
}

// writtenPools returns the NodePools that the plan creates or changes, as Kind/name.
func (p *planned) writtenPools() []string {
	var pools []string
	for i := range p.Changes {
		c := &p.Changes[i]
		if c.Ref.Kind == render.NodePool && c.Err == nil && slices.Contains([]plan.Action{plan.Create, plan.Update, plan.Adopt, plan.Hold}, c.Action) {
			pools = append(pools, c.Ref.String())
		}
	}
	return pools
}
