package plan

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/dustin/go-humanize/english"
)

// resolvedFields are the fields that Karpenter leaves out of the hash, and by which nodes drift all
// the same once AWS has said what they come to, in the order in which it looks (AMIDrift,
// SecurityGroupDrift, SubnetDrift and CapacityReservationDrift in karpenter-provider-aws
// pkg/cloudprovider/drift.go, 1.14.1).
func resolvedFields() []resolvedField {
	return []resolvedField{
		{"amiSelectorTerms", driftOfAMI},
		{"amiFamily", driftOfAMI},
		{"securityGroupSelectorTerms", driftOfGroup},
		{"subnetSelectorTerms", driftOfSubnet},
		{"capacityReservationSelectorTerms", driftOfReservation},
	}
}

// resolvedField is such a field, and the reason for which nodes drift by it.
type resolvedField struct{ name, reason string }

// verdict is whether a NodeClaim drifts for one reason. why is set where nobody can tell.
type verdict struct {
	drifts bool
	why    string
}

// driftsBy is the impact of selectors that have changed, for the reasons that may follow.
func driftsBy(claims []*NodeClaim, reasons []string, answer *Answer) impact {
	judges := make([]func(*NodeClaim) verdict, len(reasons))
	for i, reason := range reasons {
		judges[i] = answer.judge(reason)
	}
	var touched []*NodeClaim
	var found []string
	upTo := false
	whys := map[string]int{}
	for _, c := range claims {
		drifts, may, why := judgeAll(judges, reasons, c)
		found = append(found, may...)
		if len(may) > 0 {
			touched = append(touched, c)
		}
		if !drifts {
			upTo = upTo || len(may) > 0
			for _, one := range why {
				whys[one]++
			}
		}
	}
	slices.Sort(found)
	i := replaces(touched, upTo, inOrderOf(reasons, slices.Compact(found))...)
	i.unavailable = whyUnavailable(whys)
	return i
}

// judgeAll says whether a NodeClaim drifts, whatever nobody can tell of it, for which reasons it
// may be, and why that is not certain.
func judgeAll(judges []func(*NodeClaim) verdict, reasons []string, c *NodeClaim) (drifts bool, may, why []string) {
	for i, judge := range judges {
		v := judge(c)
		switch {
		case v.why != "":
			may, why = append(may, reasons[i]), append(why, v.why)
		case v.drifts && !drifts:
			may, drifts = append(may, reasons[i]), true
		}
	}
	slices.Sort(why)
	return drifts, may, slices.Compact(why)
}

func inOrderOf(order, found []string) []string {
	var ordered []string
	for _, one := range order {
		if slices.Contains(found, one) {
			ordered = append(ordered, one)
		}
	}
	return ordered
}

// The reasons that are one NodeClaim's, and not AWS's.
const (
	unlaunched = "not launched yet"
	noLabels   = "without the labels of an instance type"
	unseen     = "not shown by EC2"
)

func whyUnavailable(whys map[string]int) []string {
	var found []string
	for why, n := range whys {
		if why == unlaunched || why == noLabels || why == unseen {
			why = fmt.Sprintf("%s: %s", english.Plural(n, "NodeClaim", ""), why)
		}
		found = append(found, why)
	}
	slices.Sort(found)
	return found
}

// judge is what an Answer says of a NodeClaim for one of Karpenter's reasons.
func (a *Answer) judge(reason string) func(*NodeClaim) verdict {
	switch reason {
	case driftOfAMI:
		return a.byImage()
	case driftOfGroup:
		wanted := slices.Sorted(slices.Values(a.SecurityGroups.Found))
		return a.byInstance(a.SecurityGroups.Unavailable, func(r Running) bool {
			return !slices.Equal(slices.Sorted(slices.Values(r.SecurityGroups)), wanted)
		})
	case driftOfSubnet:
		return a.byInstance(a.Subnets.Unavailable, func(r Running) bool { return !slices.Contains(a.Subnets.Found, r.Subnet) })
	case driftOfReservation:
		return a.byInstance(a.Reservations.Unavailable, func(r Running) bool {
			return r.Reservation != "" && !slices.Contains(a.Reservations.Found, r.Reservation)
		})
	}
	return func(*NodeClaim) verdict {
		return verdict{why: "plumbline does not know what Karpenter compares for " + reason}
	}
}

func (a *Answer) byImage() func(*NodeClaim) verdict {
	known := imagesOf(a.AMIs.Found)
	return func(c *NodeClaim) verdict {
		switch {
		case a.AMIs.Unavailable != "":
			return verdict{why: a.AMIs.Unavailable}
		case c.Image == "":
			return verdict{why: unlaunched}
		case c.Labels == "":
			return verdict{why: noLabels}
		}
		return verdict{drifts: known.outdate(c)}
	}
}

func (a *Answer) byInstance(unavailable string, drifts func(Running) bool) func(*NodeClaim) verdict {
	return func(c *NodeClaim) verdict {
		running, seen := a.Running[c.ProviderID]
		switch {
		case unavailable != "":
			return verdict{why: unavailable}
		case c.ProviderID == "":
			return verdict{why: unlaunched}
		case !seen:
			return verdict{why: cmp.Or(a.Unavailable, unseen)}
		}
		return verdict{drifts: drifts(running)}
	}
}
