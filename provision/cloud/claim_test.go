package cloud

import (
	"slices"
	"testing"
)

func TestClaim(t *testing.T) {
	pooled := func(tags map[string]string) map[string]string {
		tags[nodePoolTag] = "general"
		return tags
	}
	cases := map[string]struct {
		kind   Kind
		tags   map[string]string
		ours   bool
		others []string
	}{
		"no tags":                          {KindVolume, nil, false, nil},
		"owned":                            {KindVolume, map[string]string{"kubernetes.io/cluster/demo": "owned"}, true, nil},
		"shared is nobody's":               {KindVolume, map[string]string{"kubernetes.io/cluster/demo": "shared"}, false, nil},
		"by its name":                      {KindLaunchTemplate, map[string]string{"eks:eks-cluster-name": "demo"}, false, nil},
		"long ago":                         {KindLaunchTemplate, map[string]string{"karpenter.k8s.aws/cluster": "demo"}, false, nil},
		"the CNI plugin's":                 {KindNetworkInterface, map[string]string{"cluster.k8s.amazonaws.com/name": "demo"}, true, nil},
		"a volume with the CNI plugin's":   {KindVolume, map[string]string{"cluster.k8s.amazonaws.com/name": "demo"}, false, nil},
		"an instance by its class only":    {KindInstance, map[string]string{"kubernetes.io/cluster/demo": "owned", "karpenter.k8s.aws/ec2nodeclass": "default"}, false, nil},
		"an instance by its name only":     {KindInstance, pooled(map[string]string{"eks:eks-cluster-name": "demo"}), false, nil},
		"another cluster's":                {KindVolume, map[string]string{"kubernetes.io/cluster/demo2": "owned"}, false, []string{"demo2"}},
		"another one shares it":            {KindVolume, map[string]string{"kubernetes.io/cluster/demo": "owned", "kubernetes.io/cluster/b": "shared"}, true, []string{"b"}},
		"another one by its name":          {KindVolume, map[string]string{"kubernetes.io/cluster/demo": "owned", "eks:eks-cluster-name": "b"}, true, []string{"b"}},
		"another one's CNI plugin":         {KindNetworkInterface, map[string]string{"kubernetes.io/cluster/demo": "owned", "cluster.k8s.amazonaws.com/name": "b"}, true, []string{"b"}},
		"two others, each once":            {KindVolume, map[string]string{"kubernetes.io/cluster/c": "owned", "eks:eks-cluster-name": "c", "kubernetes.io/cluster/b": ""}, false, []string{"b", "c"}},
		"an instance of Karpenter's":       {KindInstance, pooled(map[string]string{"kubernetes.io/cluster/demo": "owned"}), true, nil},
		"an instance of a node group":      {KindInstance, map[string]string{"kubernetes.io/cluster/demo": "owned", "eks:nodegroup-name": "system"}, false, nil},
		"one of a node group, and a pool":  {KindInstance, pooled(map[string]string{"kubernetes.io/cluster/demo": "owned", "eks:nodegroup-name": "system"}), false, nil},
		"an instance of another cluster's": {KindInstance, pooled(map[string]string{"kubernetes.io/cluster/b": "owned"}), false, []string{"b"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			ours, others := Resource{Kind: c.kind, Tags: c.tags}.Claim("demo")
			if ours != c.ours || !slices.Equal(others, c.others) {
				t.Errorf("ours %t, others %v, want %t, %v", ours, others, c.ours, c.others)
			}
		})
	}
}

// TestClaimByEachNameTag: whichever tool has given a tag with a cluster's name, another's spares what has it, and the
// cluster's own does not make it the cluster's.
func TestClaimByEachNameTag(t *testing.T) {
	keys := []string{
		"KubernetesCluster", "alpha.eksctl.io/cluster-name", "aws:eks:cluster-name", "cluster.k8s.amazonaws.com/name",
		"eks:cluster-name", "eks:eks-cluster-name", "eksctl.cluster.k8s.io/v1alpha1/cluster-name", "karpenter.k8s.aws/cluster",
	}
	if all := slices.Sorted(slices.Values(nameTags)); !slices.Equal(all, keys) {
		t.Errorf("the tags with a cluster's name are %v, and not all are tested: %v", all, keys)
	}
	for _, key := range keys {
		for value, want := range map[string]string{"demo": "", "demo2": "it has a tag of cluster demo2, too", "Demo": "it has a tag of cluster Demo, too", "": `it has a tag of cluster "", too`} {
			got := ""
			if err := (Resource{Kind: KindVolume, Tags: map[string]string{"kubernetes.io/cluster/demo": "owned", key: value}}).Claimed("demo"); err != nil {
				got = err.Error()
			}
			if got != want {
				t.Errorf("%s=%q: %q, want %q", key, value, got, want)
			}
		}
		if ours, others := (Resource{Kind: KindVolume, Tags: map[string]string{key: "demo"}}).Claim("demo"); ours || len(others) > 0 {
			t.Errorf("%s=demo only: ours %t, others %v", key, ours, others)
		}
	}
}
