package nodegroup

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/provision/cloud"
)

func TestNetworkOfNodes(t *testing.T) {
	subnets := map[string]cloud.Subnet{"subnet-a": {}, "subnet-b": {}, "subnet-public": {PublicAddress: true}}
	for name, c := range map[string]struct {
		groups      []cloud.NodeGroup
		wantSubnets []string
		wantGroups  []string
	}{
		"no node group": {nil, []string{"subnet-a", "subnet-b"}, []string{"sg-cluster"}},
		"node groups": {
			[]cloud.NodeGroup{{Subnets: []string{"subnet-b", "subnet-public"}}, {Subnets: []string{"subnet-b"}}},
			[]string{"subnet-b", "subnet-public"},
			[]string{"sg-cluster"},
		},
		"groups of a launch template": {
			[]cloud.NodeGroup{{Subnets: []string{"subnet-a"}, Template: &cloud.LaunchTemplate{SecurityGroups: []string{"sg-own"}}}},
			[]string{"subnet-a"},
			[]string{"sg-own"},
		},
		"some have a launch template": {
			[]cloud.NodeGroup{
				{Subnets: []string{"subnet-a"}, Template: &cloud.LaunchTemplate{SecurityGroups: []string{"sg-own"}}},
				{Subnets: []string{"subnet-a"}, Template: &cloud.LaunchTemplate{}},
			},
			[]string{"subnet-a"},
			[]string{"sg-cluster", "sg-own"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.wantSubnets, SubnetsOf(c.groups, subnets)); diff != "" {
				t.Errorf("subnets (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.wantGroups, SecurityGroupsOf(c.groups, "sg-cluster")); diff != "" {
				t.Errorf("security groups (-want +got):\n%s", diff)
			}
		})
	}
}
