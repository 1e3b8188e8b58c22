package simulate_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/aws/karpenter-provider-aws/pkg/providers/pricing"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/provision/cloud/offers"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/apply/applytest"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/simulate"
	"github.com/plumbline-dev/plumbline/render"
)

// large is a cluster with many nodes, and a commit that replaces those of every tenth NodePool.
type large struct {
	capture *simulate.Capture
	// files are the definitions after the commit, by their names in a repository.
	files  map[string]string
	commit simulate.Commit
}

const (
	largePools = 100
	// podsPerNode pods use most of an m5.large, so that one that is rescheduled does not fit on another node.
	podsPerNode = 5
	// workloads is the number of workloads of the pods. A fifth of them use topology spread over zones.
	workloads = 500
)

func newLarge(t testing.TB, claims int) *large {
	t.Helper()
	l := &large{capture: fleet(), files: map[string]string{"plumbline.yaml": largeSettings}, commit: commitOf(nil, nil)}
	server := applytest.New(t)
	noted := map[string]string{}
	l.define(t, server, largeClass, largeClass, noted)
	for i := range largePools {
		l.define(t, server, fmt.Sprintf(largePool, i, "[]"), fmt.Sprintf(largePool, i, map[bool]string{true: "[{key: example.com/new, effect: PreferNoSchedule}]", false: "[]"}[i%10 == 0]), noted)
	}
	for i := range claims {
		l.launch(i, noted)
	}
	l.capture.Catalog = listed(t)
	return l
}

// define adds a definition to the cluster, as applied by the NodeSync and processed by Karpenter.
func (l *large) define(t testing.TB, server *applytest.Server, before, after string, noted map[string]string) {
	t.Helper()
	object, changed := server.Definition(t, before), server.Definition(t, after)
	l.files["nodes/"+strings.ToLower(object.Ref.Kind)+"-"+object.Ref.Name+".yaml"] = after
	if err := server.ApplyAs(t.Context(), plan.Desired(object, plan.OwnerOf("plumbline-system", "prod")), v1alpha1.FieldManager, true); err != nil {
		t.Fatal(err)
	}
	server.Edit(t, object.Ref, "karpenter", func(o *unstructured.Unstructured) {
		o.SetAnnotations(noteOf(t, o))
		maps.Copy(noted, o.GetAnnotations())
		o.Object["status"] = classNamed(&testing.T{}, "default")["status"]
		if object.Ref.Kind == render.NodePool {
			o.Object["status"] = poolNamed(&testing.T{}, "any", "", "[]")["status"]
		}
	})
	live := server.Object(object.Ref).Object
	l.capture.Definitions = append(l.capture.Definitions, live)
	l.commit.Definitions = append(l.commit.Definitions, simulate.WithStatus(plan.Desired(changed, plan.OwnerOf("plumbline-system", "prod")).Object, live["status"].(map[string]any)))
}

// noteOf returns the hash that Karpenter adds to a definition.
func noteOf(t testing.TB, o *unstructured.Unstructured) map[string]string {
	t.Helper()
	pool, class, bundle := &karpv1.NodePool{}, &awsv1.EC2NodeClass{}, ""
	if o.GetKind() == render.NodePool {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, pool); err != nil {
			t.Fatal(err)
		}
		return map[string]string{karpv1.NodePoolHashVersionAnnotationKey: karpv1.NodePoolHashVersion, karpv1.NodePoolHashAnnotationKey: pool.Hash()}
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, class); err != nil {
		t.Fatal(err)
	}
	return map[string]string{awsv1.AnnotationEC2NodeClassHashVersion: awsv1.EC2NodeClassHashVersion, awsv1.AnnotationEC2NodeClassHash: class.Hash(&bundle)}
}

// launch adds a node with its pods.
func (l *large) launch(i int, noted map[string]string) {
	c, pool, zone := l.capture, i%largePools, "us-east-1"+[]string{"a", "b"}[i/largePools%2]
	uid := node(c, fmt.Sprintf("pool-%04d", pool), fmt.Sprintf("ip-10-%d-%d-%d.ec2.internal", i>>16, i>>8&255, i&255), slices.Repeat([]string{"350m"}, podsPerNode)...)
	claim, machine := &c.NodeClaims[len(c.NodeClaims)-1], &c.Nodes[len(c.Nodes)-1]
	claim.Annotations = noted
	claim.Labels[corev1.LabelTopologyZone], claim.Labels[corev1.LabelTopologyRegion] = zone, "us-east-1"
	machine.Labels = claim.Labels
	for n := range podsPerNode {
		p := &c.Pods[len(c.Pods)-1-n]
		app := map[string]string{"app": fmt.Sprintf("app-%03d", (i*podsPerNode+n)%workloads)}
		p.Labels = app
		if (i*podsPerNode+n)%workloads%5 == 0 {
			p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
				MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.ScheduleAnyway, LabelSelector: &metav1.LabelSelector{MatchLabels: app},
			}}
		}
	}
	if pool%10 == 0 {
		l.commit.Touched[types.UID(uid)] = true
	}
}

// listed returns the instance types in Karpenter's price list for us-east-1, with sizes derived from their names.
func listed(t testing.TB) *offers.Catalog {
	t.Helper()
	c := &offers.Catalog{Region: "us-east-1", Zones: map[string][]string{}}
	var described []string
	for _, name := range slices.Sorted(maps.Keys(pricing.InitialOnDemandPricesAWS["us-east-1"])) {
		family, size, _ := strings.Cut(string(name), ".")
		cpus := map[string]int{"large": 2, "xlarge": 4}[size]
		if times := 0; cpus == 0 {
			if n, _ := fmt.Sscanf(size, "%dxlarge", &times); n == 0 || strings.HasPrefix(size, "metal") {
				continue // fewer than two processors, or bare metal
			}
			cpus = 4 * times
		}
		gib := cmp.Or(map[byte]int{'c': 2, 'm': 4, 'r': 8}[family[0]], 4) * cpus
		described = append(described, fmt.Sprintf(`{"InstanceType":%q,"VCpuInfo":{"DefaultVCpus":%d},"MemoryInfo":{"SizeInMiB":%d},
			"ProcessorInfo":{"SupportedArchitectures":["x86_64"],"Manufacturer":"Intel"},"Hypervisor":"nitro","SupportedUsageClasses":["on-demand","spot"],
			"NetworkInfo":{"MaximumNetworkInterfaces":4,"Ipv4AddressesPerInterface":15,"DefaultNetworkCardIndex":0,"NetworkCards":[{"NetworkCardIndex":0,"MaximumNetworkInterfaces":4}]}}`, name, cpus, gib<<10))
		c.Zones[string(name)] = []string{"us-east-1a", "us-east-1b"}
	}
	if err := json.Unmarshal([]byte("["+strings.Join(described, ",")+"]"), &c.Types); err != nil {
		t.Fatal(err)
	}
	return c
}

const largeSettings = `apiVersion: config.plumbline.dev/v1alpha1
kind: Karpenter
cluster: {name: large, region: us-east-1}
management: External
nodes: [./nodes]
`

const largeClass = `apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: default}
spec:
  role: KarpenterNodeRole-large
  amiSelectorTerms: [{alias: al2023@v20251002}]
  subnetSelectorTerms: [{tags: {karpenter.sh/discovery: large}}]
  securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: large}}]
`

const largePool = `apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: pool-%04d}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      taints: %s
      requirements:
        - {key: kubernetes.io/arch, operator: In, values: [amd64]}
        - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
        - {key: karpenter.k8s.aws/instance-category, operator: In, values: [c, m, r]}
  disruption:
    consolidateAfter: 1m
    budgets: [{nodes: 10%%}]
`
