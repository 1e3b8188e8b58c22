package leftover

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/provision/cloud"
)

// TestEnds: of each kind only what is left, free and the cluster's alone, and only where it is asked for.
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
			got := Ends(answers, known, c.scope)
			spared := map[string]string{}
			for _, s := range got.Spared {
				spared[s.ID] = s.Why
			}
			if diff := cmp.Diff([]any{c.ends, c.going, c.spared}, []any{idsOf(got.Ends), idsOf(got.Going), spared}); diff != "" {
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

// TestNow: an instance profile is ended in a pass whose answer has no instance any more that may use it.
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
			got := Ends(answers, Known{Pools: c.pools}, Scope{Cluster: "demo", Instances: true, Leftovers: true}).Now()
			if diff := cmp.Diff(c.want, idsOf(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
