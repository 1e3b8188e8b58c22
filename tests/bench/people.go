package bench

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"
)

// The resources of a machine.
var (
	nodeClaims = schema.GroupVersionResource{Group: "karpenter.sh", Version: "v1", Resource: "nodeclaims"}
	nodes      = schema.GroupVersionResource{Version: "v1", Resource: "nodes"}
)

func nodeName(i int) string {
	return fmt.Sprintf("ip-10-%d-%d-%d.ec2.internal", i>>16, i>>8&255, i&255)
}

// people creates the NodeClaims and Nodes of the fleet's pools, as many as requested, spread over the pools.
func (b *bench) people(ctx context.Context) error {
	machines, err := b.machines(ctx, 0, b.options.Nodes)
	if err != nil {
		return err
	}
	return b.raw.applier.each(ctx, machines, makeMachine)
}

// machines returns n NodeClaims, numbered from first on and spread over the pools, each with the name of its Node.
func (b *bench) machines(ctx context.Context, first, n int) ([]definition, error) {
	pools, err := b.objects.Resource(nodePools).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list the NodePools: %w", err)
	}
	machines := make([]definition, n)
	for i := range machines {
		pool, number := pools.Items[i%len(pools.Items)], first+i
		machines[i] = definition{kind: nodeClaims, name: nodeName(number), content: fmt.Sprintf(nodeClaimYAML, number, pool.GetName(), pool.GetUID(), instance(number), nodeName(number))}
	}
	return machines, nil
}

func instance(i int) string { return fmt.Sprintf("i-%017x", i) }

// makeMachine creates a NodeClaim with its status, and its Node.
func makeMachine(ctx context.Context, client dynamic.Interface, d definition) error {
	if err := makeClaim(ctx, client, d); err != nil {
		return err
	}
	_, err := create(ctx, client, definition{kind: nodes, name: d.name, content: fmt.Sprintf(nodeYAML, d.name)})
	return err // this includes its status
}

// makeClaim creates a NodeClaim with its status.
func makeClaim(ctx context.Context, client dynamic.Interface, d definition) error {
	o, err := create(ctx, client, d)
	if err != nil {
		return err
	}
	status, err := (&unstructured.Unstructured{Object: map[string]any{"status": o.Object["status"]}}).MarshalJSON()
	if err != nil {
		return fmt.Errorf("encode the status of %s: %w", d.name, err)
	}
	_, err = client.Resource(d.kind).Patch(ctx, o.GetName(), types.MergePatchType, status, metav1.PatchOptions{FieldManager: "karpenter"}, "status")
	if err != nil {
		return fmt.Errorf("set the status of the %s of %s: %w", d.kind.Resource, d.name, err)
	}
	return nil
}

// create creates a definition, and returns the object in it.
func create(ctx context.Context, client dynamic.Interface, d definition) (*unstructured.Unstructured, error) {
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(d.content), &o.Object); err != nil {
		return nil, fmt.Errorf("read the %s of %s: %w", d.kind.Resource, d.name, err)
	}
	if _, err := client.Resource(d.kind).Create(ctx, o, metav1.CreateOptions{FieldManager: "karpenter"}); err != nil {
		return nil, fmt.Errorf("make the %s of %s: %w", d.kind.Resource, d.name, err)
	}
	return o, nil
}

// nodeClaimYAML is a NodeClaim as Karpenter writes it.
const nodeClaimYAML = `apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata:
  name: claim-%[1]d
  finalizers: [karpenter.sh/termination]
  labels:
    karpenter.sh/nodepool: %[2]s
    karpenter.sh/capacity-type: on-demand
    karpenter.k8s.aws/instance-category: m
    karpenter.k8s.aws/instance-cpu: "8"
    karpenter.k8s.aws/instance-family: m5
    karpenter.k8s.aws/instance-generation: "5"
    karpenter.k8s.aws/instance-hypervisor: nitro
    karpenter.k8s.aws/instance-memory: "32768"
    karpenter.k8s.aws/instance-size: 2xlarge
    kubernetes.io/arch: amd64
    kubernetes.io/os: linux
    node.kubernetes.io/instance-type: m5.2xlarge
    topology.kubernetes.io/region: eu-west-1
    topology.kubernetes.io/zone: eu-west-1a
  annotations:
    karpenter.k8s.aws/ec2nodeclass-hash: "12345678901234567890"
    karpenter.k8s.aws/ec2nodeclass-hash-version: v4
    karpenter.sh/nodepool-hash: "12345678901234567890"
    karpenter.sh/nodepool-hash-version: v3
  ownerReferences:
    - {apiVersion: karpenter.sh/v1, kind: NodePool, name: %[2]s, uid: %[3]s, blockOwnerDeletion: true}
spec:
  expireAfter: 720h
  nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: %[2]s}
  requirements:
    - {key: karpenter.sh/nodepool, operator: In, values: [%[2]s]}
    - {key: kubernetes.io/arch, operator: In, values: [amd64]}
    - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand, spot]}
    - {key: node.kubernetes.io/instance-type, operator: In, values: [m5.2xlarge, m5a.2xlarge, m6i.2xlarge, r5.2xlarge]}
  resources: {requests: {cpu: 7300m, memory: 20Gi, pods: "12"}}
status:
  nodeName: %[5]s
  providerID: aws:///eu-west-1a/%[4]s
  imageID: ami-00000000000000001
  capacity: {cpu: "8", memory: 31Gi, pods: "58", ephemeral-storage: 100Gi}
  allocatable: {cpu: 7910m, memory: 29Gi, pods: "58", ephemeral-storage: 89Gi}
  conditions:
    - {type: Launched, status: "True", reason: Launched, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}
    - {type: Registered, status: "True", reason: Registered, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}
    - {type: Initialized, status: "True", reason: Initialized, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}
    - {type: Ready, status: "True", reason: Ready, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}
`

// nodeYAML is a Node as a kubelet writes it.
const nodeYAML = `apiVersion: v1
kind: Node
metadata:
  name: %[1]s
  labels: {kubernetes.io/hostname: %[1]s, kubernetes.io/arch: amd64, kubernetes.io/os: linux, karpenter.sh/registered: "true"}
status:
  capacity: {cpu: "8", memory: 31Gi, pods: "58", ephemeral-storage: 100Gi}
  allocatable: {cpu: 7910m, memory: 29Gi, pods: "58", ephemeral-storage: 89Gi}
  nodeInfo: {architecture: amd64, bootID: b, containerRuntimeVersion: containerd://2.1.5, kernelVersion: "6.12", kubeProxyVersion: "", kubeletVersion: v1.36.3, machineID: m, operatingSystem: linux, osImage: Amazon Linux 2023, systemUUID: s}
  conditions:
    - {type: Ready, status: "True", reason: KubeletReady, message: kubelet is posting ready status, lastHeartbeatTime: "2026-01-01T00:00:00Z", lastTransitionTime: "2026-01-01T00:00:00Z"}
    - {type: MemoryPressure, status: "False", reason: KubeletHasSufficientMemory, message: kubelet has sufficient memory available, lastHeartbeatTime: "2026-01-01T00:00:00Z", lastTransitionTime: "2026-01-01T00:00:00Z"}
    - {type: DiskPressure, status: "False", reason: KubeletHasNoDiskPressure, message: kubelet has no disk pressure, lastHeartbeatTime: "2026-01-01T00:00:00Z", lastTransitionTime: "2026-01-01T00:00:00Z"}
    - {type: PIDPressure, status: "False", reason: KubeletHasSufficientPID, message: kubelet has sufficient PID available, lastHeartbeatTime: "2026-01-01T00:00:00Z", lastTransitionTime: "2026-01-01T00:00:00Z"}
`
