package preflight

import "slices"

// Joining are the IDs of the checks whose problems keep an instance from becoming a node.
func Joining() []string { return []string{nodeRole().ID, network().ID} }

// OfInstance returns what was observed about instances of an EC2NodeClass in a subnet: its role and its network. If the subnet is
// empty, they may be in any subnet that the class selects.
func (o Observed) OfInstance(class, subnet string) Observed {
	o.NodeRoles = slices.DeleteFunc(slices.Clone(o.NodeRoles), func(r NodeRole) bool { return !slices.Contains(r.Classes, class) })
	o.Networks = slices.DeleteFunc(slices.Clone(o.Networks), func(n ClassNetwork) bool { return n.Class != class })
	for i := range o.Networks {
		if subnet != "" {
			o.Networks[i].Subnets = Value[[]string]{Of: []string{subnet}}
		}
	}
	return o
}

// FirstProblem returns the check of the first problem, and the problem; false if no check has found one.
func FirstProblem(results []Result) (check string, f Finding, found bool) {
	for _, r := range results {
		if r.Status == Problem {
			return r.Check, r.Findings[0], true
		}
	}
	return "", Finding{}, false
}
