package preflight

import (
	"testing"

	"github.com/plumbline-dev/plumbline/provision/cloud"
)

// TestOfInstance: only what is about the class and the subnet of an instance is a reason why it does not become a node.
func TestOfInstance(t *testing.T) {
	checks, err := Select(Joining())
	if err != nil {
		t.Fatal(err)
	}
	observed := Observed{
		Cluster: "prod", Region: "eu-west-1", EKS: Value[cloud.Cluster]{Of: cloud.Cluster{VPC: "vpc-1", AuthenticationMode: "API"}},
		Networks: []ClassNetwork{
			{Class: "default", Subnets: Value[[]string]{Of: []string{"subnet-a", "subnet-b"}}},
			{Class: "other", Subnets: Value[[]string]{Of: []string{"subnet-b"}}},
		},
		Subnets: Value[map[string]cloud.Subnet]{Of: map[string]cloud.Subnet{
			"subnet-a": {ID: "subnet-a", Zone: "eu-west-1a", VPC: "vpc-1", Free: 200, DefaultRoute: "nat-1"},
			"subnet-b": {ID: "subnet-b", Zone: "eu-west-1b", VPC: "vpc-1", Free: 200, DefaultRoute: "nat-2", Blackhole: true},
		}},
	}
	for name, c := range map[string]struct {
		class, subnet string
		found         bool
	}{
		"a subnet that works":         {"default", "subnet-a", false},
		"one that leads to nothing":   {"default", "subnet-b", true},
		"an unknown subnet":           {"default", "", true},
		"a class that does not exist": {"gone", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			check, f, found := FirstProblem(Run(checks, observed.OfInstance(c.class, c.subnet)))
			if found != c.found || found && check != "network" {
				t.Errorf("%s: %+v", check, f)
			}
		})
	}
	if len(observed.Networks) != 2 || len(observed.Networks[0].Subnets.Of) != 2 {
		t.Errorf("the observation was changed: %+v", observed.Networks)
	}
}
