package simulate

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling"
	karpscheduling "sigs.k8s.io/karpenter/pkg/scheduling"
	"sigs.k8s.io/karpenter/pkg/utils/resources"
)

// alike serves, of all instance types that Karpenter's scheduler cannot distinguish for these NodePools and pods, only
// the cheapest: for each pod, the scheduler checks each instance type that a new node may have.
type alike struct {
	cloudprovider.CloudProvider
	// selections are the requirements of NodePools, pods, DaemonSets and volumes on labels of instance types, by key.
	selections map[string][]*karpscheduling.Requirement
	// exact are the keys whose values count, not only whether they are selected: of topology domains and minValues.
	exact map[string]bool
	// requested are the resources that pods request, and limited those that limits of NodePools name.
	requested, limited map[string]bool
	known              map[*cloudprovider.InstanceType]kindOfType
	// of are the instance types that the served ones stand for, by NodePool.
	of map[string]members
}

// members are the instance types that each served one stands for.
type members map[*cloudprovider.InstanceType]cloudprovider.InstanceTypes

// kindOfType is what the scheduler distinguishes, and the prices of the offerings.
type kindOfType struct {
	name   string
	prices []float64
}

// newAlike returns the instance types of a world for pods.
func (w *world) newAlike(ctx context.Context, c *Capture, pods []*corev1.Pod) (*alike, error) {
	pools := &karpv1.NodePoolList{}
	if err := w.client.List(ctx, pools); err != nil {
		return nil, err
	}
	a := &alike{
		CloudProvider: w.cloud, selections: map[string][]*karpscheduling.Requirement{},
		exact: map[string]bool{}, requested: map[string]bool{}, limited: map[string]bool{},
		known: map[*cloudprovider.InstanceType]kindOfType{}, of: map[string]members{},
	}
	selected := volumeSelections(c)
	for i := range pools.Items {
		template := &pools.Items[i].Spec.Template
		selected = append(selected, karpscheduling.NewLabelRequirements(template.Labels).Values()...)
		for _, r := range template.Spec.Requirements {
			made := karpscheduling.NewRequirement(r.Key, r.Operator, slices.Clone(r.Values)...)
			selected = append(selected, made)
			a.exact[made.Key] = a.exact[made.Key] || r.MinValues != nil
		}
		for name := range pools.Items[i].Spec.Limits {
			a.limited[string(name)] = true
		}
	}
	for i := range c.DaemonSets {
		pods = append(slices.Clip(pods), &corev1.Pod{Spec: c.DaemonSets[i].Spec.Template.Spec})
		if newest := w.cluster.GetDaemonSetPod(&c.DaemonSets[i]); newest != nil {
			pods = append(pods, newest)
		}
	}
	for i := range c.Pods {
		for _, term := range apartFrom(&c.Pods[i]) {
			a.exact[term.TopologyKey] = true
		}
	}
	for _, pod := range pods {
		selected = append(selected, selections(pod)...)
		for _, key := range topologyKeys(pod) {
			a.exact[key] = true
		}
		for name := range resources.RequestsForPods(pod) {
			a.requested[string(name)] = true
		}
	}
	known := map[string]bool{}
	for _, r := range selected {
		if name := fmt.Sprint(r.NodeSelectorRequirement()); !known[name] {
			known[name] = true
			a.selections[r.Key] = append(a.selections[r.Key], r)
		}
	}
	return a, nil
}

// GetInstanceTypes returns one instance type of each kind.
func (a *alike) GetInstanceTypes(ctx context.Context, pool *karpv1.NodePool) ([]*cloudprovider.InstanceType, error) {
	all, err := a.CloudProvider.GetInstanceTypes(ctx, pool)
	if err != nil {
		return all, err
	}
	total := func(t *cloudprovider.InstanceType) (sum float64) {
		for _, price := range a.kind(t).prices {
			sum += price
		}
		return sum
	}
	all = slices.Clone(all)
	slices.SortFunc(all, func(x, y *cloudprovider.InstanceType) int {
		return cmp.Or(cmp.Compare(total(x), total(y)), cmp.Compare(x.Name, y.Name))
	})
	of, firsts := members{}, map[string]cloudprovider.InstanceTypes{}
	var served []*cloudprovider.InstanceType
	for _, t := range all {
		kind := a.kind(t)
		first := t
		at := slices.IndexFunc(firsts[kind.name], func(f *cloudprovider.InstanceType) bool { return noneDearer(a.kind(f).prices, kind.prices) })
		if at >= 0 {
			first = firsts[kind.name][at]
		} else {
			firsts[kind.name], served = append(firsts[kind.name], t), append(served, t)
		}
		of[first] = append(of[first], t)
	}
	a.of[pool.Name] = of
	return served, nil
}

// noneDearer reports whether each price is at most the other one: then the first instance type is among the cheapest if
// the second is, whatever the offerings that remain.
func noneDearer(prices, others []float64) bool {
	for i := range prices {
		if prices[i] > others[i] {
			return false
		}
	}
	return true
}

// kind returns what the scheduler distinguishes of an instance type (filterInstanceTypesByRequirements of
// pkg/controllers/provisioning/scheduling/nodeclaim.go in sigs.k8s.io/karpenter, 1.14.1). A field that is unknown here
// counts with all of its value.
func (a *alike) kind(t *cloudprovider.InstanceType) kindOfType {
	if found, known := a.known[t]; known {
		return found
	}
	var text strings.Builder
	value := reflect.ValueOf(t).Elem()
	for i := range value.NumField() {
		switch field := value.Type().Field(i); field.Name {
		case "Name", "Overhead": // part of what is allocatable
		case "Requirements":
			a.writeLabels(&text, t.Requirements)
		case "Capacity":
			writeResources(&text, t.Capacity, a.limited)
			writeResources(&text, t.Allocatable(), a.requested)
		case "Offerings":
		default:
			if field.IsExported() {
				fmt.Fprintf(&text, "%s %+v ", field.Name, value.Field(i).Interface())
			}
		}
	}
	found := kindOfType{}
	offerings := slices.Clone(t.Offerings)
	slices.SortFunc(offerings, func(x, y *cloudprovider.Offering) int {
		return cmp.Or(cmp.Compare(offeringName(x), offeringName(y)), cmp.Compare(x.Price, y.Price))
	})
	for _, o := range offerings {
		fmt.Fprint(&text, offeringName(o), " ")
		if o.ReservationCapacity != 0 || o.CapacityOverride != nil || o.OverheadOverride != nil {
			fmt.Fprint(&text, t.Name)
		}
		found.prices = append(found.prices, o.Price)
	}
	found.name = text.String()
	a.known[t] = found
	return found
}

func offeringName(o *cloudprovider.Offering) string {
	var names []string
	for _, r := range o.Requirements {
		names = append(names, fmt.Sprint(r.NodeSelectorRequirement()))
	}
	slices.Sort(names)
	return fmt.Sprint(o.Available, names)
}

// writeLabels writes which selections the labels of an instance type match. Intersected selections match a single
// value if each of them does.
func (a *alike) writeLabels(text *strings.Builder, has karpscheduling.Requirements) {
	keys := map[string]bool{}
	for key := range a.selections {
		keys[key] = true
	}
	for key, exact := range a.exact {
		keys[key] = keys[key] || exact
	}
	for _, key := range sorted(keys) {
		r, known := has[key]
		switch {
		case !known:
			fmt.Fprint(text, "- ")
		case a.exact[key] || r.Operator() != corev1.NodeSelectorOpIn || r.Len() != 1:
			fmt.Fprint(text, r.NodeSelectorRequirement(), " ")
		default:
			for _, selection := range a.selections[key] {
				fmt.Fprint(text, selection.Has(r.Any()), " ")
			}
		}
	}
}

// writeResources writes the named resources, and whether there are negative ones: with one, nothing fits.
func writeResources(text *strings.Builder, list corev1.ResourceList, names map[string]bool) {
	for _, name := range sorted(names) {
		q, known := list[corev1.ResourceName(name)]
		fmt.Fprint(text, known, q.String(), " ")
	}
	for _, q := range list {
		if q.Sign() < 0 {
			fmt.Fprint(text, "negative ")
			break
		}
	}
}

// expand replaces the served instance types of new nodes by all those that they stand for.
func (a *alike) expand(ctx context.Context, results scheduling.Results) scheduling.Results {
	for _, claim := range results.NewNodeClaims {
		var all cloudprovider.InstanceTypes
		for _, t := range claim.InstanceTypeOptions {
			all = append(all, a.of[claim.NodePoolName][t]...)
		}
		claim.InstanceTypeOptions = all
	}
	return results.TruncateInstanceTypes(ctx, scheduling.MaxInstanceTypes)
}
