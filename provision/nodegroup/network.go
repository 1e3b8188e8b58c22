package nodegroup

import (
	"slices"

	"github.com/plumbline-dev/plumbline/provision/cloud"
)

// SubnetsOf returns the IDs of the subnets in which nodes are, sorted: those of the node groups or, if there is none, the
// cluster's: the private ones, if there are any.
func SubnetsOf(groups []cloud.NodeGroup, all map[string]cloud.Subnet) []string {
	var ids []string
	for i := range groups {
		ids = append(ids, groups[i].Subnets...)
	}
	if len(ids) == 0 {
		for id := range all {
			ids = append(ids, id)
		}
		public := func(id string) bool { return all[id].PublicAddress }
		if slices.ContainsFunc(ids, func(id string) bool { return !public(id) }) {
			ids = slices.DeleteFunc(ids, public)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// SecurityGroupsOf returns the IDs of the security groups that nodes have, sorted: those of launch templates, and the cluster's
// own for node groups without such a launch template, or if there is no node group.
func SecurityGroupsOf(groups []cloud.NodeGroup, ofCluster string) []string {
	var ids []string
	own := len(groups) == 0
	for i := range groups {
		if t := groups[i].Template; t != nil && len(t.SecurityGroups) > 0 {
			ids = append(ids, t.SecurityGroups...)
		} else {
			own = true
		}
	}
	if own && ofCluster != "" {
		ids = append(ids, ofCluster)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}
