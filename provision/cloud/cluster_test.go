package cloud

import (
	"encoding/pem"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCluster(t *testing.T) {
	client := connect(t, &account{}, Options{Attempts: 1})
	got, err := client.Cluster(t.Context(), "demo")
	if err != nil {
		t.Fatal(err)
	}
	want := Cluster{
		Name: "demo", ARN: "arn:aws:eks:eu-west-1:111122223333:cluster/demo", Endpoint: "https://demo.example.com",
		Version: "1.36", CertificateAuthority: []byte("PEM"),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("cluster (-want +got):\n%s", diff)
	}
	var missing *NotFoundError
	if _, err := client.Cluster(t.Context(), "other"); !errors.As(err, &missing) || missing.Where != "eu-west-1 of account 111122223333" {
		t.Errorf("unknown cluster: got %T: %v", err, err)
	}
}

func TestIdentity(t *testing.T) {
	got, err := connect(t, &account{}, Options{}).Identity(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := Identity{Account: "111122223333", ARN: "arn:aws:iam::111122223333:role/plumbline"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("identity (-want +got):\n%s", diff)
	}
}

func TestVerify(t *testing.T) {
	certificate := func(der string) []byte {
		return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte(der)})
	}
	headed := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Headers: map[string]string{"Subject": "kubernetes"}, Bytes: []byte("ours")})
	running := []Instance{{ID: "i-1", State: "running"}}
	cases := map[string]struct {
		server, cluster []byte
		live            []string
		visible         []Instance
		want            string
	}{
		"the same":                         {server: certificate("ours"), cluster: certificate("ours"), want: ReasonVerified},
		"the same, written otherwise":      {server: append([]byte("# bundle\r\n"), headed...), cluster: certificate("ours"), want: ReasonVerified},
		"one of a bundle":                  {server: append(certificate("proxy"), certificate("ours")...), cluster: certificate("ours"), want: ReasonVerified},
		"another cluster":                  {server: certificate("ours"), cluster: certificate("theirs"), want: ReasonAuthorityDiffers},
		"one that is being rotated":        {server: append(certificate("old"), certificate("older")...), cluster: append(certificate("old"), certificate("new")...), want: ReasonVerified},
		"no authority here":                {cluster: certificate("ours"), want: ReasonAuthorityUnknown},
		"no authority there":               {server: certificate("ours"), want: ReasonAuthorityUnknown},
		"its instances are seen":           {server: certificate("ours"), cluster: certificate("ours"), live: []string{"aws:///eu-west-1a/i-1"}, visible: running, want: ReasonVerified},
		"one of them is too new":           {server: certificate("ours"), cluster: certificate("ours"), live: []string{"aws:///eu-west-1a/i-1", "aws:///eu-west-1a/i-2"}, visible: running, want: ReasonVerified},
		"its instances are in another one": {server: certificate("ours"), cluster: certificate("ours"), live: []string{"aws:///eu-west-1a/i-9"}, visible: running, want: ReasonInstancesInvisible},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := Verify(Cluster{Name: "demo", CertificateAuthority: c.cluster}, c.server, c.live, c.visible)
			if got.Reason != c.want || got.OK != (c.want == ReasonVerified) || got.Message == "" {
				t.Errorf("got %+v, want reason %s", got, c.want)
			}
		})
	}
}

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

// TestClaimByEachNameTag checks that, whichever tool has set a tag with a cluster's name, the name of another cluster
// protects the resource, while the cluster's own name alone does not make it the cluster's.
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
