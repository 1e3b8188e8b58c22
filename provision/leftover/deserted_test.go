package leftover

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/provision/cloud"
)

// TestDeserted: in a cluster that goes on only what is surely of something that is gone counts.
func TestDeserted(t *testing.T) {
	living := Living{
		Classes: map[string]bool{"default": true}, UIDs: map[string]bool{"u-1": true}, Profiles: map[string]bool{"demo_named": true},
		Instances: map[string]bool{"i-1": true, "i-2": false},
	}
	class := func(name string) map[string]string { return map[string]string{classTag: name} }
	node := func(id string) map[string]string { return map[string]string{cniInstanceTag: id} }
	cases := map[string]struct {
		resource cloud.Resource
		want     string
	}{
		"a template of a class that is gone":     {cloud.Resource{Kind: cloud.KindLaunchTemplate, Name: "karpenter.k8s.aws/1", Tags: class("old")}, "karpenter.k8s.aws/1 of EC2NodeClass/old"},
		"a template of a class":                  {cloud.Resource{Kind: cloud.KindLaunchTemplate, Name: "karpenter.k8s.aws/1", Tags: class("default")}, ""},
		"a template that does not say whose":     {cloud.Resource{Kind: cloud.KindLaunchTemplate, Name: "karpenter.k8s.aws/1"}, ""},
		"a profile of a class that is gone":      {cloud.Resource{Kind: cloud.KindInstanceProfile, ID: "demo_1", Name: "/karpenter/eu-west-1/demo/u-0/"}, "path /karpenter/eu-west-1/demo/u-0/"},
		"an older profile of a class":            {cloud.Resource{Kind: cloud.KindInstanceProfile, ID: "demo_1", Name: "/karpenter/eu-west-1/demo/u-1/"}, ""},
		"a profile that a class names":           {cloud.Resource{Kind: cloud.KindInstanceProfile, ID: "demo_named", Name: "/karpenter/eu-west-1/demo/u-0/"}, ""},
		"a profile that does not say whose":      {cloud.Resource{Kind: cloud.KindInstanceProfile, ID: "demo_1", Name: "/karpenter/eu-west-1/demo/"}, ""},
		"an interface of nothing":                {cloud.Resource{Kind: cloud.KindNetworkInterface, State: "available"}, "of nothing"},
		"an interface of an instance that ended": {cloud.Resource{Kind: cloud.KindNetworkInterface, State: "available", Tags: node("i-2")}, "of the VPC CNI plugin, for i-2"},
		"an interface that a node may need":      {cloud.Resource{Kind: cloud.KindNetworkInterface, State: "available", Tags: node("i-1")}, ""},
		"an interface of an instance":            {cloud.Resource{Kind: cloud.KindNetworkInterface, State: "in-use", Instance: "i-1", Alive: true}, ""},
		"an instance, which is no question here": {cloud.Resource{Kind: cloud.KindInstance, State: "running"}, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := ""
			for _, f := range Deserted([]cloud.Answer{{Kind: c.resource.Kind, Resources: []cloud.Resource{c.resource}}}, living) {
				if got = f.What; got == "" {
					got = "of nothing"
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
