package awssim

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim/wire"
)

// Shortage is unavailable capacity. An empty field means any; * and ? are wildcards.
type Shortage struct {
	Type   string `json:"type,omitempty"`   // an instance type, m5.*
	Zone   string `json:"zone,omitempty"`   // eu-west-1a
	Market string `json:"market,omitempty"` // on-demand or spot
}

func (s Shortage) meets(spec launchSpec, zone string) bool {
	return wildcard(cmp.Or(s.Type, "*"), spec.instanceType) && wildcard(cmp.Or(s.Zone, "*"), zone) && wildcard(cmp.Or(s.Market, "*"), spec.capacityType)
}

// RunShort makes launches of some kind fail for lack of capacity, from now on. Running instances are unaffected.
func (s *Simulator) RunShort(short Shortage) error {
	if !slices.Contains([]string{"", onDemand, spot}, short.Market) {
		return fmt.Errorf("running short: the market is %s or %s, not %q", onDemand, spot, short.Market)
	}
	s.locked(func(a *account) { a.shortages = append(a.shortages, short) })
	return nil
}

// Restock ends all shortages.
func (s *Simulator) Restock() { s.locked(func(a *account) { a.shortages = nil }) }

// capacity returns why there is no capacity for an instance, with EC2's message. It does not apply to dry runs, which
// only check permissions and parameters.
func (a *account) capacity(spec launchSpec) error {
	sub := a.subnets[spec.subnetID]
	zone := sub.zone
	short := func(s Shortage) bool { return s.meets(spec, zone) }
	switch {
	case !slices.Contains(a.types[spec.instanceType].Zones(a.options.Zones), zone):
		return wire.Errorf("Unsupported", "Your requested instance type (%s) is not supported in your requested Availability Zone (%s).", spec.instanceType, zone)
	case sub.free() < max(1, spec.interfaces):
		return wire.Errorf("InsufficientFreeAddressesInSubnet", "There are not enough free addresses in subnet '%s' to satisfy the requested number of instances.", sub.ID)
	case !slices.ContainsFunc(a.shortages, short) && !a.outages[zone]:
		return nil
	case spec.capacityType == spot:
		return wire.Errorf("InsufficientInstanceCapacity", "There is no Spot capacity available that matches your request.")
	}
	return wire.Errorf("InsufficientInstanceCapacity",
		"We currently do not have sufficient %s capacity in the Availability Zone you requested (%s). Our system will be working on provisioning additional capacity.", spec.instanceType, zone)
}
