package preflight

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// PoolTypes are the instance types that the requirements of a NodePool allow.
type PoolTypes struct {
	Pool string
	// Types is how many there are, and Zones are those that offer one, sorted.
	Types int
	Zones []string
	// Quotas has the least vCPUs of those that count towards a quota of EC2, by its code. Unmetered reports whether some
	// count towards none that plumbline knows.
	Quotas    map[string]int64
	Unmetered bool
	// Smallest is the least CPU and memory of one of them.
	Smallest corev1.ResourceList
	// Limits are those of the NodePool for CPU and memory, and Used what its nodes have.
	Limits, Used corev1.ResourceList
}

// capacity checks that NodePools can launch nodes.
func capacity() Check {
	return Check{
		ID: "capacity",
		Why: "requirements that no instance type meets, or only one zone, and a used-up limit leave pods pending, " +
			"also those of nodes that Karpenter drains",
		needs: []source{ofClasses, ofPools, ofTypes, ofQuotas},
		look:  lookAtCapacity,
	}
}

func lookAtCapacity(o Observed) (string, []Finding) {
	const looked = "the instance types and zones that NodePools allow, their limits, and the account's quotas for vCPUs"
	var found []Finding
	for _, err := range []error{o.Classes.Err, o.Pools.Err, o.PoolTypes.Err, o.Quotas.Err} {
		if err != nil {
			found = append(found, unread(err)...)
		}
	}
	for _, p := range o.PoolTypes.Of {
		found = append(found, p.judge()...)
		found = append(found, p.quotas(o)...)
	}
	return looked, found
}

func (p PoolTypes) judge() []Finding {
	requirements := "relax spec.template.spec.requirements of NodePool/" + p.Pool
	if p.Types == 0 {
		return []Finding{{
			Status: Problem, Message: "NodePool/" + p.Pool + ": no instance type in the zones of its EC2NodeClass meets its requirements",
			Fix: requirements,
		}}
	}
	var found []Finding
	if len(p.Zones) == 1 {
		found = append(found, Finding{
			Status: Warning, Fix: requirements + ", or let its EC2NodeClass select subnets in other zones",
			Message: fmt.Sprintf("NodePool/%s: only %s offers an instance type that it allows", p.Pool, p.Zones[0]),
		})
	}
	var reached []string
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		limit, limited := p.Limits[name]
		if least := p.Smallest[name]; limited && left(limit, p.Used[name]).Cmp(least) < 0 {
			used := p.Used[name]
			reached = append(reached, fmt.Sprintf("%s (limit %s, used %s, the smallest allowed type has %s)",
				name, limit.String(), used.String(), least.String()))
		}
	}
	if len(reached) > 0 {
		found = append(found, Finding{
			Status:  Warning,
			Message: "NodePool/" + p.Pool + " can launch no further node: its limits leave too little " + strings.Join(reached, ", "),
			Fix:     "increase spec.limits of NodePool/" + p.Pool,
		})
	}
	return found
}

func left(limit, used resource.Quantity) *resource.Quantity {
	limit = limit.DeepCopy()
	limit.Sub(used)
	return &limit
}

// least keeps the smaller of two quantities of each resource.
func least(smallest, next corev1.ResourceList) corev1.ResourceList {
	if smallest == nil {
		smallest = corev1.ResourceList{}
	}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		has := next[name]
		if known, ok := smallest[name]; !ok || has.Cmp(known) < 0 {
			smallest[name] = has
		}
	}
	return smallest
}

// insert adds a value to a sorted list, once.
func insert(values []string, value string) []string {
	at, found := slices.BinarySearch(values, value)
	if found || value == "" {
		return values
	}
	return slices.Insert(values, at, value)
}
