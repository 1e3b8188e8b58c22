package catalog

import (
	"cmp"
	"slices"
	"strings"
)

// InstanceType is a machine that can be launched.
type InstanceType struct {
	Name                  string
	Arch                  string // x86_64 or arm64, as EC2 writes it
	VCPU                  int64
	MemoryMiB             int64
	Interfaces            int64
	AddressesPerInterface int64
	OnDemandUSD           float64 // an hour
	InstanceStoreGB       int64
	Metal                 bool
	GPU                   GPU // Count 0: none

	family family
}

// GPU is the accelerator of an instance type.
type GPU struct {
	Name, Manufacturer string
	Count, MemoryMiB   int64
}

// InstanceTypes returns all instance types, sorted by name.
func InstanceTypes() []InstanceType {
	families, sizes := families(), sizes()
	types := make([]InstanceType, 0, len(sizes))
	for _, s := range sizes {
		name, _, _ := strings.Cut(s.name, ".")
		f := families[name]
		types = append(types, InstanceType{
			Name:                  s.name,
			Arch:                  f.arch,
			VCPU:                  s.vcpu,
			MemoryMiB:             s.mib,
			Interfaces:            s.enis,
			AddressesPerInterface: s.ips,
			OnDemandUSD:           s.usd,
			InstanceStoreGB:       s.instanceStore,
			Metal:                 strings.Contains(s.name, ".metal"),
			GPU:                   f.gpu,
			family:                f,
		})
	}
	slices.SortFunc(types, func(a, b InstanceType) int { return cmp.Compare(a.Name, b.Name) })
	return types
}

// MaxPods returns the number of pods for which the VPC CNI has addresses: each interface keeps one address, two pods
// share the host's network (awslabs/amazon-eks-ami, eni-max-pods.txt).
func (t InstanceType) MaxPods() int {
	return int(t.Interfaces*(t.AddressesPerInterface-1) + 2)
}

// Zones returns those of the region's zones that offer t. As in real regions, not every zone has everything: the third
// has neither metal nor accelerators.
func (t InstanceType) Zones(zones []string) []string {
	if (t.Metal || t.GPU.Count > 0) && len(zones) > 2 {
		return zones[:2]
	}
	return zones
}

// SpotUSD returns the spot price in the zone with that index: about a third of the on-demand price, and a little more
// in each further zone.
func (t InstanceType) SpotUSD(zone int) float64 {
	return t.OnDemandUSD * (0.32 + 0.02*float64(zone))
}
