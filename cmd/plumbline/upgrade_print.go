package main

import (
	"fmt"
	"io"

	"github.com/plumbline-dev/plumbline/provision/karpenter"
)

// upgradeReport is what `plumbline upgrade` prints.
type upgradeReport struct {
	From string      `json:"from"`
	To   string      `json:"to"`
	Hops []hopReport `json:"hops"`
	// Written is the version that was written into plumbline.yaml.
	Written string `json:"written,omitempty"`
}

// hopReport is a hop, and what it does to the nodes of each pool of a cluster,
// where one was asked.
type hopReport struct {
	karpenter.Hop
	Pools []poolForecast `json:"pools,omitempty"`
}

// newUpgradeReport finds the way. Of the values that are gone it keeps those that
// are used; all of them where it is not known what is used.
func newUpgradeReport(from, to string, values map[string]any) (*upgradeReport, error) {
	hops, err := karpenter.Path(from, to)
	if err != nil {
		return nil, err
	}
	report := &upgradeReport{From: from, To: to, Hops: []hopReport{}}
	for _, hop := range hops {
		if values != nil {
			if hop.Settings, err = karpenter.Gone(values, hop.From, hop.To); err != nil {
				return nil, err
			}
		}
		report.Hops = append(report.Hops, hopReport{Hop: hop})
	}
	return report, nil
}

// print shows the way to people.
func (r *upgradeReport) print(out io.Writer) error {
	if len(r.Hops) == 0 {
		_, err := fmt.Fprintf(out, "nothing to do: the version is %s\n", r.From)
		return err
	}
	for i, hop := range r.Hops {
		if i > 0 {
			fmt.Fprintln(out)
		}
		fmt.Fprintf(out, "%s → %s\n", hop.From, hop.To)
		fmt.Fprintf(out, "  kubernetes  %s\n", hop.Kubernetes)
		printNeeds(out, "first", hop.Before)
		printNeeds(out, "iam", hop.Permissions)
		printNeeds(out, "values", hop.Settings)
		printNeeds(out, "nodes", hop.Hashes)
		printNeeds(out, "pools", hop.Pools)
		printNeeds(out, "note", hop.Notes)
	}
	if r.Written != "" {
		fmt.Fprintf(out, "\nwritten: version %s\n", r.Written)
		if r.Written != r.To {
			fmt.Fprintf(out, "commit it, and once it has succeeded ask for %s again\n", r.To)
		}
	}
	return nil
}

// printNeeds shows what a hop needs of one kind, a line each.
func printNeeds[T any](out io.Writer, kind string, needs []T) {
	for _, need := range needs {
		fmt.Fprintf(out, "  %-10s  %v\n", kind, need)
		kind = ""
	}
}
