package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/provision/cloud/offers"
	"github.com/plumbline-dev/plumbline/reconcile/capture"
	"github.com/plumbline-dev/plumbline/reconcile/observe"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/preview"
	"github.com/plumbline-dev/plumbline/reconcile/whatif"
	"github.com/plumbline-dev/plumbline/render"
)

// whatIfOptions are the flags of a what-if.
type whatIfOptions struct {
	on       bool
	snapshot string
}

func (o *whatIfOptions) addFlags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&o.on, "what-if", false, "simulate with Karpenter's own scheduling where pods would go, and what nodes would cost")
	cmd.Flags().StringVar(&o.snapshot, "snapshot", "", "compare the folder with this file of plumbline snapshot, not with a cluster")
}

// check says what a what-if lacks.
func (o *whatIfOptions) check(of string, isFolder bool, against string) error {
	if !isFolder && o.snapshot != "" {
		return fmt.Errorf("%s is not a folder: --snapshot compares a folder with a file of plumbline snapshot", of)
	}
	if o.on && isFolder && against == "" && o.snapshot == "" {
		return errors.New("--what-if needs a cluster, by --against NODESYNC, or a file of plumbline snapshot, by --snapshot FILE")
	}
	return nil
}

// whatIfReport is what a what-if comes to.
type whatIfReport struct {
	// Unavailable is why there is none.
	Unavailable string `json:"unavailable,omitempty"`
	*whatif.Outcome
}

// simulate simulates a Plan over the cluster, or over the snapshot that it was compared with. What
// cannot be simulated is printed, and the rest of the plan stands.
func (o *planOptions) simulate(ctx context.Context, c *cluster, p *planned) error {
	if !o.whatIf.on || p.Plan == nil {
		return nil
	}
	taken := p.taken
	if taken == nil {
		var err error
		if taken, err = capture.Read(ctx, c, time.Now()); err != nil {
			return explain(err, "simulate where pods would go")
		}
	}
	out, err := o.outcome(ctx, p, taken)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	p.whatIf = &whatIfReport{Outcome: out}
	if err != nil {
		p.whatIf.Unavailable = err.Error()
	}
	return nil
}

func (o *planOptions) outcome(ctx context.Context, p *planned, taken *capture.Capture) (*whatif.Outcome, error) {
	if taken.Catalog == nil && !o.aws {
		return nil, fmt.Errorf("the instance types of %s are not known without AWS: add --aws, here or to plumbline snapshot", orUnknown(taken.Region()))
	}
	if taken.Catalog == nil {
		var err error
		if taken.Catalog, err = catalogOf(ctx, taken.Region()); err != nil {
			return nil, err
		}
	}
	offered, err := offers.New(ctx, taken.Catalog, taken.Settings.Settings)
	if err != nil {
		return nil, err
	}
	return preview.WhatIf(ctx, p.Plan, p.live, taken, offered)
}

func orUnknown(region string) string {
	if region == "" {
		return "the cluster's region"
	}
	return region
}

// planSnapshot compares a folder with a snapshot. Of the NodeSync it knows what its label says: which
// definitions are its own, and so leave when Git has them no more.
func (o *planOptions) planSnapshot(ctx context.Context, folder string) (*planned, error) {
	taken, err := readSnapshot(o.whatIf.snapshot)
	if err != nil {
		return nil, err
	}
	r, err := renderFolder(ctx, folder, o.crds, true)
	if err != nil {
		return nil, err
	}
	under := *taken
	under.Definitions = taken.WithUserData(userDataOf(r.set))
	served, err := capture.NewClient(&under)
	if err != nil {
		return nil, fmt.Errorf("read the snapshot %s: %w", o.whatIf.snapshot, err)
	}
	live, err := observe.Live(ctx, served)
	if err != nil {
		return nil, fmt.Errorf("read the snapshot %s: %w", o.whatIf.snapshot, err)
	}
	live.Served = true
	owner, err := o.ownerIn(live)
	if err != nil {
		return nil, err
	}
	made, err := plan.Make(ctx, r.set, live, plan.Policy{Owner: owner, NewRevision: true, Now: taken.TakenAt}, r.schema)
	if err != nil {
		return nil, err
	}
	made.Warnings = append(made.Warnings, r.set.Warnings...)
	made.Warnings = append(made.Warnings, fmt.Sprintf("compared with a snapshot of %s: charts, other NodeSyncs and the guard's settings are not known", taken.TakenAt.Format(time.DateTime+" MST")))
	if r.unchecked != "" {
		made.Warnings = append(made.Warnings, r.unchecked)
	}
	whole := &planned{Plan: made, live: live, taken: &under}
	return whole, o.simulate(ctx, nil, whole)
}

// userDataOf finds the user data that a Set has for an EC2NodeClass.
func userDataOf(set *render.Set) func(class string) string {
	return func(class string) string {
		for i := range set.Objects {
			if ref := set.Objects[i].Ref; ref.Kind == render.EC2NodeClass && ref.Name == class {
				data, _, _ := unstructured.NestedString(set.Objects[i].Desired.Object, "spec", "userData")
				return data
			}
		}
		return ""
	}
}

// ownerIn is the NodeSync whose definitions a snapshot has: that of --against, or the only one.
func (o *planOptions) ownerIn(live plan.Live) (plan.Owner, error) {
	owners := map[plan.Owner]bool{}
	for _, object := range live.Objects {
		if owner, named := plan.OwnerNamed(object); named && (o.against == "" || o.against == owner.Name) {
			owners[owner] = true
		}
	}
	switch found := slices.Collect(maps.Keys(owners)); {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return plan.Owner{}, errors.New("the snapshot has definitions of several NodeSyncs: say which with --against")
	case o.against != "":
		return plan.Owner{}, fmt.Errorf("the snapshot has no definition of NodeSync %s", o.against)
	}
	return plan.Owner{}, nil
}
