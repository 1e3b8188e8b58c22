package render_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/render"
)

// TestPoolsThatNeverLaunch: values that no node can have because of their form, their unit or the class are refused,
// each with its reason. What only AWS knows is not.
func TestPoolsThatNeverLaunch(t *testing.T) {
	requires := func(key, values string) string {
		return strings.Replace(pool("a"), "requirements: []", "requirements: [{key: "+key+", operator: In, values: ["+values+"]}]", 1)
	}
	limits := func(text string) string {
		return strings.Replace(pool("a"), "requirements: []", "requirements: []\n  limits: "+text, 1)
	}
	with := func(alias, pool string) string {
		return pool + "---\n" + strings.Replace(class("default"), "al2023@latest", alias, 1)
	}
	for name, tc := range map[string]struct{ text, want string }{
		"a zone of another region":              {requires("topology.kubernetes.io/zone", "us-east-1a"), "no value of topology.kubernetes.io/zone [us-east-1a] is a zone of the cluster's region, such as eu-west-1a"},
		"a region for a zone":                   {requires("topology.kubernetes.io/zone", "eu-west-1"), "is a zone of the cluster's region"},
		"a zone of a region with a longer name": {requires("topology.kubernetes.io/zone", "eu-west-12a"), "is a zone of the cluster's region"},
		"a zone":                                {requires("topology.kubernetes.io/zone", "eu-west-1a"), ""},
		"a local zone":                          {requires("topology.kubernetes.io/zone", "eu-west-1-xyz-1a"), ""},
		"one zone of two":                       {requires("topology.kubernetes.io/zone", "eu-west-1a, us-east-1a"), ""},
		"a zone ID of another region":           {requires("topology.k8s.aws/zone-id", "use1-az1"), "is a zone ID of the cluster's region, such as euw1-az1"},
		"a zone for a zone ID":                  {requires("topology.k8s.aws/zone-id", "eu-west-1a"), "is a zone ID of the cluster's region"},
		"a zone ID":                             {requires("topology.k8s.aws/zone-id", "euw1-az3"), ""},
		"another region":                        {requires("topology.kubernetes.io/region", "us-east-1"), "is the region of the cluster, eu-west-1"},
		"a zone among the labels":               {strings.Replace(pool("a"), "  template:\n", "  template:\n    metadata: {labels: {topology.kubernetes.io/zone: us-east-1a}}\n", 1), "is a zone of the cluster's region"},
		"memory in GiB":                         {requires("karpenter.k8s.aws/instance-memory", "'32'"), "no value of karpenter.k8s.aws/instance-memory [32] is a whole number of MiB, at least 512"},
		"memory with a unit":                    {requires("karpenter.k8s.aws/instance-memory", "32Gi"), "is a whole number of MiB"},
		"memory in MiB":                         {requires("karpenter.k8s.aws/instance-memory", "'32768'"), ""},
		"less memory than any":                  {strings.Replace(requires("karpenter.k8s.aws/instance-memory", "'64'"), "operator: In", "operator: Lt", 1), "instance-memory Lt [64] allows no instance type: it is a whole number of MiB, at least 512"},
		"a type for a family":                   {requires("karpenter.k8s.aws/instance-family", "m5.large"), "no value of karpenter.k8s.aws/instance-family [m5.large] is an instance family such as m5"},
		"a family for a type":                   {requires("node.kubernetes.io/instance-type", "m5"), "is an instance type such as m5.large"},
		"a size that none is":                   {requires("karpenter.k8s.aws/instance-size", "2x-large"), "no value of karpenter.k8s.aws/instance-size [2x-large] is a size such as 2xlarge"},
		"sizes":                                 {requires("karpenter.k8s.aws/instance-size", "metal-24xl, nano, 48xlarge"), ""},
		"a GPU in capitals":                     {requires("karpenter.k8s.aws/instance-gpu-name", "A100"), "is in lower case, such as a100"},
		"a GPU":                                 {requires("karpenter.k8s.aws/instance-gpu-name", "a10g, radeon-pro-v520"), ""},
		"a type that is new":                    {requires("node.kubernetes.io/instance-type", "m99g.3xlarge"), ""},
		"Graviton with amd64":                   {both("karpenter.k8s.aws/instance-family", "m7g", "amd64"), "none of karpenter.k8s.aws/instance-family [m7g] fits"},
		"a type of AMD with arm64":              {both("node.kubernetes.io/instance-type", "m6a.large", "arm64"), "none of node.kubernetes.io/instance-type [m6a.large] fits"},
		"Graviton with arm64":                   {both("karpenter.k8s.aws/instance-family", "im4gn", "arm64"), ""},
		"a family that does not tell":           {both("karpenter.k8s.aws/instance-family", "a1", "arm64"), ""},
		"a family with more than letters":       {both("karpenter.k8s.aws/instance-family", "p6e-gb200", "arm64"), ""},
		"bytes of memory":                       {limits("{memory: 1000}"), "a.yaml:10: NodePool/a: no node could be launched: spec.limits.memory is 1k, and the smallest node that it allows has 512Mi: without a unit it is in bytes"},
		"a tenth of a processor":                {limits("{cpu: 100m}"), "spec.limits.cpu is 100m, and the smallest node that it allows has 1 processors"},
		"half a node":                           {limits("{nodes: 500m}"), "spec.limits.nodes is 500m, and each node counts as 1"},
		"a resource that no node has":           {limits("{cpuu: 100}"), "spec.limits.cpuu: no node has a resource of this name"},
		"a GPU without a domain":                {limits("{gpu: 1}"), "spec.limits.gpu: no node has a resource of this name"},
		"other resources":                       {limits("{nvidia.com/gpu: 1, hugepages-2Mi: 1Gi, ephemeral-storage: 100Gi, pods: 1, nodes: 2}"), ""},
		"bytes of storage":                      {limits("{ephemeral-storage: 100}"), "spec.limits.ephemeral-storage is 100"},
		"no growth":                             {limits("{cpu: 0, memory: 0}"), ""},
		"less than its smallest node":           {strings.Replace(requires("karpenter.k8s.aws/instance-cpu", "'8', '16'"), "]}]", "]}]\n  limits: {cpu: 4}", 1), "the smallest node that it allows has 8 processors"},
		"Windows for linux":                     {with("windows2022@latest", requires("kubernetes.io/os", "linux")), "its requirements on kubernetes.io/os do not allow windows, which the AMIs of EC2NodeClass/default run (windows2022)"},
		"Windows for both":                      {with("windows2022@latest", requires("kubernetes.io/os", "linux, windows")), ""},
		"Windows of nobody":                     {with("windows2022@latest", pool("a")), ""},
		"linux for windows":                     {with("al2023@latest", requires("kubernetes.io/os", "windows")), "do not allow linux"},
		"reserved without a reservation":        {with("al2023@latest", requires("karpenter.sh/capacity-type", "reserved")), "allow only reserved, and EC2NodeClass/default has no capacityReservationSelectorTerms"},
		"reserved or spot":                      {with("al2023@latest", requires("karpenter.sh/capacity-type", "reserved, spot")), ""},
		"reserved of a class elsewhere":         {requires("karpenter.sh/capacity-type", "reserved"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := renderAll(t, folder(map[string]string{"plumbline.yaml": plumblineYAML, "a.yaml": tc.text}), ".", embedded(t))
			var errs render.Errors
			if refused := errors.As(err, &errs); refused != (tc.want != "") || refused && (len(errs) != 1 || !strings.Contains(errs[0].Error(), tc.want)) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
}

// both returns a NodePool with a requirement on a label and one on the architecture.
func both(key, value, arch string) string {
	return strings.Replace(pool("a"), "requirements: []",
		"requirements: [{key: "+key+", operator: In, values: ["+value+"]}, {key: kubernetes.io/arch, operator: In, values: ["+arch+"]}]", 1)
}

// TestValuesThatMatchNoNode: they result in a warning if others of the requirement may match.
func TestValuesThatMatchNoNode(t *testing.T) {
	text := strings.Replace(pool("a"), "requirements: []", "requirements: [{key: topology.kubernetes.io/zone, operator: In, values: [eu-west-1a, us-east-1a]}]", 1)
	set, err := renderAll(t, folder(map[string]string{"plumbline.yaml": plumblineYAML, "a.yaml": text}), ".", embedded(t))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"a.yaml:1: NodePool/a: topology.kubernetes.io/zone [us-east-1a] matches no node: it is not a zone of the cluster's region, such as eu-west-1a"}
	if diff := cmp.Diff(want, set.Warnings); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}
