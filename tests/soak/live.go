package soak

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// live returns the cluster's definitions as a fleet.
func (s *soak) live(ctx context.Context) (fleet, error) {
	pools, err := s.objects.Resource(poolResource).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fleet{}, err
	}
	classes, err := s.objects.Resource(classResource).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fleet{}, err
	}
	return fleetOf(pools.Items, classes.Items), nil
}

// fleetOf returns the fleet whose files would contain the same definitions.
func fleetOf(pools, classes []unstructured.Unstructured) fleet {
	f := fleet{pools: map[string]pool{}, classes: map[string]class{}}
	for _, object := range pools {
		f.pools[object.GetName()] = livePool(object)
	}
	for _, object := range classes {
		team, _, _ := unstructured.NestedString(object.Object, "spec", "tags", "team")
		f.classes[object.GetName()] = class{team: team}
	}
	return f
}

func livePool(object unstructured.Unstructured) pool {
	var p pool
	p.class, _, _ = unstructured.NestedString(object.Object, "spec", "template", "spec", "nodeClassRef", "name")
	weight, _, _ := unstructured.NestedFieldNoCopy(object.Object, "spec", "weight")
	cpu, _, _ := unstructured.NestedFieldNoCopy(object.Object, "spec", "limits", "cpu")
	if _, err := fmt.Sscan(fmt.Sprint(weight, " ", cpu), &p.weight, &p.cpu); err != nil || object.GetDeletionTimestamp() != nil {
		p.cpu = -1 // being removed, or without a limit: never a value in Git
	}
	return p
}

// difference returns what of the live fleet matches none of the fleets in said; empty if there is nothing. An edited
// pool may have its edited weight.
func difference(live fleet, edited map[string]int, said ...fleet) string {
	all := append(slices.Clone(said), live)
	for _, name := range namesIn(all, fleet.poolNames) {
		is, there := live.pools[name]
		if !slices.ContainsFunc(said, func(f fleet) bool {
			wanted, wants := f.pools[name]
			if weight, was := edited[name]; was && is.weight == weight {
				wanted.weight = weight
			}
			return wants == there && (!wants || wanted == is)
		}) {
			wanted, wants := said[0].pools[name]
			return fmt.Sprintf("pool %s: Git has it %v, %+v; the cluster %v, %+v", name, wants, wanted, there, is)
		}
	}
	for _, name := range namesIn(all, fleet.classNames) {
		is, there := live.classes[name]
		if !slices.ContainsFunc(said, func(f fleet) bool {
			wanted, wants := f.classes[name]
			return wants == there && wanted == is
		}) {
			wanted, wants := said[0].classes[name]
			return fmt.Sprintf("class %s: Git has it %v, %+v; the cluster %v, %+v", name, wants, wanted, there, is)
		}
	}
	return ""
}

// namesIn returns the names of one kind in several fleets, in order.
func namesIn(fleets []fleet, of func(fleet) []string) []string {
	var all []string
	for _, f := range fleets {
		all = append(all, of(f)...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}
