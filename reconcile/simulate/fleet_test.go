package simulate_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/yaml"

	"github.com/plumbline-dev/plumbline/provision/cloud/offers"
	"github.com/plumbline-dev/plumbline/reconcile/simulate"
)

// catalogOf returns what EC2 offers in us-east-1: types as name, vCPUs and GiB.
func catalogOf(t *testing.T, types ...string) *offers.Catalog {
	t.Helper()
	c := &offers.Catalog{Region: "us-east-1", Zones: map[string][]string{}}
	for _, described := range types {
		var name string
		var cpus, gib int
		if _, err := fmt.Sscanf(described, "%s %d %d", &name, &cpus, &gib); err != nil {
			t.Fatal(err)
		}
		text := fmt.Sprintf(`[{"InstanceType":%q,"VCpuInfo":{"DefaultVCpus":%d},"MemoryInfo":{"SizeInMiB":%d},
			"ProcessorInfo":{"SupportedArchitectures":["x86_64"],"Manufacturer":"Intel"},"Hypervisor":"nitro",
			"SupportedUsageClasses":["on-demand","spot"],
			"NetworkInfo":{"MaximumNetworkInterfaces":4,"Ipv4AddressesPerInterface":15,"DefaultNetworkCardIndex":0,"NetworkCards":[{"NetworkCardIndex":0,"MaximumNetworkInterfaces":4}]}}]`, name, cpus, gib*1024)
		before := c.Types
		c.Types = nil
		if err := json.Unmarshal([]byte(text), &c.Types); err != nil {
			t.Fatal(err)
		}
		c.Types = append(before, c.Types...)
		c.Zones[name] = []string{"us-east-1a", "us-east-1b"}
	}
	return c
}

func offersOf(t *testing.T, types ...string) *offers.Offers {
	t.Helper()
	o, err := offers.New(t.Context(), catalogOf(t, types...), offers.Defaults())
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// defined returns a definition from its YAML.
func defined(t *testing.T, text string) map[string]any {
	t.Helper()
	fields := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &fields); err != nil {
		t.Fatal(err)
	}
	return fields
}

func classNamed(t *testing.T, name string) map[string]any {
	t.Helper()
	return defined(t, `
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: `+name+`}
spec:
  amiSelectorTerms: [{alias: al2023@v20251002}]
  subnetSelectorTerms: [{tags: {karpenter.sh/discovery: prod}}]
status:
  subnets: [{id: subnet-a, zone: us-east-1a, zoneID: use1-az1}, {id: subnet-b, zone: us-east-1b, zoneID: use1-az2}]
`)
}

// poolNamed returns a NodePool with more fields of its spec, and its requirements.
func poolNamed(t *testing.T, name, more, requirements string) map[string]any {
	t.Helper()
	return defined(t, `
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: `+name+`}
spec:
  `+more+`
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements: `+requirements+`
status:
  conditions:
  - {type: Ready, status: "True", reason: Ready, lastTransitionTime: "2026-01-02T15:04:05Z"}
  - {type: ValidationSucceeded, status: "True", reason: Ready, lastTransitionTime: "2026-01-02T15:04:05Z"}
  - {type: NodeClassReady, status: "True", reason: Ready, lastTransitionTime: "2026-01-02T15:04:05Z"}
`)
}

// fleet returns a Capture with nodes of pools, each an on-demand m5.large in us-east-1a.
func fleet(definitions ...map[string]any) *simulate.Capture {
	return &simulate.Capture{Version: simulate.Version, TakenAt: time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC), Definitions: definitions, Settings: simulate.Settings{Settings: offers.Defaults()}}
}

// node adds a node with pods, named after it, that each request some CPU.
func node(c *simulate.Capture, pool, name string, cpus ...string) types.UID {
	labels := map[string]string{
		karpv1.NodePoolLabelKey: pool, corev1.LabelInstanceTypeStable: "m5.large", karpv1.CapacityTypeLabelKey: karpv1.CapacityTypeOnDemand,
		corev1.LabelTopologyZone: "us-east-1a", karpv1.NodeRegisteredLabelKey: "true", karpv1.NodeInitializedLabelKey: "true",
		corev1.LabelArchStable: "amd64", corev1.LabelOSStable: "linux", corev1.LabelHostname: name,
	}
	has := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("7Gi"), corev1.ResourcePods: resource.MustParse("29")}
	c.NodeClaims = append(c.NodeClaims, karpv1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: labels},
		Spec:       karpv1.NodeClaimSpec{NodeClassRef: &karpv1.NodeClassReference{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: "default"}},
		Status:     karpv1.NodeClaimStatus{ProviderID: "aws:///us-east-1a/" + name, NodeName: name, Capacity: has, Allocatable: has},
	})
	c.Nodes = append(c.Nodes, corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec:       corev1.NodeSpec{ProviderID: "aws:///us-east-1a/" + name},
		Status:     corev1.NodeStatus{Capacity: has, Allocatable: has, Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	})
	for i, cpu := range cpus {
		pod(c, fmt.Sprintf("%s-%d", name, i), name, cpu)
	}
	return types.UID(name)
}

// pod adds a pod; without a node it is pending.
func pod(c *simulate.Capture, name, node, cpu string) *corev1.Pod {
	p := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: name, UID: types.UID(name), Labels: map[string]string{"app": "web"}, OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: "rs"}}},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}}}}},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning},
	}
	if node == "" {
		p.Status.Phase = corev1.PodPending
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
	}
	c.Pods = append(c.Pods, p)
	return &c.Pods[len(c.Pods)-1]
}

func simulated(t *testing.T, c *simulate.Capture, after []map[string]any, touched []types.UID, types ...string) *simulate.Outcome {
	t.Helper()
	out, err := simulate.Run(t.Context(), c, commitOf(after, touched), offersOf(t, types...))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func commitOf(after []map[string]any, touched []types.UID) simulate.Commit {
	commit := simulate.Commit{Definitions: after, Touched: map[types.UID]bool{}}
	for _, uid := range touched {
		commit.Touched[uid] = true
	}
	return commit
}
