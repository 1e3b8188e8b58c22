package judge

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// Observation is what Judge needs to know about a wave: a small part of each object.
type Observation struct {
	Wave Wave
	// New are the Nodes of the wave that exist; Old a sample of the old ones.
	New, Old []Node
	// Pods are those on the wave's nodes, and those on old nodes of workloads that fail there. Terminating and static
	// pods are omitted.
	Pods []Pod
	// Owners has what was read about the controllers of pods that fail.
	Owners map[Key]Owner

	// labels select the pods of the workloads on the wave's nodes. Only Observe uses them.
	labels map[Key]map[string]string
}

// Key identifies a workload: a controller and a pod template.
type Key struct {
	Kind, Namespace, Name string
	// Template is the hash of the pod template; empty if the pods have none.
	Template string
	// UID is that of the controller; of the pod if it has none.
	UID types.UID
}

// Owner is what is known about a controller.
type Owner struct {
	// Template is when the pod template was created; zero if unknown.
	Template time.Time
	// Unavailable is since when a Deployment is not Available; zero if it is, or is none.
	Unavailable time.Time
	// Deadline is the progressDeadlineSeconds of a Deployment; 0 if unknown.
	Deadline time.Duration
	// Skipped reports whether its pods on old nodes were not read, or not all of them.
	Skipped bool
}

// Node is the part of a Node that is judged.
type Node struct {
	Name, Type string
	Created    time.Time
	Conditions []Condition
	// Offers are the extended resources in its allocatable. Capacity are those that its instance type has, and Requested
	// those for which it was launched, both by its NodeClaim; empty for old nodes.
	Offers, Capacity, Requested map[corev1.ResourceName]int64
}

// Condition is a condition of a Node, and since when.
type Condition struct {
	Type   corev1.NodeConditionType
	Status corev1.ConditionStatus
	Since  time.Time
}

// Pod is the part of a pod that is judged.
type Pod struct {
	Workload        Key
	Namespace, Name string
	Node            string
	// New reports whether the node belongs to the wave.
	New     bool
	Created time.Time
	// Ready is its condition, and Changed since when; Changed is Created if it has none.
	Ready   bool
	Changed time.Time
	// Succeeded and Failed are its phase. Ended is when its last container terminated; Created if none has run.
	Succeeded, Failed bool
	Ended             time.Time
	// Refused reports whether the kubelet did not admit it; Stopped whether an eviction, a preemption or the shutdown of
	// its node has stopped it.
	Refused, Stopped bool
	// Error reports whether a container waits because of an error: an image that cannot be pulled, a missing Secret. A
	// crash is none.
	Error bool
	// Restarts is the number of restarts of the container that has the most. Crashed is when a container last
	// terminated before a restart, and Ran how long it had run. OOMKilled is when one was last killed for its memory.
	Restarts  int32
	Crashed   time.Time
	Ran       time.Duration
	OOMKilled time.Time
	// Probes is how long its startup and readiness probes may take until it is Ready.
	Probes time.Duration
	// Task reports whether its containers are not restarted after they succeed.
	Task bool
	// Wants are the extended resources that it requests.
	Wants []corev1.ResourceName
	// Cause is why it is not Ready, has failed, or last crashed; empty if none of these applies.
	Cause string
}

// The kinds of workloads with special rules. kindPod is a pod without a controller.
const (
	kindDeployment = "Deployment"
	kindDaemonSet  = "DaemonSet"
	kindPod        = "Pod"
	kindNode       = "Node"
)

// The labels by which controllers identify the pod template.
const (
	replicaSetHash = "pod-template-hash"
	// argoHash is that of Argo Rollouts, whose ReplicaSets are otherwise like those of a Deployment.
	argoHash     = "rollouts-pod-template-hash"
	revisionHash = "controller-revision-hash"
)

// templateLabel returns the label of a pod that identifies its template, and its value; empty if it has none.
func templateLabel(labels map[string]string) (label, hash string) {
	for _, label := range []string{replicaSetHash, argoHash, revisionHash} {
		if hash := labels[label]; hash != "" {
			return label, hash
		}
	}
	return "", ""
}

// keyOf returns the workload of a pod. A ReplicaSet's name is that of its Deployment plus the template's hash.
func keyOf(pod *corev1.Pod) Key {
	owner := metav1.GetControllerOf(pod)
	if owner == nil {
		return Key{Kind: kindPod, Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}
	}
	label, hash := templateLabel(pod.Labels)
	key := Key{Kind: owner.Kind, Namespace: pod.Namespace, Name: owner.Name, Template: hash, UID: owner.UID}
	if name, trimmed := strings.CutSuffix(owner.Name, "-"+hash); label == replicaSetHash && owner.Kind == "ReplicaSet" && trimmed {
		key.Kind, key.Name = kindDeployment, name
	}
	return key
}

// podOf returns the part of a pod that is judged. It returns false if the pod is terminating, or is a static pod.
func podOf(pod *corev1.Pod, isNew bool) (Pod, bool) {
	if _, static := pod.Annotations[corev1.MirrorPodAnnotationKey]; static || pod.DeletionTimestamp != nil {
		return Pod{}, false
	}
	p := Pod{
		Workload: keyOf(pod), Namespace: pod.Namespace, Name: pod.Name, Node: pod.Spec.NodeName, New: isNew,
		Created: pod.CreationTimestamp.Time, Changed: pod.CreationTimestamp.Time, Ended: pod.CreationTimestamp.Time,
		Succeeded: pod.Status.Phase == corev1.PodSucceeded, Failed: pod.Status.Phase == corev1.PodFailed,
		Task: pod.Spec.RestartPolicy == corev1.RestartPolicyNever || pod.Spec.RestartPolicy == corev1.RestartPolicyOnFailure,
	}
	p.conditions(pod)
	p.containers(pod)
	p.requests(pod)
	if p.Cause == "" && !p.Ready && !p.Succeeded {
		p.Cause = notReady(pod)
	}
	if p.Failed && pod.Status.Reason != "" {
		p.Cause = pod.Status.Reason
		p.Refused = len(pod.Status.ContainerStatuses) == 0 && pod.Status.Reason != evicted
	}
	return p, true
}

// conditions sets what the conditions of the pod show.
func (p *Pod) conditions(pod *corev1.Pod) {
	for _, c := range pod.Status.Conditions {
		switch {
		case c.Type == corev1.PodReady:
			p.Ready, p.Changed = c.Status == corev1.ConditionTrue, c.LastTransitionTime.Time
		case c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue && c.Reason != corev1.PodReasonTerminationByKubelet:
			p.Stopped = p.Failed
		}
	}
	p.Stopped = p.Stopped || p.Failed && slices.Contains(stops, pod.Status.Reason)
}

// evicted is the reason of pods that the kubelet stops because its node is short of memory or disk.
const evicted = "Evicted"

// stops are the reasons of pods that failed because of the shutdown of their node or a pod of a higher priority
// (pkg/kubelet/nodeshutdown and pkg/kubelet/preemption in kubernetes), or because the scheduler and the kubelet did not
// agree for a moment on what is free on a new node (pkg/kubelet/lifecycle/predicate.go): their controller replaces them.
var stops = []string{
	"Terminated", "NodeShutdown", "Shutdown", "Preempting", "NodeLost",
	"NodeAffinity", "OutOfcpu", "OutOfmemory", "OutOfpods", "OutOfephemeral-storage",
}

// containers sets what the statuses of the containers show.
func (p *Pod) containers(pod *corev1.Pod) {
	for _, s := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		p.Restarts = max(p.Restarts, s.RestartCount)
		for _, ended := range []*corev1.ContainerStateTerminated{s.State.Terminated, s.LastTerminationState.Terminated} {
			if ended != nil {
				p.ended(s, ended)
			}
		}
		waiting := s.State.Waiting
		if waiting == nil || p.Error || slices.Contains(waits, waiting.Reason) {
			continue
		}
		p.Error = waiting.Reason != crashLoop
		if p.Error || p.Cause == "" {
			p.Cause = "container " + s.Name + ": " + waiting.Reason
		}
	}
}

// crashLoop is the reason why a container waits after a crash. waits are those without an error
// (pkg/kubelet/kubelet_pods.go and pkg/kubelet/images/types.go in kubernetes).
const crashLoop = "CrashLoopBackOff"

var waits = []string{"", "ContainerCreating", "PodInitializing"}

// ended notes that a container has terminated.
func (p *Pod) ended(s corev1.ContainerStatus, state *corev1.ContainerStateTerminated) {
	at := state.FinishedAt.Time
	if p.Ended.Before(at) {
		p.Ended = at
	}
	if state.Reason == "OOMKilled" && p.OOMKilled.Before(at) {
		p.OOMKilled = at
	}
	if state == s.State.Terminated && state.ExitCode == 0 { // for example an init container that has completed
		return
	}
	if !p.Crashed.After(at) {
		p.Crashed, p.Ran = at, at.Sub(state.StartedAt.Time)
		if !p.Error {
			p.Cause = "container " + s.Name + " exits with code " + strconv.Itoa(int(state.ExitCode))
		}
	}
}

// notReady returns why a pod is not Ready whose containers show no error.
func notReady(pod *corev1.Pod) string {
	for _, s := range pod.Status.InitContainerStatuses {
		sidecar := s.Started != nil && *s.Started
		if s.State.Terminated == nil && !sidecar {
			if s.State.Running != nil {
				return "init container " + s.Name + " does not complete"
			}
			return notCreated(pod, s.Name)
		}
	}
	for _, s := range pod.Status.ContainerStatuses {
		switch {
		case s.Ready:
		case s.State.Waiting != nil:
			return notCreated(pod, s.Name)
		default:
			return "container " + s.Name + " is not Ready"
		}
	}
	if len(pod.Status.ContainerStatuses) == 0 {
		return notCreated(pod, "")
	}
	return "not Ready"
}

// notCreated returns why the containers of a pod are not created. The condition PodReadyToStartContainers is True once
// volumes are mounted and the network is set up
// (https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-has-network).
func notCreated(pod *corev1.Pod, name string) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReadyToStartContainers && c.Status == corev1.ConditionFalse {
			return "its volumes are not mounted, or its network is not set up"
		}
	}
	if name == "" {
		return "the kubelet does not start it"
	}
	return "container " + name + " is not created"
}

// requests sets what the containers' specs show.
func (p *Pod) requests(pod *corev1.Pod) {
	wants := map[corev1.ResourceName]bool{}
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		p.Probes = max(p.Probes, lasts(c.StartupProbe)+lasts(c.ReadinessProbe))
		for resource, quantity := range c.Resources.Requests {
			if extended(resource) && !quantity.IsZero() {
				wants[resource] = true
			}
		}
	}
	p.Wants = slices.Sorted(maps.Keys(wants))
}

// lasts returns how long a probe may take until it has succeeded or failed.
func lasts(probe *corev1.Probe) time.Duration {
	if probe == nil {
		return 0
	}
	period, times := max(probe.PeriodSeconds, 1), max(probe.FailureThreshold, probe.SuccessThreshold, 1)
	return time.Duration(probe.InitialDelaySeconds)*time.Second + time.Duration(period)*time.Duration(times)*time.Second
}

// extended reports whether a device plugin, or another agent, offers a resource
// (https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/#extended-resources).
func extended(resource corev1.ResourceName) bool {
	domain, _, qualified := strings.Cut(string(resource), "/")
	return qualified && domain != "kubernetes.io" && !strings.HasSuffix(domain, ".kubernetes.io")
}

// extendedOf returns the extended resources of a list that are not 0.
func extendedOf(list corev1.ResourceList) map[corev1.ResourceName]int64 {
	found := map[corev1.ResourceName]int64{}
	for resource, quantity := range list {
		if extended(resource) && !quantity.IsZero() {
			found[resource] = quantity.Value()
		}
	}
	return found
}

// nodeOf returns the part of a Node that is judged.
func nodeOf(node *corev1.Node) Node {
	n := Node{
		Name: node.Name, Type: node.Labels[corev1.LabelInstanceTypeStable], Created: node.CreationTimestamp.Time,
		Offers: extendedOf(node.Status.Allocatable),
	}
	for _, c := range node.Status.Conditions {
		n.Conditions = append(n.Conditions, Condition{Type: c.Type, Status: c.Status, Since: c.LastTransitionTime.Time})
	}
	return n
}

// claimed adds what the NodeClaim of a node shows.
func (n *Node) claimed(claim *karpv1.NodeClaim) {
	n.Capacity, n.Requested = extendedOf(claim.Status.Capacity), extendedOf(claim.Spec.Resources.Requests)
}
