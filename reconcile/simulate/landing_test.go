package simulate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/plumbline-dev/plumbline/confine"
	"github.com/plumbline-dev/plumbline/provision/cloud/offers"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

var children *confine.Runner

func TestMain(m *testing.M) {
	limits := confine.DefaultLimits()
	limits.Memory *= 8 // the race detector needs memory, too
	children = confine.Serve(os.Args, confine.Options{Jobs: map[string]confine.Job{JobName: Job}, AtOnce: 1, Limits: limits})
	os.Exit(m.Run())
}

// served is a cluster from a Capture, with a number of additional pods, and the feature gates of Karpenter's
// controller.
type served struct {
	client.Reader
	more  int64
	gates string
}

func (s served) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	switch l := list.(type) {
	case *metav1.PartialObjectMetadataList:
		l.Items, l.RemainingItemCount = make([]metav1.PartialObjectMetadata, 1), &s.more
		return nil
	case *appsv1.DeploymentList:
		if s.gates != "" {
			l.Items = make([]appsv1.Deployment, 1)
			l.Items[0].Spec.Template.Spec.Containers = []corev1.Container{{Env: []corev1.EnvVar{{Name: "FEATURE_GATES", Value: s.gates}}}}
		}
		return nil
	}
	return s.Reader.List(ctx, list, options...)
}

// landingCluster has a removed pool with one node and a pod on it, a pool that replaces it, and a node without a pool
// that has room.
const landingCluster = `
version: 1
definitions:
- {apiVersion: karpenter.k8s.aws/v1, kind: EC2NodeClass, metadata: {name: default}, spec: {subnetSelectorTerms: [{id: a}]}, status: {subnets: [{id: a, zone: us-east-1a, zoneID: use1-az1}, {id: b, zone: us-east-1b, zoneID: use1-az2}]}}
- {apiVersion: karpenter.k8s.aws/v1, kind: EC2NodeClass, metadata: {name: narrow}, spec: {subnetSelectorTerms: [{id: c}]}, status: {subnets: [{id: c, zone: us-east-1a, zoneID: use1-az1}]}}
- {apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: general}, spec: {template: {spec: {nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}, requirements: []}}}}
- {apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: batch}, spec: {LIMITS template: {spec: {TAINTS nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}, requirements: [ZONE]}}}, status: {resources: {cpu: 8}}}
persistentVolumes:
- {metadata: {name: pv}, spec: {csi: {driver: ebs.csi.aws.com, volumeHandle: v}, nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [us-east-1a]}]}]}}}}
persistentVolumeClaims:
- {metadata: {name: data, namespace: web}, spec: {volumeName: pv}, status: {phase: Bound}}
nodeClaims:
- {metadata: {name: n1, uid: n1, labels: {karpenter.sh/nodepool: general}}, spec: {nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}}, status: {providerID: "aws:///us-east-1a/n1", nodeName: n1, capacity: {cpu: "2"}, allocatable: {cpu: "2"}}}
nodes:
- {metadata: {name: n1, labels: {karpenter.sh/nodepool: general, topology.kubernetes.io/region: us-east-1, karpenter.sh/registered: "true", karpenter.sh/initialized: "true"}}, spec: {providerID: "aws:///us-east-1a/n1"}, status: {capacity: {cpu: "2", pods: "20"}, allocatable: {cpu: "2", pods: "20"}}}
- {metadata: {name: own, labels: {topology.kubernetes.io/region: us-east-1}}, spec: {providerID: "aws:///us-east-1a/own"}, status: {capacity: {cpu: "2", pods: "20"}, allocatable: {cpu: "ROOM", pods: "20"}, conditions: [{type: Ready, status: "True"}]}}
pods:
- {metadata: {namespace: web, name: a, uid: a, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web, uid: rs}]}, spec: {nodeName: n1, VOLUMES containers: [{name: c, resources: {requests: {cpu: "1"}}}]}, status: {phase: Running}}
`

const m5large = `
region: us-east-1
zones: {m5.large: [us-east-1a, us-east-1b]}
types:
- {InstanceType: m5.large, VCpuInfo: {DefaultVCpus: 2}, MemoryInfo: {SizeInMiB: 8192}, ProcessorInfo: {SupportedArchitectures: [x86_64], Manufacturer: Intel},
   Hypervisor: nitro, SupportedUsageClasses: [on-demand], NetworkInfo: {MaximumNetworkInterfaces: 4, Ipv4AddressesPerInterface: 15, DefaultNetworkCardIndex: 0, NetworkCards: [{NetworkCardIndex: 0, MaximumNetworkInterfaces: 4}]}}
`

// removing returns the removal of general, which may start, unless it is held or has started.
func removing() (*plan.Plan, plan.Live) {
	general := render.Ref{Kind: render.NodePool, Name: "general"}
	return &plan.Plan{Revision: "main@sha1:1", Removals: []plan.Candidate{{Ref: general, UID: "p", Nodes: 1}}},
		plan.Live{NodeClaims: []plan.NodeClaim{{UID: "n1", Pool: "general", Node: "n1"}}}
}

// fixture is a cluster with variable parts.
type fixture struct {
	taints, limits, room, zone, volumes string
	more                                int64
}

func (f fixture) simulator(t *testing.T, confined *confine.Runner, asked func() error) *Simulator {
	t.Helper()
	catalog := &offers.Catalog{}
	if err := yaml.Unmarshal([]byte(m5large), catalog); err != nil {
		t.Fatal(err)
	}
	reader, err := NewCaptureClient(f.capture(t))
	if err != nil {
		t.Fatal(err)
	}
	return &Simulator{
		Reader: served{Reader: reader, more: f.more}, Confine: confined, Now: func() time.Time { return time.Date(2026, 11, 27, 8, 0, 0, 0, time.UTC) },
		Catalogs: &Catalogs{Ask: func(context.Context, string) (*offers.Catalog, error) { return catalog, asked() }},
	}
}

func (f fixture) capture(t *testing.T) *Capture {
	t.Helper()
	text := strings.NewReplacer("ZONE", f.zone, "VOLUMES", f.volumes, "TAINTS", f.taints, "LIMITS", f.limits, "ROOM", cmp.Or(f.room, "0")).Replace(landingCluster)
	c := &Capture{}
	if err := yaml.Unmarshal([]byte(text), c); err != nil {
		t.Fatal(err)
	}
	return c
}

func never() error { return nil }

// TestWhereThePodsOfAPoolGo checks, in this process and in a child process, whether the remaining pool takes the pod; a
// large cluster is simulated without the nodes that stay.
func TestWhereThePodsOfAPoolGo(t *testing.T) {
	const large = 2 * largestCluster
	const volume, zoneB = `volumes: [{name: data, persistentVolumeClaim: {claimName: data}}],`, `{key: topology.kubernetes.io/zone, operator: In, values: [us-east-1b]}`
	tainted := `taints: [{key: dedicated, value: gpu, effect: NoSchedule}],`
	for name, c := range map[string]struct {
		fixture
		nowhere string
	}{
		"on a new node":                        {fixture{}, ""},
		"nowhere, by a taint":                  {fixture{taints: tainted}, "did not tolerate taint"},
		"on a node that stays":                 {fixture{taints: tainted, room: "2"}, ""},
		"nowhere, by a limit":                  {fixture{limits: `limits: {cpu: "9"},`}, "limits"},
		"within a limit":                       {fixture{limits: `limits: {cpu: "10"},`}, ""},
		"nowhere, by a limit that is a number": {fixture{limits: `limits: {cpu: 9},`}, "limits"},
		"nowhere, by a limit of nodes":         {fixture{limits: `limits: {nodes: 0},`}, "limits"},
		"nowhere, by a limit of 0":             {fixture{limits: `limits: {cpu: 0},`}, "limits"},
		"by its volume's zone":                 {fixture{volumes: volume}, ""},
		"nowhere, by its volume's zone":        {fixture{volumes: volume, zone: zoneB}, "us-east-1a"},
		"of a large cluster, on a new node":    {fixture{more: large}, ""},
		"of a large cluster, by a taint":       {fixture{taints: tainted, room: "2", more: large}, "did not tolerate taint"},
		"of a large cluster, within limits":    {fixture{limits: `limits: {cpu: "10"},`, more: large}, ""},
		"of a large cluster, used up limits":   {fixture{limits: `limits: {cpu: "9"},`, more: large}, "limits"},
	} {
		for where, runner := range map[string]*confine.Runner{"": nil, ", in a child": children} {
			t.Run(name+where, func(t *testing.T) {
				made, live := removing()
				found, err := c.simulator(t, runner, never).Ask(t.Context(), made, live)
				if err != nil {
					t.Fatal(err)
				}
				pods := found["general"]
				switch {
				case c.nowhere == "" && len(found) == 0:
				case len(pods) != 1 || pods[0].Pod != "web/a" || c.nowhere == "" || !strings.Contains(pods[0].Reason, c.nowhere):
					t.Errorf("%+v", found)
				}
			})
		}
	}
}

// TestWhatHasBegunGoesOn checks that the nodes of a removal that has started take no pods, and that their own pods are
// not simulated.
func TestWhatHasBegunGoesOn(t *testing.T) {
	made, live := removing()
	made.Removals, live.Removals = nil, []v1alpha1.Removal{{Kind: render.NodePool, Name: "general", Phase: v1alpha1.RemovalDraining, UID: "p"}}
	if got := made.StartIfSchedulable(); len(got) != 0 {
		t.Errorf("begins %q", got)
	}
	if got := made.Leaving(live); len(got) != 1 {
		t.Errorf("leaving %v", got)
	}
}

// TestEC2IsAskedTwiceADay checks this, and that the result is unknown if EC2 does not respond.
func TestEC2IsAskedTwiceADay(t *testing.T) {
	made, live := removing()
	asked := 0
	s := fixture{}.simulator(t, nil, func() error { asked++; return nil })
	now := s.Now()
	s.Now = func() time.Time { return now }
	for _, c := range []struct {
		after time.Duration
		asked int
	}{{0, 1}, {11 * time.Hour, 1}, {2 * time.Hour, 2}} {
		now = now.Add(c.after)
		if _, err := s.Ask(t.Context(), made, live); err != nil || asked != c.asked {
			t.Errorf("after %s: asked %d times, %v", c.after, asked, err)
		}
	}
	_, err := fixture{}.simulator(t, nil, func() error { return errors.New("no right") }).Ask(t.Context(), made, live)
	if err == nil || !strings.Contains(err.Error(), "us-east-1 for its instance types: no right") {
		t.Errorf("%v", err)
	}
}

// TestSomePodsOfEachWorkload checks that some of each workload are selected if there are too many.
func TestSomePodsOfEachWorkload(t *testing.T) {
	var pods []corev1.Pod
	owned := func(owner types.UID, n int) {
		for range n {
			controls := true
			pods = append(pods, corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(fmt.Sprint(len(pods))), OwnerReferences: []metav1.OwnerReference{{UID: owner, Controller: &controls}}}})
		}
	}
	owned("a", 10)
	owned("b", 2)
	owned("c", 1)
	pods = append(pods, corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "own"}})
	counts := map[types.UID]int{}
	for _, pod := range some(pods, 8) {
		if owner := metav1.GetControllerOf(&pod); owner != nil {
			counts[owner.UID]++
		} else {
			counts[pod.UID]++
		}
	}
	if fmt.Sprint(counts) != "map[a:4 b:2 c:1 own:1]" {
		t.Errorf("%v", counts)
	}
	if n := len(some(pods, 100)); n != len(pods) {
		t.Errorf("%d pods of few", n)
	}
}

// TestWhyAPodHasNoPlace checks that each of Karpenter's reasons is contained once, the least frequent first.
func TestWhyAPodHasNoPlace(t *testing.T) {
	const label = `incompatible requirements, label "a" does not have known values`
	const other, limits = `incompatible requirements, key x, x In [1] not in x In [2]`, "all available instance types exceed limits for nodepool (NodePool=c)"
	for _, said := range []string{other + "; " + limits + "; " + label + "; " + label, limits + "; " + label + "; " + other + "; " + label} {
		if got := inShort(said); got != limits+"; "+other+"; "+label {
			t.Errorf("%q", got)
		}
	}
	if got := inShort(label + "; " + label + "; did not tolerate taint (taint=b:NoSchedule); " + label); got != "did not tolerate taint (taint=b:NoSchedule); "+label {
		t.Errorf("%q", got)
	}
}

// TestWhatLeavesElsewhereNeedsAPlaceToo checks that two pods cannot use the same capacity.
func TestWhatLeavesElsewhereNeedsAPlaceToo(t *testing.T) {
	for limit, want := range map[string]int{"8": 2, "10": 1, "12": 0} {
		t.Run(limit, func(t *testing.T) {
			f := fixture{limits: `limits: {cpu: "` + limit + `"},`}
			s, all := f.simulator(t, nil, never), f.capture(t)
			claim, node, pod := all.NodeClaims[0].DeepCopy(), all.Nodes[0].DeepCopy(), all.Pods[0].DeepCopy()
			for _, object := range []client.Object{claim, node} {
				object.SetName("n2")
				object.GetLabels()["karpenter.sh/nodepool"] = "other"
			}
			claim.UID, claim.Status.NodeName, claim.Status.ProviderID, node.Spec.ProviderID = "n2", "n2", "aws:///us-east-1a/n2", "aws:///us-east-1a/n2"
			pod.Name, pod.UID, pod.Spec.NodeName = "b", "b", "n2"
			all.NodeClaims, all.Nodes, all.Pods = append(all.NodeClaims, *claim), append(all.Nodes, *node), append(all.Pods, *pod)
			reader, err := NewCaptureClient(all)
			if err != nil {
				t.Fatal(err)
			}
			s.Reader = served{Reader: reader}
			made, live := removing()
			live.NodeClaims = append(live.NodeClaims, plan.NodeClaim{UID: "n2", Pool: "other", Node: "n2"})
			live.LeavingElsewhere = []render.Ref{{Kind: render.NodePool, Name: "other"}}
			found, err := s.Ask(t.Context(), made, live)
			if err != nil {
				t.Fatal(err)
			}
			if len(found["general"]) != want || len(found) > 1 {
				t.Errorf("%+v", found)
			}
		})
	}
}
