package cloud

import (
	"slices"
	"strings"
)

// Claim says by its tags whether something is of a cluster's Karpenter, EBS CSI driver or VPC CNI plugin,
// and which other clusters have a tag on it, whatever that says. The tags of an instance have to name a
// NodePool or an EC2NodeClass besides: a managed node group's have the same tag of the cluster.
func (r Resource) Claim(cluster string) (ours bool, others []string) {
	for key, value := range r.Tags {
		name, isCluster := strings.CutPrefix(key, clusterTagPrefix)
		switch {
		case isCluster && name == cluster:
			ours = ours || value == clusterTagValue
		case isCluster:
			others = append(others, name)
		case key != nameTag && key != templateTag && key != cniTag:
		case value == cluster:
			ours = true
		default:
			others = append(others, value)
		}
	}
	if r.Kind == KindInstance && r.Tags[nodePoolTag] == "" && r.Tags[nodeClassTag] == "" {
		ours = false
	}
	return ours, distinct(slices.Clip(others))
}
