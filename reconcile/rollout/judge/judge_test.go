package judge

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// The wave of these tests began at began, its nodes were created a minute later, and it is judged 20 minutes later.
var (
	began = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	now   = began.Add(20 * time.Minute)
)

func at(after time.Duration) metav1.Time { return metav1.NewTime(began.Add(after)) }

// podOption changes a pod that works.
type podOption func(*corev1.Pod)

// newPod returns a pod of the Deployment gpu/train, or of another owner, that works: created two minutes after the wave
// began, and Ready since.
func newPod(name, node string, options ...podOption) *corev1.Pod {
	yes := true
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "gpu", Name: name, UID: types.UID(name), CreationTimestamp: at(2 * time.Minute),
			Labels:          map[string]string{"pod-template-hash": "5d4f"},
			OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "train-5d4f", UID: "rs", Controller: &yes}},
		},
		Spec: corev1.PodSpec{NodeName: node, RestartPolicy: corev1.RestartPolicyAlways, Containers: []corev1.Container{{Name: "app"}}},
		Status: corev1.PodStatus{
			Phase:             corev1.PodRunning,
			Conditions:        []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: at(3 * time.Minute)}},
			ContainerStatuses: []corev1.ContainerStatus{{Name: "app", Ready: true}},
		},
	}
	for _, option := range options {
		option(pod)
	}
	return pod
}

func owned(kind, name string, labels map[string]string) podOption {
	return func(p *corev1.Pod) {
		yes := true
		p.Labels = labels
		p.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: name, UID: types.UID(kind + name), Controller: &yes}}
		if kind == "" {
			p.OwnerReferences = nil
		}
	}
}

func template(hash string) podOption {
	return owned("ReplicaSet", "train-"+hash, map[string]string{"pod-template-hash": hash})
}

func daemonSet(p *corev1.Pod) {
	owned("DaemonSet", "agent", map[string]string{"controller-revision-hash": "7c"})(p)
}

func created(after time.Duration) podOption {
	return func(p *corev1.Pod) { p.CreationTimestamp = at(after) }
}

func task(p *corev1.Pod) { p.Spec.RestartPolicy = corev1.RestartPolicyNever }

// container returns the status of a pod's container.
func container(p *corev1.Pod) *corev1.ContainerStatus {
	if len(p.Status.ContainerStatuses) == 0 {
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app"}}
	}
	return &p.Status.ContainerStatuses[0]
}

// unready makes a pod not Ready since a time after the wave began.
func unready(since time.Duration) podOption {
	return func(p *corev1.Pod) {
		container(p).Ready = false
		p.Status.Conditions[0].Status, p.Status.Conditions[0].LastTransitionTime = corev1.ConditionFalse, at(since)
	}
}

// readySince makes a pod Ready since a time after the wave began.
func readySince(since time.Duration) podOption {
	return func(p *corev1.Pod) { p.Status.Conditions[0].LastTransitionTime = at(since) }
}

func waiting(reason string) podOption {
	return func(p *corev1.Pod) {
		unready(2 * time.Minute)(p)
		container(p).State.Waiting = &corev1.ContainerStateWaiting{Reason: reason}
	}
}

// restarted makes the container of a pod have restarted n times, the last time after it ran for a minute.
func restarted(n int32, last time.Duration, reason string) podOption {
	return func(p *corev1.Pod) {
		s := container(p)
		s.RestartCount = n
		s.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{
			ExitCode: 1, Reason: reason, StartedAt: at(last - time.Minute), FinishedAt: at(last),
		}
	}
}

// crashes is a crash loop.
func crashes(p *corev1.Pod) {
	waiting("CrashLoopBackOff")(p)
	restarted(5, 19*time.Minute, "Error")(p)
}

func failed(reason string) podOption {
	return func(p *corev1.Pod) {
		unready(4 * time.Minute)(p)
		p.Status.Phase, p.Status.Reason, p.Status.ContainerStatuses = corev1.PodFailed, reason, nil
	}
}

// exited makes a pod fail whose container exits with an error.
func exited(p *corev1.Pod) {
	unready(4 * time.Minute)(p)
	p.Status.Phase = corev1.PodFailed
	container(p).State.Terminated = &corev1.ContainerStateTerminated{ExitCode: 2, Reason: "Error", StartedAt: at(3 * time.Minute), FinishedAt: at(4 * time.Minute)}
}

func probe(startup *corev1.Probe) podOption {
	return func(p *corev1.Pod) { p.Spec.Containers[0].StartupProbe = startup }
}

func wants(name corev1.ResourceName) podOption {
	return func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{name: resource.MustParse("1")}
	}
}

// nodeNamed returns a node that works, a minute younger than the wave.
func nodeNamed(name string, options ...func(*Node)) Node {
	n := Node{Name: name, Type: "m7g.large", Created: began.Add(time.Minute), Conditions: []Condition{
		{corev1.NodeReady, corev1.ConditionTrue, began.Add(2 * time.Minute)},
		{corev1.NodeMemoryPressure, corev1.ConditionFalse, began.Add(2 * time.Minute)},
	}}
	for _, option := range options {
		option(&n)
	}
	return n
}

func with(conditions ...Condition) func(*Node) {
	return func(n *Node) {
		for _, c := range conditions {
			if c.Type == corev1.NodeReady {
				n.Conditions[0] = c
			} else {
				n.Conditions = append(n.Conditions, c)
			}
		}
	}
}

func since(kind corev1.NodeConditionType, status corev1.ConditionStatus, after time.Duration) Condition {
	return Condition{kind, status, began.Add(after)}
}

func resources(count int64) map[corev1.ResourceName]int64 {
	return map[corev1.ResourceName]int64{"nvidia.com/gpu": count}
}

func offers(n *Node) { n.Type, n.Offers = "g6.xlarge", resources(1) }

func gpuType(n *Node) { n.Type, n.Capacity = "g6.xlarge", resources(1) }

func launchedFor(n *Node) { gpuType(n); n.Requested = resources(1) }

// observed returns an Observation of pods on nodes: those named new… belong to the wave.
func observed(nodes []Node, pods ...*corev1.Pod) Observation {
	seen := Observation{Wave: Wave{Pool: "gpu", Began: began}, Owners: map[Key]Owner{}}
	if nodes == nil {
		nodes = []Node{nodeNamed("new"), nodeNamed("old")}
	}
	for _, n := range nodes {
		if strings.HasPrefix(n.Name, "new") {
			seen.New, seen.Wave.New = append(seen.New, n), append(seen.Wave.New, n.Name)
		} else {
			seen.Old, seen.Wave.Old = append(seen.Old, n), append(seen.Wave.Old, n.Name)
		}
	}
	for _, pod := range pods {
		if p, judged := podOf(pod, strings.HasPrefix(pod.Spec.NodeName, "new")); judged {
			seen.Pods = append(seen.Pods, p)
		}
	}
	return seen
}

// times returns n pods that differ in their names.
func times(n int, name, node string, options ...podOption) []*corev1.Pod {
	var pods []*corev1.Pod
	for i := range n {
		pods = append(pods, newPod(name+string(rune('a'+i)), node, options...))
	}
	return pods
}

func all(lists ...[]*corev1.Pod) []*corev1.Pod {
	var pods []*corev1.Pod
	for _, list := range lists {
		pods = append(pods, list...)
	}
	return pods
}

// outcome is what a case of TestJudge expects.
type outcome struct {
	nodes []Node
	pods  []*corev1.Pod
	owner Owner
	// now is when the wave is judged, after it began; 20 minutes by default.
	now     time.Duration
	want    State
	message string
}

// TestJudge: each rule, with a case in which it decides and one in which it does not.
func TestJudge(t *testing.T) {
	web := owned("StatefulSet", "web", map[string]string{"controller-revision-hash": "web-1"})
	for name, c := range map[string]outcome{
		"all pods work": {
			pods: all(times(2, "n", "new"), times(2, "o", "old")), want: Good, message: "2 of 2 pods work on the new node",
		},
		"no pods":                 {want: Inconclusive, message: "no pods except those of DaemonSets have run on the new node"},
		"pods of DaemonSets only": {pods: times(1, "n", "new", daemonSet), want: Inconclusive},
		"none of its nodes exists": {
			nodes: []Node{nodeNamed("old")}, want: Inconclusive, message: "none of 0 nodes of the wave exists",
		},
		"a static pod that crashes": {pods: times(1, "n", "new", crashes, func(p *corev1.Pod) {
			p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
		}), want: Inconclusive},
		"a terminating pod that crashes": {pods: times(1, "n", "new", crashes, func(p *corev1.Pod) {
			p.DeletionTimestamp = &metav1.Time{Time: now}
		}), want: Inconclusive},
		"a task that has succeeded": {pods: times(1, "n", "new", task, func(p *corev1.Pod) {
			unready(3 * time.Minute)(p)
			p.Status.Phase = corev1.PodSucceeded
		}), want: Good},

		// Crashes.
		"a crash loop": {
			pods: all(times(3, "n", "new", crashes), times(12, "o", "old")), want: Bad,
			message: "3 of 3 pods of gpu/train fail on the new node, 0 of 12 on old ones: container app exits with code 1",
		},
		"a crash loop on old nodes as well": {
			pods: all(times(3, "n", "new", crashes), times(2, "o", "old", crashes), times(1, "p", "old")), want: Inconclusive,
			message: "3 of 3 pods of gpu/train fail on the new node, 2 of 3 on old ones: container app exits with code 1 (not counted: they fail elsewhere as well)",
		},
		"a crash loop of few old pods":    {pods: all(times(3, "n", "new", crashes), times(1, "o", "old", crashes), times(5, "p", "old")), want: Bad},
		"a tenth of the pods crashes":     {pods: all(times(1, "n", "new", crashes), times(9, "m", "new"), times(3, "o", "old")), want: Good},
		"over a tenth of the pods crash":  {pods: all(times(1, "n", "new", crashes), times(8, "m", "new"), times(3, "o", "old")), want: Bad},
		"the only pod of a workload":      {pods: times(1, "n", "new", crashes), want: Bad, message: "1 of 1 pods of gpu/train fail on the new node, none runs on old ones: container app exits with code 1"},
		"two restarts at the start":       {pods: times(1, "n", "new", restarted(2, 4*time.Minute, "Error"), readySince(4*time.Minute)), want: Good},
		"a restart a minute ago":          {pods: times(1, "n", "new", restarted(2, 19*time.Minute, "Error"), readySince(19*time.Minute)), want: Undecided},
		"a restart, soon after the start": {now: 5 * time.Minute, pods: times(1, "n", "new", restarted(1, 4*time.Minute, "Error"), readySince(4*time.Minute)), want: Undecided},
		"three restarts, Ready again for a moment": {
			pods: times(1, "n", "new", restarted(3, 19*time.Minute, "Error"), readySince(19*time.Minute)), want: Bad,
		},
		"restarts before the wave": {
			pods: times(1, "n", "new", created(-time.Hour), restarted(9, -time.Minute, "Error"), readySince(-time.Minute)), want: Good,
		},
		"OOM killed": {
			pods: all(times(1, "n", "new", restarted(1, 4*time.Minute, "OOMKilled")), times(2, "o", "old")), want: Bad,
			message: "1 of 1 pods of gpu/train fail on the new node, 0 of 2 on old ones: OOMKilled",
		},
		"OOM killed before the wave": {
			pods: times(1, "n", "new", created(-time.Hour), restarted(1, -time.Minute, "OOMKilled"), readySince(-time.Minute)), want: Good,
		},
		"OOM killed on old nodes as well": {
			pods: all(times(1, "n", "new", restarted(1, 4*time.Minute, "OOMKilled")), times(2, "o", "old", created(-time.Hour), restarted(1, 4*time.Minute, "OOMKilled"))),
			want: Inconclusive,
		},

		// Images, volumes, probes.
		"an image that cannot be pulled": {
			pods: times(1, "n", "new", waiting("ImagePullBackOff")), want: Bad,
			message: "1 of 1 pods of gpu/train fail on the new node, none runs on old ones: container app: ImagePullBackOff",
		},
		"an image that cannot be pulled yet": {now: 4 * time.Minute, pods: times(1, "n", "new", waiting("ErrImagePull")), want: Undecided},
		"volumes are not mounted": {
			pods: times(1, "n", "new", waiting("ContainerCreating"), func(p *corev1.Pod) {
				p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionFalse})
			}), want: Bad,
			message: "1 of 1 pods of gpu/train fail on the new node, none runs on old ones: its volumes are not mounted, or its network is not set up",
		},
		"volumes are not mounted yet": {now: 6 * time.Minute, pods: times(1, "n", "new", waiting("ContainerCreating")), want: Undecided},
		"not Ready": {
			now: 8 * time.Minute, pods: all(times(2, "n", "new", unready(3*time.Minute)), times(1, "o", "old")), want: Bad,
			message: "2 of 2 pods of gpu/train fail on the new node, 0 of 1 on old ones: container app is not Ready",
		},
		"not Ready yet": {
			now: 6 * time.Minute, pods: all(times(1, "n", "new", unready(3*time.Minute)), times(1, "m", "new")), want: Undecided,
			message: "1 of 2 pods of gpu/train still start on the new node",
		},
		"not Ready within the time of its startup probe": {
			now: 8 * time.Minute, want: Undecided,
			pods: times(1, "n", "new", unready(3*time.Minute), probe(&corev1.Probe{PeriodSeconds: 10, FailureThreshold: 30})),
		},
		"not Ready after the time of its startup probe": {
			now: 13 * time.Minute, want: Bad,
			pods: times(1, "n", "new", unready(3*time.Minute), probe(&corev1.Probe{PeriodSeconds: 10, FailureThreshold: 30})),
		},
		"not Ready within a long progressDeadlineSeconds": {
			now: 11 * time.Minute, pods: times(1, "n", "new", unready(3*time.Minute)), owner: Owner{Deadline: 20 * time.Minute}, want: Undecided,
		},
		"not Ready within the default progressDeadlineSeconds": {
			now: 8 * time.Minute, pods: times(1, "n", "new", unready(3*time.Minute)), owner: Owner{Deadline: 10 * time.Minute}, want: Bad,
		},
		"not Ready for a moment": {pods: times(1, "n", "new", unready(19*time.Minute+30*time.Second)), want: Undecided},
		"a pod that starts long after the nodes": {
			pods: all(times(1, "n", "new", created(19*time.Minute), unready(19*time.Minute)), times(1, "m", "new")), want: Good,
		},

		// What does not count.
		"a pod that failed before the wave": {pods: times(1, "n", "new", created(-time.Hour), unready(-time.Minute)), want: Inconclusive},
		"a Deployment that was not Available before the wave": {
			pods: times(1, "n", "new", crashes), owner: Owner{Unavailable: began.Add(-time.Minute)}, want: Inconclusive,
			message: "1 of 1 pods of gpu/train fail on the new node: container app exits with code 1 (not counted: the Deployment was not Available before the wave)",
		},
		"a Deployment that is not Available since the wave": {
			pods: times(1, "n", "new", crashes), owner: Owner{Unavailable: began.Add(time.Minute)}, want: Bad,
		},
		"a template that was deployed during the wave": {
			pods: all(times(2, "n", "new", crashes), times(2, "o", "old", template("77aa"))), owner: Owner{Template: began.Add(time.Minute)}, want: Inconclusive,
		},
		"a template that was deployed during the wave, and works on old nodes": {
			pods: all(times(2, "n", "new", crashes), times(2, "o", "old")), owner: Owner{Template: began.Add(time.Minute)}, want: Bad,
		},
		"a template that was deployed before the wave": {
			pods: times(2, "n", "new", crashes), owner: Owner{Template: began.Add(-time.Minute)}, want: Bad,
		},
		"another template fails on old nodes": {pods: all(times(2, "n", "new", crashes), times(2, "o", "old", template("77aa"), crashes)), want: Bad},
		"a task fails":                        {pods: times(1, "n", "new", owned("Job", "etl", nil), task, exited), want: Inconclusive},
		"a task fails, and not on old nodes": {
			pods: all(times(1, "n", "new", owned("Job", "etl", nil), task, crashes), times(2, "o", "old", owned("Job", "etl", nil), task)), want: Bad,
		},
		"the kubelet refuses a task": {
			pods: times(1, "n", "new", owned("Job", "etl", nil), task, failed("UnexpectedAdmissionError")), want: Bad,
			message: "1 of 1 pods of gpu/etl fail on the new node, none runs on old ones: UnexpectedAdmissionError",
		},
		"stopped by a preemption":       {pods: times(1, "n", "new", failed("Preempting")), want: Inconclusive},
		"evicted for the node's memory": {pods: times(1, "n", "new", failed("Evicted")), want: Bad},
		"a pod without a controller, created during the wave": {
			pods: times(1, "n", "new", owned("", "", nil), crashes), want: Inconclusive,
			message: "1 of 1 pods of gpu/na fail on the new node: container app exits with code 1 (not counted: the pod template is newer than the wave)",
		},
		"a pod without a controller, created during the wave, beside one that works": {
			pods: all(times(1, "n", "new", owned("", "", nil), crashes), times(1, "m", "new")), want: Good,
		},
		"a pod without a controller, created before the wave": {pods: times(1, "n", "new", owned("", "", nil), created(-time.Hour), crashes), want: Bad},
		"the kubelet refuses a pod without a controller":      {pods: times(1, "n", "new", owned("", "", nil), failed("UnexpectedAdmissionError")), want: Bad},
		"the only pod of a custom controller": {
			pods: all(times(1, "n", "new", owned("Cluster", "pg", nil), crashes), times(1, "m", "new")), want: Inconclusive,
			message: "1 of 1 pods of gpu/pg fail on the new node: container app exits with code 1 (not counted: no pod elsewhere, and unknown whether it is newer than the wave)",
		},
		"a pod of a custom controller that works on old nodes": {
			pods: all(times(1, "n", "new", owned("Cluster", "pg", nil), crashes), times(1, "o", "old", owned("Cluster", "pg", nil))), want: Bad,
		},
		"the kubelet refuses a pod of a custom controller": {
			pods: times(1, "n", "new", owned("Cluster", "pg", nil), failed("UnexpectedAdmissionError")), want: Bad,
		},
		"a StatefulSet, not on other nodes": {pods: all(times(1, "n", "new", web, crashes), times(1, "o", "old", web)), want: Bad},
		"pods on old nodes were not read": {
			pods: all(times(1, "n", "new", crashes), times(3, "m", "new", template("77aa"))), owner: Owner{Skipped: true}, want: Inconclusive,
			message: "1 of 1 pods of gpu/train fail on the new node: container app exits with code 1 (not counted: the pods elsewhere were not read)",
		},

		"pods on old nodes were not read, and others work": {
			pods: all(times(1, "n", "new", crashes), times(1, "m", "new")), owner: Owner{Skipped: true}, want: Inconclusive,
		},
		"pods that start long after the nodes only": {
			pods: times(1, "n", "new", created(19*time.Minute), unready(19*time.Minute)), want: Inconclusive, message: "0 of 1 pods on the new node are Ready",
		},

		// DaemonSets.
		"a DaemonSet's pod is not Ready on the new node": {
			pods: all(times(1, "n", "new", daemonSet, unready(3*time.Minute)), times(3, "m", "new"), times(5, "o", "old", daemonSet)), want: Bad,
			message: "1 of 1 pods of gpu/agent fail on the new node, 0 of 5 on old ones: container app is not Ready",
		},
		"a DaemonSet's pods are Ready nowhere": {
			pods: all(times(1, "n", "new", daemonSet, unready(3*time.Minute)), times(3, "m", "new"), times(5, "o", "old", daemonSet, unready(-time.Hour))), want: Good,
		},

		// Nodes.
		"no GPU for the pods": {
			nodes: []Node{nodeNamed("new", launchedFor), nodeNamed("old", offers)}, want: Bad,
			pods:    all(times(3, "n", "new", wants("nvidia.com/gpu"), crashes), times(12, "o", "old", wants("nvidia.com/gpu"))),
			message: "3 of 3 pods of gpu/train fail on the new node, 0 of 12 on old ones: nvidia.com/gpu is 0",
		},
		"no GPU, which old nodes of the type offer": {
			nodes: []Node{nodeNamed("new", func(n *Node) { n.Type = "g6.xlarge" }), nodeNamed("old", offers)}, pods: times(1, "n", "new"), want: Bad,
			message: "1 of 1 new nodes, 0 of 1 old ones: nvidia.com/gpu is 0",
		},
		"no GPU, for which the node was launched":   {nodes: []Node{nodeNamed("new", launchedFor)}, pods: times(1, "n", "new"), want: Bad, message: "1 of 1 new nodes: nvidia.com/gpu is 0"},
		"no GPU, which the type has, unrequested":   {nodes: []Node{nodeNamed("new", gpuType)}, pods: times(1, "n", "new"), want: Good},
		"no GPU, which old nodes of the type miss":  {nodes: []Node{nodeNamed("new", launchedFor), nodeNamed("old", gpuType)}, pods: times(1, "n", "new"), want: Good},
		"no GPU, which old nodes of one type offer": {nodes: []Node{nodeNamed("new"), nodeNamed("old", offers)}, pods: times(1, "n", "new"), want: Good},
		"no GPU yet": {
			now: 10 * time.Minute, nodes: []Node{nodeNamed("new", launchedFor)}, pods: times(1, "n", "new"), want: Undecided,
			message: "1 of 1 new nodes still start: nvidia.com/gpu is 0",
		},
		"a node is not Ready": {
			nodes: []Node{nodeNamed("new", with(since(corev1.NodeReady, "Unknown", 10*time.Minute))), nodeNamed("old")}, pods: times(1, "n", "new"), want: Bad,
			message: "1 of 1 new nodes, 0 of 1 old ones: the node is not Ready",
		},
		"a node is not Ready for a moment": {
			nodes: []Node{nodeNamed("new", with(since(corev1.NodeReady, "False", 19*time.Minute+30*time.Second)))}, pods: times(1, "n", "new"), want: Undecided,
		},
		"a node is not Ready yet": {
			now: 5 * time.Minute, nodes: []Node{nodeNamed("new", with(since(corev1.NodeReady, "False", time.Minute)))}, pods: times(1, "n", "new"), want: Undecided,
		},
		"old nodes are not Ready, too": {
			nodes: []Node{nodeNamed("new", with(since(corev1.NodeReady, "False", 0))), nodeNamed("old", with(since(corev1.NodeReady, "Unknown", 0)))},
			pods:  times(1, "n", "new"), want: Good,
		},
		"memory pressure":        {nodes: []Node{nodeNamed("new", with(since(corev1.NodeMemoryPressure, "True", 0)))}, pods: times(1, "n", "new"), want: Bad},
		"a node problem":         {nodes: []Node{nodeNamed("new", with(since("KernelDeadlock", "True", 0))), nodeNamed("old")}, pods: times(1, "n", "new"), want: Bad},
		"no node problem":        {nodes: []Node{nodeNamed("new", with(since("KernelDeadlock", "False", 0))), nodeNamed("old")}, pods: times(1, "n", "new"), want: Good},
		"unhealthy GPUs":         {nodes: []Node{nodeNamed("new", with(since("AcceleratedHardwareReady", "False", 0))), nodeNamed("old")}, pods: times(1, "n", "new"), want: Bad},
		"healthy GPUs":           {nodes: []Node{nodeNamed("new", with(since("AcceleratedHardwareReady", "True", 0))), nodeNamed("old")}, pods: times(1, "n", "new"), want: Good},
		"a condition to compare": {nodes: []Node{nodeNamed("new", with(since("Custom", "True", 0)))}, pods: times(1, "n", "new"), want: Good},
	} {
		t.Run(name, func(t *testing.T) {
			seen := observed(c.nodes, c.pods...)
			for i := range seen.Pods {
				if seen.Pods[i].New && seen.Pods[i].Workload.Template != "77aa" {
					seen.Owners[seen.Pods[i].Workload] = c.owner
				}
			}
			when := now
			if c.now != 0 {
				when = began.Add(c.now)
			}
			got := Judge(seen, when)
			if got.State != c.want || c.message != "" && got.Message != c.message {
				t.Errorf("%s: %q, want %s: %q\n%+v", got.State, got.Message, c.want, c.message, got.Workloads)
			}
			if !got.Again.After(when) {
				t.Errorf("it is judged again at %s, want a time after %s", got.Again, when)
			}
		})
	}
}

// TestMessage: the worst workloads come first, and only three are named.
func TestMessage(t *testing.T) {
	pods := times(4, "z", "new1", owned("", "", nil), created(-time.Hour), crashes)
	pods = append(pods, all(times(2, "n", "new1", crashes), times(2, "m", "new2"), times(3, "o", "old"))...)
	seen := observed([]Node{nodeNamed("new1"), nodeNamed("new2"), nodeNamed("old")}, pods...)
	seen.Wave.New = append(seen.Wave.New, "new3")
	const want = "1 of 1 pods of gpu/za fail on the new nodes, none runs on old ones: container app exits with code 1; " +
		"1 of 1 pods of gpu/zb fail on the new nodes, none runs on old ones: container app exits with code 1; " +
		"1 of 1 pods of gpu/zc fail on the new nodes, none runs on old ones: container app exits with code 1; and 2 more" +
		"; 1 of 3 nodes of the wave no longer exist"
	got := Judge(seen, now)
	if got.Message != want {
		t.Errorf("got  %s\nwant %s", got.Message, want)
	}
	if last := got.Workloads[len(got.Workloads)-1]; last.Name != "train" || last.New != (Count{All: 4, Failing: 2}) || last.Old != (Count{All: 3}) {
		t.Errorf("the last workload is %+v, want train with 2 of 4 failing", last)
	}
}

// TestExcused: what fails on old nodes as well is remembered until no old node is left, by its template.
func TestExcused(t *testing.T) {
	first := Judge(observed(nil, all(times(1, "n", "new", crashes), times(1, "o", "old", crashes))...), now)
	excused := first.Excused(first.Excused(nil))
	if len(excused) != 1 || excused[0] != "Deployment gpu/train 5d4f" {
		t.Fatalf("excused: %+v", excused)
	}
	for hash, want := range map[string]State{"5d4f": Inconclusive, "77aa": Bad} {
		last := observed([]Node{nodeNamed("new")}, times(1, "n", "new", template(hash), crashes)...)
		last.Wave.Excused = excused
		if got := Judge(last, now); got.State != want {
			t.Errorf("template %s: %s: %q, want %s", hash, got.State, got.Message, want)
		}
	}
}

// TestAgain: looks at large waves are rarer.
func TestAgain(t *testing.T) {
	for nodes, want := range map[int]time.Duration{1: 15 * time.Second, 64: 15 * time.Second, 256: time.Minute} {
		got := Judge(Observation{Wave: Wave{New: make([]string, nodes)}}, now).Again.Sub(now)
		if got != want {
			t.Errorf("%d nodes are looked at again in %s, want %s", nodes, got, want)
		}
	}
}

// TestFailing: what fails on a node that is being replaced does not count on the node that replaces it, even if it is the
// only pod of its workload, and has crashed long ago or just now.
func TestFailing(t *testing.T) {
	for name, c := range map[string]struct {
		pod  []podOption
		want State
	}{
		"it works":                        {want: Bad},
		"a crash loop":                    {pod: []podOption{crashes}, want: Inconclusive},
		"a crash loop that just began":    {pod: []podOption{created(19 * time.Minute), crashes}, want: Inconclusive},
		"the kubelet's back-off is long":  {pod: []podOption{created(-time.Hour), waiting("CrashLoopBackOff"), restarted(9, -4*time.Minute, "Error")}, want: Inconclusive},
		"an image that cannot be pulled":  {pod: []podOption{created(19 * time.Minute), waiting("ImagePullBackOff")}, want: Inconclusive},
		"a restart":                       {pod: []podOption{restarted(1, -time.Hour, "Error"), readySince(-time.Hour)}, want: Bad},
		"it has another template":         {pod: []podOption{template("77aa"), crashes}, want: Bad},
		"it is not Ready for a long time": {pod: []podOption{created(-time.Hour), unready(-time.Hour)}, want: Inconclusive},
		"it was evicted":                  {pod: []podOption{created(-time.Hour), failed("Evicted")}, want: Bad},
		"it was OOMKilled long ago":       {pod: []podOption{created(-2 * time.Hour), restarted(1, -time.Hour, "OOMKilled"), readySince(-time.Hour)}, want: Bad},
		"it was OOMKilled a moment ago":   {pod: []podOption{created(-time.Hour), restarted(1, 19*time.Minute, "OOMKilled"), readySince(19 * time.Minute)}, want: Inconclusive},
		"it crashed long ago, and is Ready again after a moment": {
			pod: []podOption{created(-2 * time.Hour), restarted(5, -time.Hour, "Error"), readySince(19 * time.Minute)}, want: Bad,
		},
		"it crashed long ago, and is not Ready for a moment": {
			pod: []podOption{created(-2 * time.Hour), restarted(5, -time.Hour, "Error"), unready(19*time.Minute + 30*time.Second)}, want: Bad,
		},
	} {
		t.Run(name, func(t *testing.T) {
			before := observed([]Node{nodeNamed("new")}, times(1, "o", "new", c.pod...)...)
			before.Wave.Began = time.Time{}
			after := observed([]Node{nodeNamed("new")}, times(1, "n", "new", crashes)...)
			after.Wave.Excused = before.Failing(nil, now)
			if got := Judge(after, now); got.State != c.want {
				t.Errorf("%s: %q, want %s; excused: %q", got.State, got.Message, c.want, after.Wave.Excused)
			}
		})
	}
}

// TestACrashLoopSinceBeforeTheWave: pods on old nodes that wait for the kubelet's back-off fail, however young they are.
func TestACrashLoopSinceBeforeTheWave(t *testing.T) {
	old := times(3, "o", "old", created(-20*time.Second), unready(-10*time.Second), waiting("CrashLoopBackOff"), restarted(5, -10*time.Second, "Error"))
	seen := observed(nil, all(times(1, "n", "new", crashes, restarted(5, 40*time.Second, "Error")), old)...)
	if got := Judge(seen, began.Add(time.Minute)); got.State == Bad {
		t.Errorf("%s: %q", got.State, got.Message)
	}
}

// TestEarlierNodesAreJudged: pods that crash on a node of an earlier wave make the newest one Bad; pods that work there do
// not make it Good.
func TestEarlierNodesAreJudged(t *testing.T) {
	for name, c := range map[string]struct {
		earlier []podOption
		latest  []*corev1.Pod
		want    State
	}{
		"both work":                      {latest: times(1, "l", "new2", owned("StatefulSet", "db", nil)), want: Good},
		"nothing runs on the newest":     {want: Inconclusive},
		"pods crash on the earlier node": {earlier: []podOption{crashes}, latest: times(1, "l", "new2", owned("StatefulSet", "db", nil)), want: Bad},
	} {
		t.Run(name, func(t *testing.T) {
			seen := observed([]Node{nodeNamed("new"), nodeNamed("new2")}, slices.Concat(times(1, "n", "new", c.earlier...), c.latest)...)
			seen.Wave.New, seen.Wave.Latest = []string{"new", "new2"}, []string{"new2"}
			for i := range seen.Pods {
				seen.Pods[i].New = true
			}
			if got := Judge(seen, now); got.State != c.want {
				t.Errorf("%s: %q, want %s", got.State, got.Message, c.want)
			}
		})
	}
}

// TestExcusedShare: a workload does not count on new nodes while at most twice the share of its pods fails that failed on
// old ones.
func TestExcusedShare(t *testing.T) {
	for name, c := range map[string]struct {
		failed, all int
		now         int // of 4 pods on new nodes
		excused     string
		want        State
	}{
		"half":                  {failed: 2, all: 4, now: 4, excused: "Deployment gpu/train 5d4f", want: Inconclusive},
		"a fifth, and all":      {failed: 1, all: 5, now: 4, excused: "Deployment gpu/train 5d4f 20%", want: Bad},
		"a fifth, and a fourth": {failed: 1, all: 5, now: 1, excused: "Deployment gpu/train 5d4f 20%", want: Good},
		"a tenth":               {failed: 1, all: 10, now: 1, want: Bad},
	} {
		t.Run(name, func(t *testing.T) {
			before := observed([]Node{nodeNamed("new")}, all(times(c.failed, "f", "new", crashes), times(c.all-c.failed, "w", "new"))...)
			after := observed([]Node{nodeNamed("new")}, all(times(c.now, "f", "new", crashes), times(4-c.now, "w", "new"))...)
			after.Wave.Excused = before.Failing(nil, now)
			if got := strings.Join(after.Wave.Excused, ","); got != c.excused {
				t.Errorf("excused: %q, want %q", got, c.excused)
			}
			if again := before.Failing(after.Wave.Excused, now); !slices.Equal(again, after.Wave.Excused) {
				t.Errorf("excused again: %q", again)
			}
			if got := Judge(after, now); got.State != c.want {
				t.Errorf("%s: %q, want %s", got.State, got.Message, c.want)
			}
		})
	}
}

// TestLeftover: a pod on an old node that its controller has replaced is compared only with such pods; one of a task is compared.
func TestLeftover(t *testing.T) {
	job := owned("Job", "etl", nil)
	for name, c := range map[string]struct {
		pods []*corev1.Pod
		want State
	}{
		"an evicted pod":           {pods: all(times(1, "n", "new", crashes), times(1, "o", "old", failed("Evicted"))), want: Bad},
		"evicted pods":             {pods: all(times(1, "n", "new", failed("Evicted")), times(1, "o", "old", failed("Evicted"))), want: Inconclusive},
		"an evicted pod of a task": {pods: all(times(1, "n", "new", job, task, failed("UnexpectedAdmissionError")), times(1, "o", "old", job, task, failed("Evicted"))), want: Bad},
		"a task that has failed":   {pods: all(times(2, "n", "new", job, task, exited), times(1, "o", "old", job, task, exited)), want: Inconclusive},
		"a task that has worked":   {pods: all(times(2, "n", "new", job, task, exited), times(1, "o", "old", job, task)), want: Bad},
	} {
		if got := Judge(observed(nil, c.pods...), now); got.State != c.want {
			t.Errorf("%s: %s: %q, want %s", name, got.State, got.Message, c.want)
		}
	}
}
