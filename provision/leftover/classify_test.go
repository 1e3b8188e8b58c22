package leftover

import (
	"errors"
	"flag"
	"os"
	"testing"
	"time"

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
			what, where := classify(c.resource, known)
			if what != c.what || where != c.where {
				t.Errorf("%q, %d, want %q, %d", what, where, c.what, c.where)
			}
		})
	}
}

func TestUnused(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	old := now.Add(-time.Hour)
	volume := func(id, instance string, alive bool, created time.Time, tags map[string]string) cloud.Resource {
		return cloud.Resource{Kind: cloud.KindVolume, ID: id, State: "available", Instance: instance, Alive: alive, Created: created, Tags: tags}
	}
	found := Unused([]cloud.Resource{
		volume("vol-left", "", false, old, map[string]string{claimNameTag: "data-0", claimNamespaceTag: "shop"}),
		volume("vol-ended", "i-1", false, old, nil),
		volume("vol-alive", "i-2", true, old, nil),
		volume("vol-used", "", false, old, nil),
		volume("vol-new", "", false, now, nil),
		volume("vol-kept", "", false, old, map[string]string{KeepTag: ""}),
	}, map[string]Volume{"vol-used": {Name: "pv-1"}}, now.Add(-time.Minute))
	var got []string
	for _, f := range found {
		got = append(got, f.ID+": "+f.What)
	}
	want := []string{"vol-left: PersistentVolumeClaim shop/data-0", "vol-ended: attached to i-1, which has ended"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// answers returns those of an account with one resource of each kind, in the order of kinds.
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
			r := NewReport(c.answers, Known{})
			if r.Gone != c.gone || r.Unanswered() != c.unanswered || r.Denied() != c.denied || r.String() != c.says {
				t.Errorf("gone %t, unanswered %t, denied %t, says %q", r.Gone, r.Unanswered(), r.Denied(), r)
			}
		})
	}
}

func TestJUnit(t *testing.T) {
	report := NewReport(answers(), Known{})
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

// TestEnds checks that of each kind only leftovers are deleted that are free and belong only to the cluster, and only
// if requested.
func TestEnds(t *testing.T) {
	owned := func(more ...string) map[string]string {
		tags := map[string]string{"kubernetes.io/cluster/demo": "owned", poolTag: "general"}
		for i := 0; i < len(more); i += 2 {
			tags[more[i]] = more[i+1]
		}
		return tags
	}
	of := func(kind cloud.Kind, all ...cloud.Resource) cloud.Answer {
		for i := range all {
			all[i].Kind = kind
		}
		return cloud.Answer{Kind: kind, Resources: all}
	}
	answers := []cloud.Answer{
		of(cloud.KindInstance,
			cloud.Resource{ID: "i-ours", State: "running", Tags: owned()},
			cloud.Resource{ID: "i-stopped", State: "stopped", Tags: owned()},
			cloud.Resource{ID: "i-going", State: "shutting-down", Tags: owned()},
			cloud.Resource{ID: "i-shared", State: "running", Tags: owned("kubernetes.io/cluster/b", "shared")},
			cloud.Resource{ID: "i-untagged", State: "running"},
			cloud.Resource{ID: "i-stays", State: "running", Tags: owned(poolTag, "other")}),
		of(cloud.KindVolume,
			cloud.Resource{ID: "vol-free", State: "available", Tags: owned()},
			cloud.Resource{ID: "vol-kept", State: "available", Tags: owned(KeepTag, "")},
			cloud.Resource{ID: "vol-retained", State: "available", Tags: owned()},
			cloud.Resource{ID: "vol-theirs", State: "available", Tags: owned("KubernetesCluster", "b")},
			cloud.Resource{ID: "vol-claimed", State: "available", Tags: owned()},
			cloud.Resource{ID: "vol-dead", State: "in-use", Instance: "i-0", Tags: owned()},
			cloud.Resource{ID: "vol-live", State: "in-use", Instance: "i-1", Alive: true, Tags: owned()}),
		of(cloud.KindNetworkInterface,
			cloud.Resource{ID: "eni-free", State: "available", Tags: map[string]string{"cluster.k8s.amazonaws.com/name": "demo"}},
			cloud.Resource{ID: "eni-theirs", State: "available", Tags: owned("cluster.k8s.amazonaws.com/name", "b")},
			cloud.Resource{ID: "eni-dead", State: "in-use", Instance: "i-0", Tags: owned()},
			cloud.Resource{ID: "eni-service", State: "available", OfService: true, Tags: owned()}),
		of(cloud.KindLaunchTemplate,
			cloud.Resource{ID: "lt-ours", Tags: owned(classTag, "default")},
			cloud.Resource{ID: "lt-stays", Tags: owned(classTag, "other")},
			cloud.Resource{ID: "lt-theirs", Tags: owned("eks:eks-cluster-name", "b")}),
		of(cloud.KindInstanceProfile,
			cloud.Resource{ID: "demo_1", Name: "/karpenter/eu-west-1/demo/uid/"},
			cloud.Resource{ID: "demo_2", Name: "/karpenter/eu-west-1/demo/uid/"}),
	}
	known := Known{
		Volumes: map[string]Volume{"vol-retained": {Name: "pv-1", Retained: true}, "vol-claimed": {Name: "pv-2", Claim: "shop/data-0"}},
		Pools:   map[string]bool{"other": true}, Classes: map[string]bool{"other": true}, Profiles: map[string]bool{"demo_2": true},
	}
	instances := []string{"i-ours", "i-stopped"}
	rest := []string{"vol-free", "eni-free", "lt-ours"}
	sparedInstances := map[string]string{"i-shared": "it has a tag of cluster b, too", "i-untagged": "it does not have the tags kubernetes.io/cluster/demo=owned and karpenter.sh/nodepool"}
	sparedRest := map[string]string{
		"vol-claimed": "PersistentVolume pv-2 is in the cluster: delete its claim", "vol-dead": "it is in-use", "eni-dead": "it is in-use",
		"demo_1":     "instance i-ours stays, and may use it",
		"vol-theirs": "it has a tag of cluster b, too", "eni-theirs": "it has a tag of cluster b, too", "lt-theirs": "it has a tag of cluster b, too",
	}
	cases := map[string]struct {
		scope       Scope
		ends, going []string
		spared      map[string]string
	}{
		"nothing asked for": {Scope{}, nil, nil, map[string]string{}},
		"instances":         {Scope{Instances: true}, instances, []string{"i-going"}, sparedInstances},
		"leftovers":         {Scope{Leftovers: true}, rest, nil, sparedRest},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			c.scope.Cluster = "demo"
			got := Deletable(answers, known, c.scope)
			spared := map[string]string{}
			for _, s := range got.Spared {
				spared[s.ID] = s.Why
			}
			if diff := cmp.Diff([]any{c.ends, c.going, c.spared}, []any{idsOf(got.Delete), idsOf(got.Terminating), spared}); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func idsOf(all []cloud.Resource) (ids []string) {
	for _, r := range all {
		ids = append(ids, r.ID)
	}
	return ids
}

// TestNow checks that an instance profile is deleted only after a response that contains no instance that may use it.
func TestNow(t *testing.T) {
	tags := map[string]string{"kubernetes.io/cluster/demo": "owned", poolTag: "general"}
	instance := cloud.Resource{Kind: cloud.KindInstance, ID: "i-1", State: "running", Tags: tags}
	going := instance
	going.State = "shutting-down"
	cases := map[string]struct {
		instances cloud.Answer
		pools     map[string]bool
		want      []string
	}{
		"one that ends":        {cloud.Answer{Resources: []cloud.Resource{instance}}, nil, []string{"i-1", "vol-1"}},
		"one that is ending":   {cloud.Answer{Resources: []cloud.Resource{going}}, nil, []string{"vol-1"}},
		"none":                 {cloud.Answer{}, nil, []string{"vol-1", "demo_1"}},
		"EC2 has not said":     {cloud.Answer{Err: errors.New("no answer")}, nil, []string{"vol-1"}},
		"of a pool that stays": {cloud.Answer{Resources: []cloud.Resource{instance}}, map[string]bool{"general": true}, []string{"vol-1", "demo_1"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			c.instances.Kind = cloud.KindInstance
			answers := []cloud.Answer{
				c.instances,
				{Kind: cloud.KindVolume, Resources: []cloud.Resource{{Kind: cloud.KindVolume, ID: "vol-1", State: "available", Tags: tags}}},
				{Kind: cloud.KindInstanceProfile, Resources: []cloud.Resource{{Kind: cloud.KindInstanceProfile, ID: "demo_1"}}},
			}
			got := Deletable(answers, Known{Pools: c.pools}, Scope{Cluster: "demo", Instances: true, Leftovers: true}).Now()
			if diff := cmp.Diff(c.want, idsOf(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestDeserted checks that in a cluster that keeps running only resources count that certainly belong to deleted
// objects.
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
			for _, f := range OfDeleted([]cloud.Answer{{Kind: c.resource.Kind, Resources: []cloud.Resource{c.resource}}}, living) {
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
