package leftover

import (
	"errors"
	"flag"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/provision/cloud"
)

var update = flag.Bool("update", false, "rewrite the goldens")

func TestJudge(t *testing.T) {
	karpenters := map[string]string{"karpenter.sh/nodepool": "general", "karpenter.k8s.aws/ec2nodeclass": "default"}
	claimed := map[string]string{"kubernetes.io/created-for/pvc/name": "data-0", "kubernetes.io/created-for/pvc/namespace": "shop"}
	volumes := map[string]Volume{
		"vol-kept":     {Name: "pv-kept", Claim: "shop/data-1", Retained: true},
		"vol-claimed":  {Name: "pv-claimed", Claim: "shop/data-2"},
		"vol-released": {Name: "pv-released"},
	}
	other := map[string]bool{"other": true}
	known := Known{Volumes: volumes, Pools: other, Classes: other, Profiles: map[string]bool{"demo_2": true}}
	cases := map[string]struct {
		resource cloud.Resource
		what     string
		where    place
	}{
		"an instance": {cloud.Resource{Kind: cloud.KindInstance, State: "running", Tags: karpenters}, "NodePool/general", left},
		"an instance without tags, which a NodeClaim names": {cloud.Resource{Kind: cloud.KindInstance, State: "stopped"}, "", left},

		"a volume of a node that has ended":       {cloud.Resource{Kind: cloud.KindVolume, State: "available", Tags: karpenters}, "NodePool/general", left},
		"a volume attached to what has ended":     {cloud.Resource{Kind: cloud.KindVolume, State: "in-use", Instance: "i-1", Tags: claimed}, "PersistentVolumeClaim shop/data-0, attached to i-1, which has ended", left},
		"a volume attached to what lives":         {cloud.Resource{Kind: cloud.KindVolume, State: "in-use", Instance: "i-1", Alive: true}, "", notOurs},
		"a volume that is gone":                   {cloud.Resource{Kind: cloud.KindVolume, State: "deleted"}, "", notOurs},
		"a volume that is retained":               {cloud.Resource{Kind: cloud.KindVolume, ID: "vol-kept", State: "available", Tags: claimed}, "PersistentVolume pv-kept, retained", kept},
		"a volume that a claim has":               {cloud.Resource{Kind: cloud.KindVolume, ID: "vol-claimed", State: "available"}, "PersistentVolume pv-claimed of claim shop/data-2: delete the claim, or retain the volume", left},
		"a volume of a released PersistentVolume": {cloud.Resource{Kind: cloud.KindVolume, ID: "vol-released", State: "available"}, "PersistentVolume pv-released", left},
		"a volume that is tagged to stay":         {cloud.Resource{Kind: cloud.KindVolume, State: "available", Tags: map[string]string{KeepTag: ""}}, "", kept},

		"an interface that nothing has":             {cloud.Resource{Kind: cloud.KindNetworkInterface, State: "available", Tags: map[string]string{cniInstanceTag: "i-1"}}, "of the VPC CNI plugin, for i-1", left},
		"an interface of what has ended":            {cloud.Resource{Kind: cloud.KindNetworkInterface, State: "in-use", Instance: "i-1", Tags: karpenters}, "NodePool/general, attached to i-1, which has ended", left},
		"an interface of what lives":                {cloud.Resource{Kind: cloud.KindNetworkInterface, State: "in-use", Instance: "i-1", Alive: true}, "", notOurs},
		"an interface of a load balancer":           {cloud.Resource{Kind: cloud.KindNetworkInterface, State: "available", OfService: true}, "", notOurs},
		"an interface in use by no instance at all": {cloud.Resource{Kind: cloud.KindNetworkInterface, State: "in-use"}, "", notOurs},

		"a launch template":                       {cloud.Resource{Kind: cloud.KindLaunchTemplate, Name: "karpenter.k8s.aws/1", Tags: karpenters}, "karpenter.k8s.aws/1 of EC2NodeClass/default", left},
		"a launch template, long ago":             {cloud.Resource{Kind: cloud.KindLaunchTemplate, Name: "Karpenter-demo-1"}, "Karpenter-demo-1", left},
		"an instance of a pool that stays":        {cloud.Resource{Kind: cloud.KindInstance, State: "running", Tags: map[string]string{poolTag: "other"}}, "NodePool/other", kept},
		"a launch template of a class that stays": {cloud.Resource{Kind: cloud.KindLaunchTemplate, Name: "karpenter.k8s.aws/2", Tags: map[string]string{classTag: "other"}}, "karpenter.k8s.aws/2 of EC2NodeClass/other", kept},
		"an instance profile of such a class":     {cloud.Resource{Kind: cloud.KindInstanceProfile, ID: "demo_2", Name: "/karpenter/eu-west-1/demo/uid/"}, "path /karpenter/eu-west-1/demo/uid/", kept},
		"an instance profile":                     {cloud.Resource{Kind: cloud.KindInstanceProfile, Name: "/karpenter/eu-west-1/demo/uid/"}, "path /karpenter/eu-west-1/demo/uid/", left},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			what, where := judge(c.resource, known)
			if what != c.what || where != c.where {
				t.Errorf("%q, %d, want %q, %d", what, where, c.what, c.where)
			}
		})
	}
}

// answers are those of an account with one thing of each kind, in the order of kinds.
func answers() []cloud.Answer {
	return []cloud.Answer{
		{Kind: cloud.KindInstance, Resources: []cloud.Resource{{Kind: cloud.KindInstance, ID: "i-1", Zone: "eu-west-1a", State: "running"}}},
		{Kind: cloud.KindVolume, Resources: []cloud.Resource{{Kind: cloud.KindVolume, ID: "vol-1", State: "available"}, {Kind: cloud.KindVolume, ID: "vol-2", State: "available", Tags: map[string]string{KeepTag: "true"}}}},
		{Kind: cloud.KindNetworkInterface, Err: &cloud.DeniedError{Action: "ec2:DescribeNetworkInterfaces", Detail: "You are not authorized"}},
		{Kind: cloud.KindLaunchTemplate, Resources: []cloud.Resource{{Kind: cloud.KindLaunchTemplate, ID: "lt-1", Name: "karpenter.k8s.aws/1"}}},
		{Kind: cloud.KindInstanceProfile},
	}
}

func TestReport(t *testing.T) {
	silent := []cloud.Answer{{Kind: cloud.KindInstance}, {Kind: cloud.KindVolume}}
	cases := map[string]struct {
		answers                  []cloud.Answer
		gone, unanswered, denied bool
		says                     string
	}{
		"no question asked":           {nil, false, true, false, "nothing"},
		"nothing":                     {silent, true, false, false, "nothing"},
		"something":                   {answers()[:2], false, false, false, "1 instance (i-1), 1 volume (vol-1)"},
		"something, and one denied":   {answers(), false, true, true, "1 instance (i-1), 1 volume (vol-1), 1 launch template (lt-1)"},
		"nothing, and one failed":     {append(silent[:2:2], cloud.Answer{Kind: cloud.KindLaunchTemplate, Err: errors.New("no answer")}), false, true, false, "nothing"},
		"only what is tagged to stay": {[]cloud.Answer{{Kind: cloud.KindVolume, Resources: answers()[1].Resources[1:]}}, true, false, false, "nothing"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := Judge(c.answers, Known{})
			if r.Gone != c.gone || r.Unanswered() != c.unanswered || r.Denied() != c.denied || r.String() != c.says {
				t.Errorf("gone %t, unanswered %t, denied %t, says %q", r.Gone, r.Unanswered(), r.Denied(), r)
			}
		})
	}
}

func TestJUnit(t *testing.T) {
	report := Judge(answers(), Known{})
	report.Cluster = "demo"
	got, err := report.JUnit()
	if err != nil {
		t.Fatal(err)
	}
	const file = "testdata/junit.xml"
	if *update {
		if err := os.WriteFile(file, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("(-update rewrites it):\n%s", diff)
	}
}
